// A run is a folder; this file knows what lies where, and keeps two promises: a checkpoint is whole or
// does not exist, and a resumed run's metrics read like those of an uninterrupted one.
//
//   spec.toml env.json tokenizer.json metrics.jsonl metrics.discarded.jsonl extensions.json
//   checkpoints/000100/{model.safetensors,optimizer.safetensors,state.json,DONE}
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "addnorm/checkpoint/weights.h"

namespace addnorm::checkpoint {

// What a run is besides weights and moments. Batches and dropout masks are functions of the seed and of
// these counters, so they are the data position and the random state too.
struct TrainState {
  int64_t step = 0;     // steps made, skipped ones included: the data position
  int64_t updates = 0;  // updates made: t of schedules, bias correction and dropout
  int64_t skipped_steps = 0;
  int64_t nonfinite_steps = 0;
  int64_t skipped_in_row = 0;
  int64_t tokens = 0;
  double seconds = 0;  // of training, over all its sessions
  std::string clip_window;
  uint64_t seed = 0;
  int threads = 0;
  std::string instruction_set;
  std::string program;  // "addnorm 0.1.0"
};

// ---- the folder

// A new run: `files` (name -> content) are all there from the first moment the folder exists. An empty
// `folder` takes runs/NAME-NUMBER, the first number that is free. An existing folder is an Error.
fs::path create_run(const fs::path& folder, const std::string& name,
                    const std::map<std::string, std::string>& files);

// Error where something of this name exists: create_run() would refuse it.
void require_new(const fs::path& folder);

// Holds a run for one process; a second one gets an Error. Released when the process ends, however.
class RunLock {
 public:
  explicit RunLock(const fs::path& run);
  ~RunLock();
  RunLock(const RunLock&) = delete;
  RunLock& operator=(const RunLock&) = delete;

 private:
  int folder_ = -1;
};

// Keeps the lines of metrics.jsonl whose "step" is at most `step`; the others, and a torn last line,
// are appended to metrics.discarded.jsonl. Returns how many were moved.
int64_t discard_metrics_after(const fs::path& run, int64_t step);

// ---- checkpoints

struct Tensor {
  std::string name;
  std::vector<int64_t> shape;
  std::span<float> values;
};

// Writes checkpoints/STEP: tensors, then state.json with the checksums of their files, then DONE, each
// atomically. One that is there already stays as it is. Leftovers of killed saves are removed first.
// On failure (a full disk) what was written of this one is removed and the others are untouched.
fs::path save_checkpoint(const fs::path& run, const TrainState& state,
                         const std::vector<Tensor>& model, const std::vector<Tensor>& optimizer);

std::optional<fs::path> newest_checkpoint(const fs::path& run);
std::vector<fs::path> checkpoints(const fs::path& run);  // with DONE, oldest first
std::vector<fs::path> leftovers(const fs::path& run);    // folders without DONE, temporary files

// Verifies the checksums, then reads. `optimizer` null: only weights are wanted.
TrainState load_state(const fs::path& checkpoint);  // judges state.json alone
// The state, after all files have been compared with their checksums.
TrainState verify_checkpoint(const fs::path& checkpoint);
TrainState load_checkpoint(const fs::path& checkpoint, const std::vector<Tensor>& model,
                           const std::vector<Tensor>* optimizer);

}  // namespace addnorm::checkpoint
