// What every verb that reads a specification does first.
#pragma once

#include <string>

#include "addnorm/formula/catalogue.h"
#include "addnorm/graph/graph.h"
#include "addnorm/graph/lower.h"
#include "addnorm/model/specification.h"
#include "verb.h"

namespace addnorm::cli {

// The built-in wirings and, where `file` is not "", those of a file (`--catalogue FILE`).
formula::Catalogue chosen_catalogue(const std::string& file);

// A folder of a sweep where `verb` takes a run is an Error that names its runs.
void refuse_sweep(const std::string& path, const std::string& verb);

struct Model {
  formula::Catalogue catalogue;
  model::Specification specification;
  graph::ModelShape shape;
  graph::Graph graph;  // no weights
};

// Loads, checks and lowers; what was found goes to standard error, information only with -v.
Model load_model(const std::string& spec, const std::string& catalogue,
                 const Invocation& invocation, model::Needs needs = model::Needs::model);

}  // namespace addnorm::cli
