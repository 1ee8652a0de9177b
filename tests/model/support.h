// Specifications for the tests of this folder.
#pragma once

#include <string>

#include "addnorm/graph/lower.h"
#include "addnorm/model/specification.h"
#include "support/temporary.h"

namespace addnorm::test {

inline model::Specification parsed(const std::string& toml, const model::Overrides& overrides = {},
                                   model::Needs needs = model::Needs::model) {
  return model::parse(toml, "spec.toml", overrides, needs, formula::Catalogue::builtin());
}

inline std::string problems(const std::string& toml, const model::Overrides& overrides = {},
                            model::Needs needs = model::Needs::model) {
  return failure_of([&] { parsed(toml, overrides, needs); }).second;
}

// A small decoder with one more line of [model].
inline std::string small(const std::string& lines = "", const std::string& wiring = "pre-ln") {
  return "[model]\nkind = \"decoder\"\nlayers = 2\nwidth = 16\nheads = 4\nvocab = 256\n"
         "context = 16\nwiring = \"" +
         wiring + "\"\n" + lines;
}

inline graph::ModelShape shape_of(const model::Specification& spec) {
  return model::shape(spec, formula::Catalogue::builtin());
}
inline graph::Graph graph_of(const model::Specification& spec) {
  return graph::lower(shape_of(spec));
}

inline bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

inline std::string warnings(const model::Specification& spec) { return lines_of(spec.findings); }

}  // namespace addnorm::test
