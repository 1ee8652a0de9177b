#include "addnorm/model/paths.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace addnorm::model {
namespace {

using graph::Node;
using graph::ValueId;
using nodes::UnaryKind;

size_t at(ValueId id) { return static_cast<size_t>(id); }

bool keeps_zero(const nodes::Unary& unary, double low, double high) {
  switch (unary.kind) {
    case UnaryKind::sigmoid:
    case UnaryKind::exp:
    case UnaryKind::log:
      return false;
    case UnaryKind::clip:
      return low <= 0 && high >= 0;
    case UnaryKind::power:
      return low > 0;
    default:
      return true;
  }
}

}  // namespace

bool is_scale_free(const nodes::Norm& norm) { return !norm.elementwise(); }

Paths::Paths(const graph::Graph& graph, const std::vector<InitRule>& rules) : graph_(graph) {
  formula::Scalars names = {{"t", 0}};
  schedules_.resize(graph.schedules.size());
  graph.schedule_values(std::numeric_limits<double>::infinity(), names, schedules_);
  for (const InitRule& rule : rules) {
    const bool constant = rule.kind == InitRule::Kind::constant || rule.value == 0;
    start_.push_back(constant ? std::optional(rule.offset + rule.value) : std::nullopt);
  }
  find_insides();
  find_zeros(rules);
}

double Paths::at_end(const nodes::Scalar& scalar) const {
  return scalar.schedule < 0 ? scalar.value : schedules_[static_cast<size_t>(scalar.schedule)];
}

const Node* Paths::node_of(ValueId value) const {
  const int node = graph_.values[at(value)].node;
  return node < 0 ? nullptr : &graph_.nodes[static_cast<size_t>(node)];
}

int Paths::index_of(ValueId value) const { return graph_.values[at(value)].node; }

// Backward from a branch's result, up to its argument and to what other stacks give.
void Paths::find_insides() {
  inside_.assign(graph_.nodes.size(), false);
  for (const graph::Branch& branch : graph_.branches) {
    std::vector<ValueId> open = {branch.out};
    while (!open.empty()) {
      const ValueId value = open.back();
      open.pop_back();
      const Node* node = node_of(value);
      if (node == nullptr || value == branch.in) continue;
      const int index = index_of(value);
      const bool memory =
          std::any_of(graph_.stacks.begin(), graph_.stacks.end(),
                      [&](const graph::Stack& stack) { return stack.out == value; });
      if (inside_[static_cast<size_t>(index)] || (memory && value != branch.out)) continue;
      inside_[static_cast<size_t>(index)] = true;
      open.insert(open.end(), node->inputs.begin(), node->inputs.end());
    }
  }
}

bool Paths::node_is_zero(const Node& node) const {
  const auto zero_input = [&](size_t i) { return zero(node.inputs[i]); };
  if (const auto* sum = std::get_if<nodes::Sum>(&node.op)) {
    if (at_end(sum->constant) != 0) return false;
    for (size_t i = 0; i < sum->weights.size(); ++i) {
      if (at_end(sum->weights[i]) != 0 && !zero_input(i)) return false;
    }
    return true;
  }
  if (std::holds_alternative<nodes::Linear>(node.op)) {
    const bool bias = node.inputs.size() > 2 && !zero_input(2);
    return (zero_input(0) || zero_input(1)) && !bias;
  }
  if (const auto* norm = std::get_if<nodes::Norm>(&node.op)) {
    const int weight = norm->weight_at(), bias = norm->bias_at(), shift = norm->shift_at();
    if (bias > 0 && !zero_input(static_cast<size_t>(bias))) return false;
    if (weight > 0 && !norm->unit_offset && zero_input(static_cast<size_t>(weight))) return true;
    if (weight > 0 && norm->unit_offset &&
        constant(node.inputs[static_cast<size_t>(weight)]) == -1.0) {
      return true;
    }
    return zero_input(0) && (shift < 0 || zero_input(static_cast<size_t>(shift)));
  }
  if (const auto* binary = std::get_if<nodes::Binary>(&node.op)) {
    if (binary->kind == nodes::BinaryKind::product) return zero_input(0) || zero_input(1);
    if (binary->kind == nodes::BinaryKind::quotient) return zero_input(0);
    return zero_input(0) && zero_input(1);
  }
  if (const auto* unary = std::get_if<nodes::Unary>(&node.op)) {
    return zero_input(0) && keeps_zero(*unary, at_end(unary->low), at_end(unary->high));
  }
  if (std::holds_alternative<nodes::Attention>(node.op)) return zero_input(2);
  if (std::holds_alternative<nodes::HeadScale>(node.op) ||
      std::holds_alternative<nodes::Dot>(node.op)) {
    return zero_input(0) || zero_input(1);
  }
  if (std::holds_alternative<nodes::CrossEntropy>(node.op) ||
      std::holds_alternative<nodes::SinusoidalPositions>(node.op)) {
    return false;
  }
  return zero_input(0);  // tables, rotation, rms, detach, dropout
}

