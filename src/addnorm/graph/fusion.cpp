#include "addnorm/graph/fusion.h"

#include <algorithm>
#include <map>

#include "addnorm/base/error.h"

namespace addnorm::graph {
namespace {

class Fusion {
 public:
  explicit Fusion(const Graph& graph)
      : graph_(graph),
        users_(graph.values.size()),
        taken_(graph.nodes.size()),
        wanted_(graph.needs_gradient()) {
    for (size_t n = 0; n < graph.nodes.size(); ++n) {
      for (const ValueId input : graph.nodes[n].inputs) {
        users_[static_cast<size_t>(input)].push_back(static_cast<int>(n));
      }
    }
  }

  std::vector<Step> run() {
    const Step head = find_head();
    for (const int node : head.nodes) taken_[static_cast<size_t>(node)] = true;
    std::vector<Step> steps;
    for (int n = 0; n < static_cast<int>(graph_.nodes.size()); ++n) {
      if (taken_[static_cast<size_t>(n)]) continue;
      Step step = group_from(n);
      for (const int node : step.nodes) taken_[static_cast<size_t>(node)] = true;
      steps.push_back(std::move(step));
    }
    steps.push_back(head);
    return steps;
  }

 private:
  const Node& node(int n) const { return graph_.nodes[static_cast<size_t>(n)]; }
  template <class Op>
  const Op* as(int n) const {
    return n < 0 ? nullptr : std::get_if<Op>(&node(n).op);
  }
  bool wanted(ValueId id) const { return wanted_[static_cast<size_t>(id)]; }
  int maker(ValueId id) const { return graph_.values[static_cast<size_t>(id)].node; }
  // The only user of a node's output, -1 where there are several or none.
  int only_user(int n) const {
    const auto& users = users_[static_cast<size_t>(node(n).output)];
    return users.size() == 1 ? users[0] : -1;
  }

  Step find_head() const {
    Step head{Step::Kind::head, {}};
    for (int n = maker(graph_.loss);;) {
      head.nodes.insert(head.nodes.begin(), n);
      if (as<nodes::Linear>(n) != nullptr) return head;
      n = maker(node(n).inputs[0]);
    }
  }

  // Later members of a group are computed at the place of its first node, so all they read besides
  // the group must be there already.
  bool ready(const Node& later, int first, ValueId inside) const {
    return std::all_of(later.inputs.begin(), later.inputs.end(),
                       [&](ValueId id) { return id == inside || maker(id) < first; });
  }

  Step group_from(int n) const {
    if (const auto* sum = as<nodes::Sum>(n)) {
      const Node& add = node(n);
      const bool tensors = sum->weights.size() == 2 && sum->constant == Scalar{} &&
                           add.inputs[0] != add.inputs[1] &&
                           graph_.shape(add.inputs[0]) == graph_.shape(add.output) &&
                           graph_.shape(add.inputs[1]) == graph_.shape(add.output) &&
                           graph_.shape(add.output).per_token();
      for (const int user : users_[static_cast<size_t>(add.output)]) {
        const auto* norm = as<nodes::Norm>(user);
        if (!tensors || norm == nullptr || taken_[static_cast<size_t>(user)]) continue;
        if (norm->width != graph_.shape(add.output).cols || !ready(node(user), n, add.output))
          continue;
        // A group has one backward pass: a norm without a gradient would take the sum's along.
        if (wanted(add.output) != wanted(node(user).output)) continue;
        return {Step::Kind::add_norm, {n, user}};
      }
    }
    if (as<nodes::Linear>(n) != nullptr) {
      const int user = only_user(n);
      if (user < 0) return {Step::Kind::single, {n}};
      if (const auto* product = as<nodes::Binary>(user);
          product != nullptr && product->kind == nodes::BinaryKind::product) {
        if (const Step gated = find_gated(n, user); !gated.nodes.empty()) return gated;
      }
      const auto* unary = as<nodes::Unary>(user);
      if (unary != nullptr && plain(*unary) && !feeds_gate(user)) {
        return {Step::Kind::linear_activation, {n, user}};
      }
    }
    return {Step::Kind::single, {n}};
  }

  static bool plain(const nodes::Unary& unary) {
    return unary.kind <= nodes::UnaryKind::gelu_tanh;  // no scalars, finite slopes
  }
  // Part of a gated group that starts at another linear node?
  bool feeds_gate(int unary) const {
    const int user = only_user(unary);
    if (as<nodes::Binary>(user) == nullptr) return false;
    for (const ValueId input : node(user).inputs) {
      const int other = maker(input);
      if (other != unary && as<nodes::Linear>(other) != nullptr &&
          !find_gated(other, user).nodes.empty()) {
        return true;
      }
    }
    return false;
  }

  // in-linear n, product: act(gate) * in, gate being a linear map too.
  Step find_gated(int n, int product) const {
    if (node(product).inputs[1] != node(n).output) return {};
    const int unary = maker(node(product).inputs[0]);
    const auto* activation = as<nodes::Unary>(unary);
    if (activation == nullptr || !plain(*activation) || only_user(unary) != product) return {};
    const int gate = maker(node(unary).inputs[0]);
    if (as<nodes::Linear>(gate) == nullptr || only_user(gate) != unary || only_user(n) != product)
      return {};
    if (graph_.shape(node(gate).output) != graph_.shape(node(n).output)) return {};
    if (gate == n || !ready(node(gate), std::min(n, gate), node(n).output)) return {};
    return {Step::Kind::gated, {n, gate, unary, product}};
  }

  const Graph& graph_;
  std::vector<std::vector<int>> users_;
  std::vector<bool> taken_;
  const std::vector<bool> wanted_;  // values that a gradient is computed of
};

}  // namespace

std::vector<Step> fuse(const Graph& graph) { return Fusion(graph).run(); }

}  // namespace addnorm::graph
