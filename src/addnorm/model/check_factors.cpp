// Checks 3, 4 and 5 of the catalogue: factors that a norm cancels, norms over 0, branches times 0.
#include <fmt/format.h>

#include <cmath>

#include "addnorm/model/checks.h"

namespace addnorm::model {
namespace {

using graph::Node;
using graph::ValueId;

// The factor that a scale-free norm cancels in its argument: "10" or "a param"; "" where there is none.
std::string cancelled(const StackCheck& check, const Node& argument) {
  if (const auto* sum = std::get_if<nodes::Sum>(&argument.op)) {
    // Lowering writes the factor on a sum into its addends.
    if (sum->weights.empty() || sum->constant != nodes::Scalar{}) return "";
    const nodes::Scalar weight = sum->weights[0];
    for (const nodes::Scalar& other : sum->weights) {
      if (other != weight) return "";
    }
    if (weight.schedule >= 0) return check.paths.at_end(weight) > 0 ? "a schedule" : "";
    return weight.value > 0 && weight.value != 1 ? fmt::format("{:.6g}", weight.value) : "";
  }
  const auto* binary = std::get_if<nodes::Binary>(&argument.op);
  if (binary == nullptr || binary->kind == nodes::BinaryKind::minimum ||
      binary->kind == nodes::BinaryKind::maximum) {
    return "";
  }
  const bool product = binary->kind == nodes::BinaryKind::product;
  const bool number = check.paths.is_number(argument.inputs[1]) ||
                      (product && check.paths.is_number(argument.inputs[0]));
  return number ? "a param" : "";
}

// (x + y)/2, (x + y)/sqrt(2): the factor keeps the size of one addend.
bool averages(const Node& argument) {
  const auto* sum = std::get_if<nodes::Sum>(&argument.op);
  if (sum == nullptr || sum->weights.size() < 2) return false;
  const auto addends = static_cast<double>(sum->weights.size());
  const double weight = sum->weights[0].value;
  return std::abs(weight * addends - 1) < 1e-9 || std::abs(weight * weight * addends - 1) < 1e-9;
}

void check_norm(StackCheck* check, int index) {
  const Node& node = check->graph.nodes[static_cast<size_t>(index)];
  const auto& norm = std::get<nodes::Norm>(node.op);
  if (!is_scale_free(norm)) return;
  const int weight = norm.weight_at();
  bool gain_is_zero = false;
  if (weight > 0) {
    const auto stored = check->paths.constant(node.inputs[static_cast<size_t>(weight)]);
    gain_is_zero = stored && *stored + (norm.unit_offset ? 1 : 0) == 0;
  }
  if (check->paths.zero(node.inputs[0]) && !gain_is_zero) {
    check->add(Level::warning, node.at,
               fmt::format("the argument of a norm starts at 0 in {} ({}): its Jacobian there is "
                           "gain/sqrt(eps), {:.3g} for gain 1",
                           check->statement(node.at), node.label, 1 / std::sqrt(norm.eps)));
  }
  if (check->paths.inside(index)) return;
  const Node* argument = check->paths.node_of(node.inputs[0]);
  if (argument == nullptr || check->paths.inside(check->paths.index_of(node.inputs[0]))) return;
  const std::string factor = cancelled(*check, *argument);
  if (factor.empty()) return;
  const bool average = averages(*argument);
  check->add(average ? Level::information : Level::warning, node.at,
             "the factor " + factor + " is cancelled by the norm over it, in " +
                 check->statement(argument->at) +
                 (average ? ": it only averages" : "; move it outside the norm, or drop it"));
}

}  // namespace

void check_factors(StackCheck* check) {
  for (int i = check->first_node; i < check->end_node; ++i) {
    if (std::holds_alternative<nodes::Norm>(check->graph.nodes[static_cast<size_t>(i)].op)) {
      check_norm(check, i);
    }
  }
  for (const graph::Branch& branch : check->branches) {
    if (branch.write < 0 || !check->paths.zero(branch.write) || check->paths.zero(branch.out)) {
      continue;
    }
    check->add(
        Level::information, branch.at,
        "branch weights have zero gradient in the first step: a gain or param that starts at 0 "
        "stands before the branch in " +
            check->statement(branch.at));
  }
}

}  // namespace addnorm::model
