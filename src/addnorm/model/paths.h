// Paths through a graph, as the static checks of the catalogue need them: what starts at 0, what is
// inside a branch, and the factor that a value carries along paths without branch and norm.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "addnorm/graph/graph.h"
#include "addnorm/model/init.h"

namespace addnorm::model {

// Of all bare paths from a source to a value: their factors added up, where they are numbers.
struct Gain {
  bool known = true;
  double value = 0;
};

class Paths {
 public:
  Paths(const graph::Graph& graph, const std::vector<InitRule>& rules);

  // Exactly 0 at initialization, whatever the tokens.
  bool zero(graph::ValueId value) const { return zero_[static_cast<size_t>(value)]; }
  // The node computes part of a branch's inside.
  bool inside(int node) const { return inside_[static_cast<size_t>(node)]; }
  // The number that a value holds at initialization, where it depends on no token.
  std::optional<double> constant(graph::ValueId value) const;
  // A coefficient, schedules at their end.
  double at_end(const nodes::Scalar& scalar) const;
  // A param of one number, or a value made of such.
  bool is_number(graph::ValueId value) const;

  // Values that `source` reaches through no branch and, unless `through_norms`, no norm, among those
  // computed before node `end`.
  std::unordered_map<graph::ValueId, Gain> bare(graph::ValueId source, int end,
                                                bool through_norms = false) const;
  // The value is a norm's result, possibly times a number or dropped out.
  bool normed(graph::ValueId value) const;
  // The node that computes a value, nullptr for parameters.
  const graph::Node* node_of(graph::ValueId value) const;
  int index_of(graph::ValueId value) const;  // of its node, -1 for parameters
  // Which values something in `from` depends on, themselves included.
  std::vector<bool> ancestors(const std::vector<graph::ValueId>& from) const;

 private:
  void find_insides();
  void find_zeros(const std::vector<InitRule>& rules);
  bool node_is_zero(const graph::Node& node) const;

  const graph::Graph& graph_;
  std::vector<double> schedules_;  // at the end of training
  std::vector<bool> zero_, inside_;
  std::vector<std::optional<double>> start_;  // of parameters
};

// A norm whose result does not depend on the scale of its argument.
bool is_scale_free(const nodes::Norm& norm);

}  // namespace addnorm::model
