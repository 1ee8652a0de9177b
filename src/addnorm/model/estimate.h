// What a model costs, before anything is allocated.
#pragma once

#include "addnorm/graph/graph.h"
#include "addnorm/graph/lower.h"
#include "addnorm/model/specification.h"

namespace addnorm::model {

struct Estimate {
  double parameters = 0;
  double product_weights = 0;  // of all matrix products, head included (a tied table counts)
  double tokens = 0;           // of one update, per stack
  double flops = 0;            // of one update
  double weight_bytes = 0;     // float
  double gradient_bytes = 0;
  double moment_bytes = 0;      // of the optimizer
  double activation_bytes = 0;  // of one micro-batch; an upper bound, fusion keeps less

  double memory() const { return weight_bytes + gradient_bytes + moment_bytes + activation_bytes; }
};

// FLOPs as 6 * (weights of all matrix products) * tokens + 6 * heads*head_dim * T * tokens per causal
// attention, twice that where it is not causal; T is the context. In a pair both stacks see
// batch * context tokens. Sizes are added in double, so that no model overflows.
Estimate estimate(const graph::Graph& graph, const graph::ModelShape& shape,
                  const TrainSection& train);

// Bytes of memory this process may use: the machine's, or its control group's limit.
double available_memory();
// Throws (input) with the whole estimate where it does not fit into `bytes`.
void require_memory(const Estimate& estimate, double bytes);
std::string describe(const Estimate& estimate);  // "123,456 parameters; ..."

}  // namespace addnorm::model
