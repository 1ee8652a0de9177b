// The fast engine: every thread computes the forward and backward pass of its own sequences in its own
// arena. Gradients of matrices are either private to a thread and added up once per run in a fixed
// order (Split::batch), or computed together, each thread a slice of the matrix over all rows
// (Split::operators), which needs a barrier per matrix and no copies of the weights' gradients.
#pragma once

#include <functional>
#include <map>
#include <vector>

#include "addnorm/base/threads.h"
#include "addnorm/engine/batch_check.h"
#include "addnorm/engine/engine.h"
#include "addnorm/graph/plan.h"

namespace addnorm::engine {

using graph::ValueId;
using Index = int64_t;

struct CpuThread {
  Index first_sequence = 0, sequences = 0;
  nodes::BatchView view;
  std::vector<float> arena;
  std::vector<float> fixed,
      fixed_gradients;           // values without rows that nodes compute, e.g. silu(param)
  std::vector<float> gradients;  // private part; thread 0 has none
  std::vector<float> scratch, head_work;
  double loss = 0;
  Index rows(graph::Rows rows) const;
};

class CpuEngine final : public Engine<float> {
 public:
  CpuEngine(const graph::Graph& graph, int threads, Split split);

  const graph::Graph& graph() const override { return graph_; }
  std::span<float> parameter(size_t index) override;
  std::span<float> gradient(size_t index) override;
  void zero_gradients() override;
  double run(const nodes::Batch& batch, const Request& request) override;
  std::span<const float> logits() const override { return logits_; }
  std::span<const float> point(ValueId id) const override;
  std::span<const float> point_gradient(ValueId id) const override;
  NonFinite find_non_finite(const nodes::Batch& batch, const Request& request) override;
  size_t memory_bytes() const override;

 private:
  friend class CpuWorker;
  friend struct NodeForward;
  struct PlanKey {
    Index sequences, length, source_length;
    bool backward, keep_logits;
    std::vector<ValueId> points;
    bool operator==(const PlanKey&) const = default;
  };
  struct Gathered {
    std::vector<float> value, gradient;
  };

  const graph::Plan& plan_for(const nodes::Batch& batch, const Request& request);
  void prepare_buffers(const nodes::Batch& batch, const Request& request);
  void prepare_tables(const nodes::Batch& batch);
  void gather(ValueId id);

  const graph::Graph graph_;
  const std::vector<bool> wanted_;
  const bool shared_;  // Split::operators
  ThreadPool pool_;
  std::vector<CpuThread> threads_;
  std::vector<Index> fixed_offset_;  // per value, -1 where it is not one
  Index fixed_floats_ = 0;
  std::vector<Index> parameter_offset_;  // in weights_ and gradients_; shared matrices come last
  Index private_floats_ = 0;
  std::vector<float> weights_, gradients_;
  std::vector<std::pair<PlanKey, graph::Plan>> plans_;
  const graph::Plan* plan_ = nullptr;
  PreparedBatch prepared_;
  bool backward_ = false, keep_logits_ = false;
  std::vector<float> logits_, logit_gradients_;
  std::map<ValueId, Gathered> gathered_;
  std::vector<float> slopes_;                      // alibi
  std::vector<int32_t> buckets_, causal_buckets_;  // t5 lookups over -span..span
  Index span_ = 0;
  std::vector<float> cosines_, sines_;  // rotary, [positions, rotary_dim/2]
  Index rotary_positions_ = 0;
  std::function<void(int)> work_;
};

// One thread's way through the plan.
class CpuWorker {
 public:
  CpuWorker(CpuEngine& engine, int thread);
  void run();

 private:
  struct Target {  // where a gradient goes
    float* data = nullptr;
    bool accumulate = true;
    bool aliased = false;  // already there
  };

  const graph::Node& node(const graph::StepPlan& step, size_t i) const;
  Index rows(ValueId id) const;
  Index cols(ValueId id) const { return engine_.graph_.shape(id).cols; }
  float* value(ValueId id) { return value_of(self_, id); }
  float* value_of(CpuThread& thread, ValueId id);
  float* gradient(ValueId id) { return gradient_of(self_, id); }
  float* gradient_of(CpuThread& thread, ValueId id);
  bool wanted(ValueId id) const { return engine_.wanted_[static_cast<size_t>(id)]; }
  bool is_shared(ValueId parameter) const;
  float* parameter_gradient(ValueId id);  // null where none is wanted
  // The next gradient that the step writes; in the order of the plan.
  Target target(const graph::StepPlan& step, ValueId id);
  std::pair<Index, Index> slice(Index size) const;

  void forward(const graph::StepPlan& step);
  void backward(const graph::StepPlan& step);
  void head(const graph::StepPlan& step);
  void finish();

  // Single nodes: cpu_nodes.cpp
  void forward(const graph::StepPlan& step, const graph::Node& n);
  void backward(const graph::StepPlan& step, const graph::Node& n);
  void linear_forward(const graph::Node& n, bool with_bias);
  void linear_backward(const graph::StepPlan& step, const graph::Node& n, bool with_bias);
  void norm_pass(const graph::StepPlan& step, const graph::Node& n, bool is_backward);
  void attention_pass(const graph::StepPlan& step, const graph::Node& n, bool is_backward);
  void embedding_backward(const graph::Node& n, const nodes::Embedding& op);

  CpuEngine& engine_;
  CpuThread& self_;
  const int number_;
  size_t next_gradient_ = 0;
  friend struct NodeForward;
  friend struct NodeBackward;
};

}  // namespace addnorm::engine
