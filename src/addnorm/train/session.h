// Starting and resuming runs: what `addnorm train` and `addnorm resume` do.
#pragma once

#include <atomic>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>

#include "addnorm/train/loop.h"
#include "addnorm/train/plan.h"

namespace addnorm::train {

struct Watcher {
  Reporter& reporter;
  const std::atomic<bool>* interrupted = nullptr;
};

struct Outcome {
  End end = End::finished;
  std::filesystem::path run;
  int64_t step = 0;
  int64_t steps = 0;
};

struct StartOptions {
  std::filesystem::path run;      // empty: runs/NAME-NUMBER
  std::string name = "run";       // NAME
  std::filesystem::path weights;  // empty: drawn by the specification's rules
  std::string program;            // "addnorm 0.1.0", recorded
};

// Creates the run's folder once everything that can be wrong has been judged, then trains.
Outcome start(Plan plan, const StartOptions& options, const Watcher& watcher);

struct ResumeOptions {
  std::filesystem::path run;
  model::Overrides overrides;
  std::optional<int64_t> steps;  // a new end
  std::string extend;            // "" | keep | rewarm | stretch
  bool new_text = false;         // go on although the text is not the one the run was trained on
  std::string program;
};

// Goes on from the newest checkpoint (from the start where there is none yet), bit for bit. Says what
// differs: changed keys with old and new value, other thread counts, a changed catalogue entry. A text
// with another content is an Error unless `new_text` is set or the overrides name another text. A run
// that has made all its steps needs `steps` and `extend`; without them the Error lists the choices.
// Findings go to `report` before anything is computed.
Outcome resume(const ResumeOptions& options, const formula::Catalogue& catalogue,
               const Watcher& watcher, const std::function<void(const Findings&)>& report);

// Draws the weights by the specification's rules and its seed.
void initialize(const Plan& plan, engine::Engine<float>& engine);

// A run's specification as `resume` and `eval` read it: spec.toml, overridden.
model::Specification run_specification(const std::filesystem::path& run,
                                       const model::Overrides& overrides,
                                       const formula::Catalogue& catalogue);
std::shared_ptr<const text::Tokenizer> run_tokenizer(const std::filesystem::path& run);

}  // namespace addnorm::train
