// The training loop: one function that reads like the algorithm, and what it works on.
#pragma once

#include <atomic>
#include <filesystem>
#include <vector>

#include "addnorm/checkpoint/run_state.h"
#include "addnorm/engine/engine.h"
#include "addnorm/model/specification.h"
#include "addnorm/train/optimizer.h"
#include "addnorm/train/pieces.h"
#include "addnorm/train/reporter.h"
#include "addnorm/train/schedule.h"
#include "addnorm/train/source.h"

namespace addnorm::train {

struct Run {
  engine::Engine<float>& engine;
  Optimizer& optimizer;
  Pieces& pieces;
  Source& source;
  const Rates& rates;
  const model::TrainSection& settings;  // `steps` counts all steps of the run, extensions included
  std::filesystem::path folder;         // metrics and checkpoints go here
  Reporter& reporter;
  const std::atomic<bool>* interrupted = nullptr;  // set: finish the step, save, return
};

enum class End : uint8_t { finished, interrupted };

// Trains from `state` to settings.steps. The engine holds the weights and the optimizer the moments of
// that state. metrics.jsonl gets a line per step, evaluation, measurement and note; checkpoints are written
// at checkpoint_every, at the end and on interruption, never from a non-finite state.
// Throws Error(nonfinite) where a step is bad and on_nonfinite = "stop", after ten skipped steps in a
// row, and where an update leaves weights or moments that are not finite.
End train(const Run& run, checkpoint::TrainState& state);

// Weights and moments as a checkpoint holds them.
std::vector<checkpoint::Tensor> weight_tensors(engine::Engine<float>& engine);
std::vector<checkpoint::Tensor> moment_tensors(Optimizer& optimizer, const graph::Graph& graph);

// Dropout of a micro-batch: a function of the seed, of the updates made and of its number.
uint64_t dropout_seed(uint64_t seed, int64_t updates, size_t micro_batch);

}  // namespace addnorm::train
