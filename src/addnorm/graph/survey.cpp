#include "addnorm/graph/survey.h"

#include <algorithm>
#include <set>

#include "addnorm/base/text.h"

namespace addnorm::graph {
namespace {

const char* side_name(StackSide side) {
  return side == StackSide::encoder ? "encoder " : side == StackSide::decoder ? "decoder " : "";
}

const Node* maker(const Graph& graph, ValueId id) {
  const int node = graph.values[static_cast<size_t>(id)].node;
  return node < 0 ? nullptr : &graph.nodes[static_cast<size_t>(node)];
}

// Norms between the projections of an attention and the attention itself; rotary positions may lie
// between them.
const Node* norm_before(const Graph& graph, ValueId id) {
  const Node* node = maker(graph, id);
  if (node != nullptr && std::holds_alternative<nodes::Rotary>(node->op)) {
    node = maker(graph, node->inputs[0]);
  }
  return node != nullptr && std::holds_alternative<nodes::Norm>(node->op) ? node : nullptr;
}

// Names of the variables and branches that hold a value, without `out` and `embed` of a stack.
std::string variable(const Graph& graph, ValueId id) {
  std::string best;
  for (const auto& [name, point] : graph.points) {
    if (point != id || name.ends_with(".in") || name.ends_with(".write")) continue;
    const bool of_stack =
        std::any_of(graph.stacks.begin(), graph.stacks.end(),
                    [&](const Stack& stack) { return name == stack.prefix + "out"; });
    if (!of_stack && (best.empty() || name.size() < best.size())) best = name;
  }
  return best;
}

// What computes a value, for people.
std::string made_by(const Graph& graph, ValueId id) {
  const Node* node = maker(graph, id);
  if (node == nullptr) {
    return graph.parameters[static_cast<size_t>(graph.values[static_cast<size_t>(id)].parameter)]
        .name;
  }
  if (std::holds_alternative<nodes::Norm>(node->op)) return node->label;
  const auto* sum = std::get_if<nodes::Sum>(&node->op);
  if (sum != nullptr && node->inputs.size() == 1 && sum->weights[0].schedule < 0 &&
      sum->constant == Scalar{}) {
    return shortest(sum->weights[0].value) + "*" + made_by(graph, node->inputs[0]);
  }
  const std::string name = variable(graph, id);
  return name.empty() ? node->label : name;
}

std::string origin(const Graph& graph, const Stack& stack, ValueId id) {
  const Node* node = maker(graph, id);
  if (node == nullptr) return "parameter";
  if (std::holds_alternative<nodes::Norm>(node->op)) return "norm";
  if (id == stack.embed) return "embed";
  const auto& x = stack.layer_input;
  const std::string name = variable(graph, id);
  // "blocks.0.x", or an earlier value of it, "blocks.0.x.1".
  const bool named = name.ends_with(".x") || name.find(".x.") != std::string::npos;
  if (named || std::find(x.begin(), x.end(), id) != x.end()) return "stream";
  for (const Branch& branch : graph.branches) {
    if (branch.out == id) return "branch";
  }
  // The function as the formula calls it; parts with parameters are named by their kind.
  const std::string label = node->label.substr(stack.prefix.size());
  if (label.find('.') == std::string::npos) return label;
  return std::visit([](const auto& op) { return std::string(op.name); }, node->op);
}

}  // namespace

std::vector<NormCount> count_norms(const Graph& graph) {
  std::set<const Node*> qk, value, inner;
  for (const Node& node : graph.nodes) {
    if (!std::holds_alternative<nodes::Attention>(node.op)) continue;
    qk.insert({norm_before(graph, node.inputs[0]), norm_before(graph, node.inputs[1])});
    value.insert(norm_before(graph, node.inputs[2]));
  }
  for (const Branch& branch : graph.branches) {
    // The last matrix of a branch reads its inner norm, if there is one, and nothing of the formula.
    inner.insert(norm_before(graph, maker(graph, branch.out)->inputs[0]));
  }
  std::vector<NormCount> counts;
  for (const Stack& stack : graph.stacks) {
    NormCount count;
    count.side = stack.side;
    bool blocks_came = false;
    for (const Node& node : graph.nodes) {
      if (node.side != stack.side) continue;
      blocks_came = blocks_came || node.layer >= 0;
      if (!std::holds_alternative<nodes::Norm>(node.op)) continue;
      int& place = qk.contains(&node)      ? count.qk
                   : value.contains(&node) ? count.value
                   : inner.contains(&node) ? count.inner
                   : node.layer >= 0       ? count.blocks
                   : blocks_came           ? count.end
                                           : count.begin;
      ++place;
    }
    counts.push_back(count);
  }
  return counts;
}

std::vector<Reading> branch_readings(const Graph& graph) {
  std::vector<Reading> readings;
  for (const Branch& branch : graph.branches) {
    const auto stack = std::find_if(graph.stacks.begin(), graph.stacks.end(),
                                    [&](const Stack& s) { return s.side == branch.side; });
    Reading reading{branch.name, branch.kind, branch.layer, {}, {}, {}};
    reading.from = side_name(branch.side) + origin(graph, *stack, branch.in);
    reading.name = made_by(graph, branch.in);
    if (branch.kind == "cross") {
      const Stack& encoder = graph.stacks.front();
      reading.memory = side_name(encoder.side) + ("out (" + made_by(graph, encoder.out)) + ")";
    }
    readings.push_back(std::move(reading));
  }
  return readings;
}

}  // namespace addnorm::graph
