// The one contract of the backends: weights in, loss, logits, gradients and points out.
#pragma once

#include <complex>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "addnorm/graph/graph.h"
#include "addnorm/nodes/batch.h"

namespace addnorm::engine {

struct Request {
  bool backward = true;
  double t = 1;               // of schedules; infinity for bare weights
  double divisor = 0;         // targets of the whole optimizer step; 0: those of this batch
  bool training = false;      // dropout acts
  uint64_t dropout_seed = 0;  // of this micro-batch
  double label_smoothing = 0;
  double z_loss = 0;
  bool keep_logits = false;  // logits() is asked for afterwards
  std::vector<graph::ValueId>
      points;  // values asked for afterwards, with their gradients if backward
};

struct NonFinite {     // the first non-finite tensor in forward order, or in backward order
  std::string tensor;  // a point's or parameter's name, "blocks.0.ffn.out"
  bool in_backward = false;
  std::string detail;     // sequence and token, place in the formula, range of the inputs
  int64_t sequence = -1;  // of the batch, where the tensor has one row per token
};

// A model on a backend. Gradients add up over calls of run() until zero_gradients(), so that several
// micro-batches make one optimizer step; the sum does not depend on which thread computed what.
template <class T>
class Engine {
 public:
  virtual ~Engine() = default;

  virtual const graph::Graph& graph() const = 0;
  virtual std::span<T> parameter(size_t index) = 0;  // of graph().parameters, row-major
  virtual std::span<T> gradient(size_t index) = 0;   // same layout
  virtual void zero_gradients() = 0;

  // Sum of the cross-entropies of this batch divided by the divisor. 0 where no target counts.
  // The batch must fit the model (lengths <= context, ids < vocab): checked, Error(input).
  virtual double run(const nodes::Batch& batch, const Request& request) = 0;

  // Of the last run(), row-major [rows, cols]; asked for in the request. Valid until the next run().
  virtual std::span<const T> logits() const = 0;
  virtual std::span<const T> point(graph::ValueId id) const = 0;
  virtual std::span<const T> point_gradient(graph::ValueId id) const = 0;

  // Searches the values and gradients of the last run() for the first non-finite one; runs the graph
  // again where they are gone. Empty tensor: all finite.
  virtual NonFinite find_non_finite(const nodes::Batch& batch, const Request& request) = 0;

  // Held now: weights, gradients, activations, scratch.
  virtual size_t memory_bytes() const = 0;
};

// Reference: plain loops, the definition. double, float or complex<double>.
template <class T>
std::unique_ptr<Engine<T>> make_reference(const graph::Graph& graph);

// Fast, float. `threads` 0: all allowed cores.
enum class Split : uint8_t { automatic, batch, operators };
std::unique_ptr<Engine<float>> make_cpu(const graph::Graph& graph, int threads,
                                        Split split = Split::automatic);

}  // namespace addnorm::engine
