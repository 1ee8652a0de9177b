#include "addnorm/graph/graph.h"

#include "addnorm/base/error.h"
#include "addnorm/formula/scalar.h"

namespace addnorm::graph {

const char* role_name(Role role) {
  static constexpr const char* names[] = {
      "embed",     "positions", "q",       "k",       "v",       "attn_out",
      "ffn_in",    "ffn_gate",  "ffn_out", "cross_q", "cross_k", "cross_v",
      "cross_out", "head",      "linear",  "norm",    "param",   "bias"};
  return names[static_cast<size_t>(role)];
}

const std::vector<Role>& all_roles() {
  static const std::vector<Role> roles = [] {
    std::vector<Role> all;
    for (int i = 0; i <= static_cast<int>(Role::bias); ++i) all.push_back(static_cast<Role>(i));
    return all;
  }();
  return roles;
}

int64_t Parameter::size() const {
  int64_t size = 1;
  for (const int64_t dim : dims) size *= dim;
  return size;
}

int64_t Graph::parameter_count() const {
  int64_t count = 0;
  for (const Parameter& parameter : parameters) count += parameter.size();
  return count;
}

void Graph::schedule_values(double t, formula::Scalars& names, std::vector<double>& to) const {
  names.at("t") = t;
  for (size_t i = 0; i < schedules.size(); ++i) {
    const auto value = formula::evaluate(*schedules[i], names);
    ADDNORM_ASSERT(value.has_value());
    to[i] = *value;
  }
}

std::vector<bool> Graph::needs_gradient() const {
  std::vector<bool> depends(values.size(), false);
  for (const Parameter& parameter : parameters)
    depends[static_cast<size_t>(parameter.value)] = true;
  for (const Node& node : nodes) {
    for (const ValueId input : node.inputs) {
      if (depends[static_cast<size_t>(input)]) depends[static_cast<size_t>(node.output)] = true;
    }
  }
  std::vector<bool> wanted(values.size(), false);
  wanted[static_cast<size_t>(loss)] = true;
  for (auto node = nodes.rbegin(); node != nodes.rend(); ++node) {
    if (!wanted[static_cast<size_t>(node->output)]) continue;
    if (std::holds_alternative<nodes::Detach>(node->op)) continue;
    for (const ValueId input : node->inputs) {
      if (depends[static_cast<size_t>(input)]) wanted[static_cast<size_t>(input)] = true;
    }
  }
  return wanted;
}

}  // namespace addnorm::graph
