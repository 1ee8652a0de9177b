// Measurements of one step, for `diag` lines: per layer and per role, through points of the engine. They
// only read, so the parameters of a run are the same bits with and without them.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "addnorm/engine/engine.h"
#include "addnorm/train/metrics.h"

namespace addnorm::train {

class Diagnostics {
 public:
  explicit Diagnostics(const graph::Graph& graph);

  // The streams x before every layer and after the last, of all stacks: to be asked for in the request.
  const std::vector<graph::ValueId>& points() const { return points_; }

  void begin();  // a new step
  // After the engine's run of one micro-batch with points() in the request.
  void add_micro_batch(const engine::Engine<float>& engine, const nodes::Batch& batch);
  void before_update(engine::Engine<float>& engine);  // keeps weights, measures gradients
  // `updated` false: a skipped step; ratios are then 0.
  void after_update(engine::Engine<float>& engine, bool updated);

  // {"event":"diag","step":..,
  //  "layers":[{"layer":0,"stack":"","stream_ms":..,"stream_grad_norm":..,"grad_norm":..,
  //             "update_ratio":..}, ..],
  //  "out":[{"stack":"","stream_ms":..,"stream_grad_norm":..,"r":..}, ..],
  //  "roles":{"q":{"grad_norm":..,"update_ratio":..}, ..},"seconds":..}
  // stack: "", or "encoder" and "decoder" of a pair. stream_* of a layer: x before it (`out`: x after the last). grad_norm of weights is before clipping;
  // update_ratio = |w after - w before| / |w before|. r: mean of x_t*x_u/d over pairs t != u of one
  // sequence, divided by the mean square; NaN where no sequence has two tokens.
  Line line(int64_t step, double seconds) const;

 private:
  struct Stream {  // of one stack at one depth
    graph::ValueId value = -1;
    double squares = 0;  // over all tokens and channels
    double elements = 0;
    double gradient_squares = 0;
    double pair_products = 0;  // sum over sequences of the mean of x_t*x_u/d over pairs
    double sequences = 0;      // with at least two tokens
  };
  struct Group {  // of weights
    double gradient_squares = 0, weight_squares = 0, update_squares = 0;
    double update_ratio() const;
  };

  void measure_stream(const engine::Engine<float>& engine, const nodes::Batch& batch,
                      Stream& stream, bool of_source, bool correlation) const;
  Group& layer_group(const graph::Parameter& parameter);

  const graph::Graph& graph_;
  std::vector<graph::ValueId> points_;
  std::vector<std::vector<Stream>> streams_;  // [stack][layer input, .., after the last]
  std::vector<std::vector<Group>> layers_;    // [stack][layer]
  std::map<graph::Role, Group> roles_;
  std::vector<std::vector<float>> before_;  // weights before the update
};

}  // namespace addnorm::train
