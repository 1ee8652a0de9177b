// What can be said about a wiring without running it: structural findings on the graph, each at its
// level with the statement's place (catalogue, "Static checks"). Findings about syntax, names and
// types are the formula checker's.
#pragma once

#include "addnorm/graph/lower.h"
#include "addnorm/model/specification.h"

namespace addnorm::model {

// Of the whole model, in the order of the formula. `where` is the key and place of the statement:
// "model.wiring:1:5".
Findings static_checks(const Specification& specification, const graph::ModelShape& shape,
                       const graph::Graph& graph);

// Lowers and checks. Errors are thrown; the rest goes to `findings`, where there is one.
graph::Graph build(const Specification& specification, const graph::ModelShape& shape,
                   Findings* findings = nullptr);

}  // namespace addnorm::model
