// Groups of nodes that a fast backend computes in one pass. A pass over the graph: no wiring is known
// here, and a group computes every value that its nodes compute.
#pragma once

#include <vector>

#include "addnorm/graph/graph.h"

namespace addnorm::graph {

struct Step {
  enum class Kind : uint8_t {
    single,             // one node
    add_norm,           // sum of two tensors, norm of it
    linear_activation,  // linear, unary
    gated,              // linear (in), linear (gate), unary of the gate, product
    head,               // linear, [sum: scale], [softcap], cross-entropy; last in the list
  };
  Kind kind = Kind::single;
  std::vector<int> nodes;  // indices into Graph::nodes, in order
};

// In an order that can be computed.
std::vector<Step> fuse(const Graph& graph);

}  // namespace addnorm::graph
