#include "specification.h"

#include "addnorm/base/files.h"
#include "addnorm/base/text.h"
#include "addnorm/lab/run.h"
#include "addnorm/model/static_checks.h"
#include "output.h"

namespace addnorm::cli {

formula::Catalogue chosen_catalogue(const std::string& file) {
  constexpr uint64_t limit = uint64_t{16} << 20;
  return file.empty() ? formula::Catalogue::builtin()
                      : formula::Catalogue::with_file(read_file(file, limit), file);
}

void refuse_sweep(const std::string& path, const std::string& verb) {
  if (!lab::is_sweep(path)) return;
  constexpr size_t most = 12;
  std::vector<std::string> runs = lab::runs_below(path);
  const size_t count = runs.size();
  if (count > most) runs.resize(most);
  std::string message = "expected one run, got the folder of a sweep";
  message += count == 0 ? ", which has no run yet" : ", whose runs are:\n  " + join(runs, "\n  ");
  if (count > most) message += "\n  and " + std::to_string(count - most) + " more";
  if (count > 0) message += "\ntry addnorm " + verb + " " + runs.front();
  fail_input(path, message + (count > 0 ? ", or" : "; try") + " addnorm report " + path);
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
