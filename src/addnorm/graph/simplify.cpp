#include "addnorm/graph/simplify.h"

#include <optional>
#include <set>

namespace addnorm::graph {
namespace {

// The product of two coefficients where it is one again.
std::optional<Scalar> multiply(const Scalar& a, const Scalar& b) {
  if (a == Scalar{1}) return b;
  if (b == Scalar{1}) return a;
  if (a.schedule >= 0 || b.schedule >= 0) return std::nullopt;
  return Scalar{a.value * b.value};
}

// `inner` as a part of `outer` with coefficient `weight`; false where that is no plain sum.
bool absorb(nodes::Sum& outer, std::vector<ValueId>& inputs, size_t place, const nodes::Sum& inner,
            const std::vector<ValueId>& inner_inputs) {
  const Scalar weight = outer.weights[place];
  std::vector<Scalar> weights;
  for (const Scalar& w : inner.weights) {
    const auto product = multiply(weight, w);
    if (!product) return false;
    weights.push_back(*product);
  }
  if (inner.constant != Scalar{}) {
    const auto constant = multiply(weight, inner.constant);
    if (!constant || outer.constant != Scalar{}) return false;
    outer.constant = *constant;
  }
  outer.weights.erase(outer.weights.begin() + static_cast<ptrdiff_t>(place));
  outer.weights.insert(outer.weights.begin() + static_cast<ptrdiff_t>(place), weights.begin(),
                       weights.end());
  inputs.erase(inputs.begin() + static_cast<ptrdiff_t>(place));
  inputs.insert(inputs.begin() + static_cast<ptrdiff_t>(place), inner_inputs.begin(),
                inner_inputs.end());
  return true;
}

}  // namespace

void simplify(Graph& graph) {
  std::set<ValueId> kept = {graph.logits, graph.loss};
  for (const auto& [name, id] : graph.points) kept.insert(id);
  for (const Branch& branch : graph.branches) kept.insert({branch.in, branch.out, branch.write});
  for (const Stack& stack : graph.stacks) {
    kept.insert({stack.embed, stack.out});
    kept.insert(stack.layer_input.begin(), stack.layer_input.end());
  }
  std::vector<int> uses(graph.values.size(), 0);
  for (const Node& node : graph.nodes) {
    for (const ValueId input : node.inputs) ++uses[static_cast<size_t>(input)];
  }
  std::set<int> removed;
  for (Node& node : graph.nodes) {
    auto* outer = std::get_if<nodes::Sum>(&node.op);
    if (outer == nullptr) continue;
    for (size_t i = 0; i < node.inputs.size();) {
      const ValueId input = node.inputs[i];
      const int maker = graph.values[static_cast<size_t>(input)].node;
      const Node* inner_node = maker < 0 ? nullptr : &graph.nodes[static_cast<size_t>(maker)];
      const auto* inner =
          inner_node == nullptr ? nullptr : std::get_if<nodes::Sum>(&inner_node->op);
      const bool free = uses[static_cast<size_t>(input)] == 1 && kept.count(input) == 0;
      // A number per token inside a tensor sum is cheaper computed once than for every channel.
      const bool same = inner != nullptr && graph.shape(input) == graph.shape(node.output);
      if (!same || !free || !absorb(*outer, node.inputs, i, *inner, inner_node->inputs)) {
        ++i;
        continue;
      }
      removed.insert(maker);
    }
  }
  std::vector<Node> nodes;
  for (size_t i = 0; i < graph.nodes.size(); ++i) {
    if (removed.count(static_cast<int>(i)) > 0) {
      graph.values[static_cast<size_t>(graph.nodes[i].output)].node = -1;
      continue;
    }
    graph.values[static_cast<size_t>(graph.nodes[i].output)].node = static_cast<int>(nodes.size());
    nodes.push_back(std::move(graph.nodes[i]));
  }
  graph.nodes = std::move(nodes);
}

}  // namespace addnorm::graph
