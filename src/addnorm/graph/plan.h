// The memory plan of a fast backend: which buffers the steps of a run read and write, when each is
// alive, where it lies in a thread's arena, and which gradients share a buffer.
#pragma once

#include <set>
#include <vector>

#include "addnorm/graph/fusion.h"
#include "addnorm/graph/graph.h"

namespace addnorm::graph {

struct PlanRequest {
  bool backward = true;
  bool keep_logits = false;
  bool shared_matrices = false;  // threads read each other's rows for the gradients of matrices
  std::set<ValueId> kept;        // values asked for afterwards (and their gradients)
  int64_t target_rows = 0;       // largest number of rows of a thread
  int64_t source_rows = 0;
};

constexpr int64_t no_buffer = -1;

struct StepPlan {
  Step step;
  int64_t stats = no_buffer;  // offset of what the forward pass keeps for the backward pass
  // Per gradient written by the backward pass of the step, in the order of `gradient_inputs`: whether it
  // is added to what stands there, and whether it needs no work because it shares a buffer.
  std::vector<ValueId> gradient_inputs;
  std::vector<bool> accumulate;
  std::vector<bool> aliased;
  bool barrier = false;  // all threads must have come here in the backward pass
};

struct Plan {
  std::vector<StepPlan> steps;    // forward order; the last is the head
  std::vector<int64_t> value;     // offset of each per-token value, no_buffer where it has none
  std::vector<int64_t> gradient;  // of its gradient
  int64_t floats = 0;             // size of one thread's arena
};

// What the forward pass of a step keeps per row of its output besides the values.
int64_t stats_per_row(const Graph& graph, const Step& step);

Plan make_plan(const Graph& graph, const PlanRequest& request);

}  // namespace addnorm::graph
