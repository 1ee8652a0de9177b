// env.json and extensions.json of a run folder.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

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

std::string environment_json(const Environment& environment, const Plan& plan,
                             const StartWeights& weights);
// The text of env.json with one more session: where it began, on what, and what was changed for it.
std::string with_session(const std::string& env_json, int64_t from_step,
                         const Environment& environment, const std::vector<std::string>& changes);
StartWeights start_weights(const std::string& env_json);

// The plan of a run that was given more steps; absent for others.
struct Extensions {
  int64_t base_steps = 0;  // of the schedule at the start
  int64_t steps = 0;       // now
  std::vector<Extension> list;
};
Extensions read_extensions(const std::filesystem::path& run, int64_t steps);
void write_extensions(const std::filesystem::path& run, const Extensions& extensions);

}  // namespace addnorm::train
