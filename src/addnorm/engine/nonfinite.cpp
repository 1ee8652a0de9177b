#include "addnorm/engine/nonfinite.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <string>
#include <vector>

namespace addnorm::engine {

std::string value_name(const graph::Graph& graph, graph::ValueId id) {
  const graph::Value& value = graph.values[static_cast<size_t>(id)];
  if (value.parameter >= 0) return graph.parameters[static_cast<size_t>(value.parameter)].name;
  std::string best;
  for (const auto& [name, point] : graph.points) {
    // The branch's own result is what people look for, not the variable that repeats it.
    const bool own = name.ends_with(".out") && !best.ends_with(".out");
    if (point == id && (best.empty() || own)) best = name;
  }
  return best.empty() ? graph.nodes[static_cast<size_t>(value.node)].label : best;
}

namespace {

// "; passed on to a, b and 12 more", in the order of the pass.
std::string passed_on(const std::vector<std::string>& names) {
  constexpr size_t shown = 8;
  if (names.empty()) return "";
  std::string text = "; passed on to ";
  for (size_t i = 0; i < std::min(shown, names.size()); ++i) text += (i > 0 ? ", " : "") + names[i];
  if (names.size() > shown) text += fmt::format(" and {} more", names.size() - shown);
  return text;
}

}  // namespace

NonFinite first_non_finite(const graph::Graph& graph, int64_t length, int64_t source_length,
                           const std::function<bool(graph::ValueId, size_t*)>& bad_value,
                           const std::function<bool(graph::ValueId, size_t*)>& bad_gradient,
                           const std::function<std::pair<double, double>(graph::ValueId)>& range) {
  int64_t sequence = -1;  // set by describe
  const auto describe = [&](const graph::Node& node, graph::ValueId id, size_t element) {
    std::string text;
    const graph::Shape& shape = graph.shape(id);
    if (shape.per_token()) {
      const auto row = static_cast<int64_t>(element) / shape.cols;
      const int64_t columns = shape.rows == graph::Rows::source ? source_length : length;
      sequence = row / columns;
      text += fmt::format("sequence {}, token {}, channel {}", sequence, row % columns,
                          static_cast<int64_t>(element) % shape.cols);
    } else {
      text += fmt::format("element {}", element);
    }
    text += fmt::format("; computed by {}", node.label);
    if (node.at.line > 0) text += fmt::format(" (formula {}:{})", node.at.line, node.at.column);
    for (const graph::ValueId input : node.inputs) {
      const auto [low, high] = range(input);
      text += fmt::format("; input {} in {:.6g}..{:.6g}", value_name(graph, input), low, high);
    }
    return text;
  };
  size_t element = 0;
  for (const graph::Parameter& parameter : graph.parameters) {
    if (bad_value(parameter.value, &element)) {
      return {parameter.name, false, fmt::format("element {} of the weights", element)};
    }
  }
  std::vector<std::string> later;  // what only shows it
  const auto add_later = [&](graph::ValueId id) {
    const std::string name = value_name(graph, id);
    if (std::find(later.begin(), later.end(), name) == later.end()) later.push_back(name);
  };
  for (auto node = graph.nodes.begin(); node != graph.nodes.end(); ++node) {
    if (!bad_value(node->output, &element)) continue;
    const std::string detail = describe(*node, node->output, element);
    const std::string first = value_name(graph, node->output);
    while (++node != graph.nodes.end()) {
      if (bad_value(node->output, &element)) add_later(node->output);
    }
    return {first, false, detail + passed_on(later), sequence};
  }
  // Backward: a value whose gradient is not finite while all its uses have finite ones. A plain sum
  // among the uses hands gradients on unchanged, so another use is the likelier producer.
  std::vector<bool> bad(graph.values.size());
  std::vector<std::vector<const graph::Node*>> uses(graph.values.size());
  for (const graph::Node& node : graph.nodes) {
    for (const graph::ValueId input : node.inputs) {
      bad[static_cast<size_t>(input)] = bad_gradient(input, &element);
      uses[static_cast<size_t>(input)].push_back(&node);
    }
  }
  const auto made_here = [&](graph::ValueId id) {
    const auto& of = uses[static_cast<size_t>(id)];
    return bad[static_cast<size_t>(id)] && std::none_of(of.begin(), of.end(), [&](const auto* use) {
             return bad[static_cast<size_t>(use->output)];
           });
  };
  NonFinite result;
  for (auto node = graph.nodes.rbegin(); node != graph.nodes.rend(); ++node) {
    for (const graph::ValueId input : node->inputs) {
      if (!bad[static_cast<size_t>(input)]) continue;
      if (!result.tensor.empty() || !made_here(input)) {
        add_later(input);
        continue;
      }
      const auto& of = uses[static_cast<size_t>(input)];
      const auto maker = std::find_if(of.begin(), of.end(), [](const auto* use) {
        return !std::holds_alternative<nodes::Sum>(use->op);
      });
      static_cast<void>(bad_gradient(input, &element));
      result.tensor = value_name(graph, input);
      result.in_backward = true;
      result.detail = "gradient: " + describe(maker == of.end() ? *node : **maker, input, element);
      result.sequence = sequence;
    }
  }
  std::erase(later, result.tensor);
  result.detail += passed_on(later);
  return result;
}

}  // namespace addnorm::engine
