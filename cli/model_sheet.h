// Everything that `inspect` says about a specification: sizes, parameters, norms, what the branches
// read, formulas, findings.
#pragma once

#include <string>

#include "addnorm/base/error.h"
#include "addnorm/graph/graph.h"
#include "addnorm/model/specification.h"
#include "json.h"

namespace addnorm::cli {

struct ModelSheet {
  Json json;
  std::string text;  // the same for people
};
ModelSheet model_sheet(const model::Specification& specification, const graph::Graph& graph,
                       const Findings& findings);

std::string with_separators(double count);  // "12,345,678", from 1e15 on "1.23e+15"

}  // namespace addnorm::cli
