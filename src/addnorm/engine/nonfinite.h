// Names the first non-finite tensor of a run.
#pragma once

#include <functional>
#include <utility>

#include "addnorm/engine/engine.h"

namespace addnorm::engine {

// A name for people: the shortest point of the value, else its node's label.
std::string value_name(const graph::Graph& graph, graph::ValueId id);

// The first one, with what made it, from which inputs, and the names it was passed on to. A value or
// gradient that is gone counts as finite.
NonFinite first_non_finite(const graph::Graph& graph, int64_t length, int64_t source_length,
                           const std::function<bool(graph::ValueId, size_t*)>& bad_value,
                           const std::function<bool(graph::ValueId, size_t*)>& bad_gradient,
                           const std::function<std::pair<double, double>(graph::ValueId)>& range);

}  // namespace addnorm::engine
