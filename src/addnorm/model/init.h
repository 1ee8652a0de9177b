// Initialization by role: rules, draws, and the report that proves them.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "addnorm/graph/graph.h"
#include "addnorm/model/specification.h"

namespace addnorm::model {

// One parameter's rule with numbers in it.
struct InitRule {
  enum class Kind { normal, trunc_normal, uniform, constant };
  Kind kind = Kind::normal;
  double value =
      0;  // standard deviation (before truncation), bound of the uniform, or the constant
  double offset = 0;    // added to every draw: -1 where gain - 1 is stored
  std::string text;     // "xavier_normal((8*L)^(-1/4))"
  std::string formula;  // its target in numbers: "0.319472 * sqrt(2/(64 + 256))"
  double target_std() const;
  double kurtosis() const;  // of the distribution: 3 for the normal one
};

// Of every parameter of the graph, in its order, bound by role and stack. Start values of norms and
// params are `constant` unless their role is set; biases are always 0. Throws on a rule that has no
// finite value for a parameter (`l` outside blocks, a negative spread), naming both.
std::vector<InitRule> init_rules(const Specification& specification, const graph::ModelShape& shape,
                                 const graph::Graph& graph);

// Element `index` of a parameter; a function of (seed, name, index) alone. xavier_normal(g) and g
// times xavier_normal(1) are the same draw.
double draw(const InitRule& rule, uint64_t seed, const std::string& name, uint64_t index);
// Elements first, first + 1, ...
void fill(const InitRule& rule, uint64_t seed, const std::string& name, std::span<float> to,
          uint64_t first = 0);
void fill(const InitRule& rule, uint64_t seed, const std::string& name, std::span<double> to,
          uint64_t first = 0);

}  // namespace addnorm::model
