// Rewrites that every engine shares: same function, fewer passes over memory.
#pragma once

#include "addnorm/graph/graph.h"

namespace addnorm::graph {

// Writes a sum whose only use is another sum into that one: a*x + b*f becomes one node. Values that
// are points stay.
void simplify(Graph& graph);

}  // namespace addnorm::graph
