// env.json and extensions.json of a run folder.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "addnorm/data/dataset.h"
#include "addnorm/train/plan.h"
#include "addnorm/train/schedule.h"

namespace addnorm::train {

// On what a session of a run computes: same seed, thread count and instruction set give the same
// bytes.
struct Environment {
  std::string program;
  int threads = 1;
  std::string threads_source;  // "train.threads", "affinity mask", ..
  uint64_t seed = 0;
  std::string instruction_set;
  std::string compiler;
};
Environment environment(const model::TrainSection& train, const std::string& program);

// Weights that a run was started from.
struct StartWeights {
  std::filesystem::path file;  // empty: drawn
  std::string sha256;
};

using Texts = std::vector<data::TextRecord>;

std::string environment_json(const Environment& environment, const Plan& plan, const Texts& texts,
                             const StartWeights& weights);
// The text of env.json with one more session: where it began, on what, and what was changed for it.
std::string with_session(const std::string& env_json, int64_t from_step,
                         const Environment& environment, const Texts& texts,
                         const std::vector<std::string>& changes);
StartWeights start_weights(const std::string& env_json);
// What the run's text was; nothing in runs of versions that did not record it.
std::optional<Texts> recorded_texts(const std::string& env_json);
// Whether the contents differ, whatever the files are called: the first file that does, with what was
// recorded and what came. `where` is empty where nothing differs.
Finding text_difference(const Texts& recorded, const Texts& now);

// A file that every run has; the Error where it is gone says what can be done.
std::string read_run_file(const std::filesystem::path& run, const std::string& name);

// The plan of a run that was given more steps; absent for others.
struct Extensions {
  int64_t base_steps = 0;  // of the schedule at the start
  int64_t steps = 0;       // now
  std::vector<Extension> list;
};
Extensions read_extensions(const std::filesystem::path& run, int64_t steps);
void write_extensions(const std::filesystem::path& run, const Extensions& extensions);

}  // namespace addnorm::train
