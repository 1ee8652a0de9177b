// What can be said about a wiring without running it: structural findings on the graph, each at its
// level with the statement's place (catalogue, "Static checks" 1 to 10; none of them is an error).
// Syntax, names, types and what `detach` cuts off are the formula checker's, replaced published
// initialization is found at loading.
#pragma once

#include "addnorm/graph/lower.h"
#include "addnorm/model/specification.h"

namespace addnorm::model {

// Of the whole model, in the order of the formula. `where` is the key and place of the statement:
// "model.wiring:1:5".
Findings static_checks(const Specification& specification, const graph::ModelShape& shape,
                       const graph::Graph& graph);

// Lowers and checks; what was found goes to `findings`, where there is one.
graph::Graph build(const Specification& specification, const graph::ModelShape& shape,
                   Findings* findings = nullptr);

}  // namespace addnorm::model
