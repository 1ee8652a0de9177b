#include "addnorm/model/specification.h"

#include <cmath>
#include <system_error>

#include "addnorm/base/files.h"
#include "addnorm/model/keys.h"
#include "addnorm/model/loader.h"
#include "addnorm/model/toml_value.h"

namespace addnorm::model {
namespace {

constexpr uint64_t largest_file = uint64_t{16} << 20;

Specification finish(Loader* loader, const Overrides& overrides, bool listing) {
  loader->take_overrides(overrides);
  loader->write(listing);
  judge_together(loader);
  resolve_wirings(loader);
  return loader->finish();
}

// A file of any other name is a text unless it reads like a specification: its problems as TOML
// would say nothing.
std::string specification_text(const std::filesystem::path& file) {
  if (file.extension() == ".toml") return read_file(file, largest_file);
  std::error_code code;
  const auto size = std::filesystem::file_size(file, code);
  std::string text = !code && size > largest_file ? "" : read_file(file, largest_file);
  if (holds_table(text, is_section)) return text;
  fail_input(file.string(),
             "expected a specification (*.toml), got a file that is none; `addnorm train` and "
             "`addnorm sweep` take a text as it is, `addnorm spec > my.toml` writes a "
             "specification");
}

// "5%" of all updates, rounded up; or a number of updates.
int64_t count_or_share(const std::string& text, int64_t steps) {
  if (!text.empty() && text.back() == '%') {
    // Rounding up must not make 2 of 40 * 5 %, whose product is a little above 2.
    const double share = std::stod(text) / 100 * static_cast<double>(steps);
    return static_cast<int64_t>(std::ceil(share * (1 - 1e-12)));
  }
  return text.empty() ? 0 : std::stoll(text);
}

}  // namespace

Specification parse(const std::string& toml, const std::string& file, const Overrides& overrides,
                    Needs needs, const formula::Catalogue& catalogue) {
  Loader loader(file, needs, catalogue);
  loader.take_file(toml);
  return finish(&loader, overrides, false);
}

Specification parse_resolved(const std::string& toml, const std::string& file,
                             const Overrides& overrides, Needs needs,
                             const formula::Catalogue& catalogue) {
  Loader loader(file, needs, catalogue);
  loader.take_file(toml);
  loader.take_sources(sources_in(toml));
  return finish(&loader, overrides, false);
}

Specification load(const std::filesystem::path& file, const Overrides& overrides, Needs needs,
                   const formula::Catalogue& catalogue) {
  return parse(specification_text(file), file.string(), overrides, needs, catalogue);
}

Specification load_resolved(const std::filesystem::path& file, const Overrides& overrides,
                            Needs needs, const formula::Catalogue& catalogue) {
  return parse_resolved(specification_text(file), file.string(), overrides, needs, catalogue);
}

Specification for_training(const std::filesystem::path& file, const Overrides& overrides,
                           const formula::Catalogue& catalogue) {
  return file.extension() == ".toml" ? load(file, overrides, Needs::training, catalogue)
                                     : for_text(file.string(), overrides, catalogue);
}

Specification for_text(const std::string& text_file, const Overrides& overrides,
                       const formula::Catalogue& catalogue) {
  Loader loader("", Needs::training, catalogue);
  Overrides all = {{"data.source", quoted(text_file)}};
  all.insert(all.end(), overrides.begin(), overrides.end());
  return finish(&loader, all, true);
}

int64_t warmup_steps(const TrainSection& train) {
  return count_or_share(train.warmup, train.steps);
}
int64_t decay_steps(const TrainSection& train) {
  return count_or_share(train.decay_steps, train.steps);
}
double weight_decay(const TrainSection& train) {
  return train.weight_decay.value_or(train.optimizer == "adamw" ? 0.1 : 0);
}

}  // namespace addnorm::model
