#include "specification.h"

#include "addnorm/base/files.h"
#include "addnorm/model/static_checks.h"
#include "output.h"

namespace addnorm::cli {

formula::Catalogue chosen_catalogue(const std::string& file) {
  constexpr uint64_t limit = uint64_t{16} << 20;
  return file.empty() ? formula::Catalogue::builtin()
                      : formula::Catalogue::with_file(read_file(file, limit), file);
}

Model load_model(const std::string& spec, const std::string& catalogue,
                 const Invocation& invocation, model::Needs needs) {
  Model model{chosen_catalogue(catalogue), {}, {}, {}};
  model.specification = model::load(spec, invocation.overrides, needs, model.catalogue);
  Findings findings = model.specification.findings;
  model.shape = model::shape(model.specification, model.catalogue);
  model.graph = model::build(model.specification, model.shape, &findings);
  log_findings(findings, invocation.verbose);
  return model;
}

}  // namespace addnorm::cli