void Paths::find_zeros(const std::vector<InitRule>& rules) {
  zero_.assign(graph_.values.size(), false);
  for (size_t i = 0; i < rules.size(); ++i) {
    zero_[at(graph_.parameters[i].value)] = start_[i] == 0.0;
  }
  for (const Node& node : graph_.nodes) zero_[at(node.output)] = node_is_zero(node);
}

std::optional<double> Paths::constant(ValueId value) const {
  const graph::Value& known = graph_.values[at(value)];
  if (known.parameter >= 0) return start_[static_cast<size_t>(known.parameter)];
  if (known.shape.per_token()) return std::nullopt;
  const Node& node = *node_of(value);
  std::vector<double> in;
  for (const ValueId input : node.inputs) {
    const auto number = constant(input);
    if (!number) return std::nullopt;
    in.push_back(*number);
  }
  nodes::BatchView batch;
  batch.schedules = schedules_.data();
  if (const auto* sum = std::get_if<nodes::Sum>(&node.op)) {
    double total = at_end(sum->constant);
    for (size_t i = 0; i < in.size(); ++i) total += at_end(sum->weights[i]) * in[i];
    return total;
  }
  if (const auto* unary = std::get_if<nodes::Unary>(&node.op)) return unary->value(in[0], batch);
  if (const auto* binary = std::get_if<nodes::Binary>(&node.op)) {
    switch (binary->kind) {
      case nodes::BinaryKind::product:
        return in[0] * in[1];
      case nodes::BinaryKind::quotient:
        return in[0] / in[1];
      case nodes::BinaryKind::minimum:
        return std::min(in[0], in[1]);
      case nodes::BinaryKind::maximum:
        return std::max(in[0], in[1]);
    }
  }
  return std::holds_alternative<nodes::Detach>(node.op) ? std::optional(in[0]) : std::nullopt;
}

bool Paths::is_number(ValueId value) const {
  const nodes::Shape& shape = graph_.shape(value);
  return !shape.per_token() && shape.height == 1 && shape.cols == 1;
}

std::unordered_map<ValueId, Gain> Paths::bare(ValueId source, int end, bool through_norms) const {
  std::unordered_map<ValueId, Gain> reached = {{source, {true, 1}}};
  for (int i = index_of(source) + 1; i < end; ++i) {
    const Node& node = graph_.nodes[static_cast<size_t>(i)];
    if (inside(i) || std::holds_alternative<nodes::Dot>(node.op) ||
        std::holds_alternative<nodes::Rms>(node.op) ||
        (std::holds_alternative<nodes::Norm>(node.op) && !through_norms)) {
      continue;
    }
    Gain gain;
    bool any = false;
    for (size_t k = 0; k < node.inputs.size(); ++k) {
      const auto from = reached.find(node.inputs[k]);
      if (from == reached.end()) continue;
      any = true;
      std::optional<double> factor;
      if (const auto* sum = std::get_if<nodes::Sum>(&node.op)) {
        factor = at_end(sum->weights[k]);
      } else if (const auto* binary = std::get_if<nodes::Binary>(&node.op)) {
        if (binary->kind == nodes::BinaryKind::product) factor = constant(node.inputs[1 - k]);
        if (binary->kind == nodes::BinaryKind::quotient && k == 0) {
          factor = constant(node.inputs[1]);
          if (factor) factor = 1 / *factor;
        }
      } else if (std::holds_alternative<nodes::Drop>(node.op) ||
                 std::holds_alternative<nodes::Detach>(node.op)) {
        factor = 1;
      }
      gain.known = gain.known && from->second.known && factor.has_value();
      if (gain.known) gain.value += from->second.value * *factor;
    }
    if (any) reached[node.output] = gain;
  }
  return reached;
}

bool Paths::normed(ValueId value) const {
  const Node* node = node_of(value);
  while (node != nullptr) {
    if (std::holds_alternative<nodes::Norm>(node->op)) return true;
    const auto* binary = std::get_if<nodes::Binary>(&node->op);
    if (binary != nullptr) {
      if (binary->kind == nodes::BinaryKind::minimum ||
          binary->kind == nodes::BinaryKind::maximum) {
        return false;
      }
      const bool first = graph_.shape(node->inputs[0]).per_token();
      const ValueId factor = node->inputs[first ? 1 : 0];
      if (graph_.shape(factor).per_token()) return false;
      node = node_of(node->inputs[first ? 0 : 1]);
    } else if ((std::holds_alternative<nodes::Sum>(node->op) && node->inputs.size() == 1) ||
               std::holds_alternative<nodes::Drop>(node->op) ||
               std::holds_alternative<nodes::Detach>(node->op)) {
      node = node_of(node->inputs[0]);
    } else {
      return false;
    }
  }
  return false;
}

std::vector<bool> Paths::ancestors(const std::vector<ValueId>& from) const {
  std::vector<bool> wanted(graph_.values.size(), false);
  for (const ValueId value : from) wanted[at(value)] = true;
  for (auto node = graph_.nodes.rbegin(); node != graph_.nodes.rend(); ++node) {
    if (!wanted[at(node->output)]) continue;
    for (const ValueId input : node->inputs) wanted[at(input)] = true;
  }
  return wanted;
}

}  // namespace addnorm::model
