#include "addnorm/model/init.h"

#include <fmt/format.h>

#include <cmath>
#include <map>
#include <numbers>

#include "addnorm/base/random.h"
#include "addnorm/base/text.h"
#include "addnorm/model/init_rule.h"

namespace addnorm::model {
namespace {

using graph::Parameter;
using graph::Role;
using graph::StackSide;
using Kind = InitRule::Kind;

// Truncation at 2 standard deviations: density and mass of the standard normal distribution there.
const double cut_density = std::exp(-2.0) * std::numbers::inv_sqrtpi / std::numbers::sqrt2;
const double cut_mass = std::erf(std::numbers::sqrt2);
const double cut_variance = 1 - 4 * cut_density / cut_mass;
const double cut_fourth = 3 - 2 * cut_density * (8 + 6) / cut_mass;

std::string side_prefix(StackSide side) {
  return side == StackSide::encoder ? "encoder." : side == StackSide::decoder ? "decoder." : "";
}

// The rule's text for a parameter; "" where it keeps its own start value.
std::string text_for(const Specification& spec, const Parameter& parameter) {
  if (parameter.role == Role::bias) return "";
  const std::string role = graph::role_name(parameter.role);
  for (const std::string& key : {side_prefix(parameter.side) + role, role}) {
    const auto found = spec.init.find(key);
    if (found != spec.init.end()) return found->second;
  }
  if (!parameter.matrix) return "";
  const auto found = spec.init.find("default");
  return found == spec.init.end() ? "normal(0.02)" : found->second;
}

InitRule start_value(const Parameter& parameter) {
  InitRule rule;
  rule.kind = Kind::constant;
  rule.value = parameter.start;
  rule.text = fmt::format("constant({:.6g})", parameter.start);
  rule.formula = fmt::format("{:.6g}", parameter.start);
  return rule;
}

InitRule numbers(const Parameter& parameter, const std::string& text, formula::Scalars names) {
  const RuleText parsed = parse_rule(text);
  const auto in = static_cast<double>(parameter.fan_in());
  const auto out = static_cast<double>(parameter.fan_out());
  names["fan_in"] = in;
  names["fan_out"] = out;
  if (parameter.layer >= 0) names["l"] = parameter.layer + 1;
  const auto value = formula::evaluate(*parsed.argument, names);
  if (const std::string wrong = number_problem(parsed, value); !wrong.empty()) {
    fail_input("init." + std::string(graph::role_name(parameter.role)),
               wrong + " from `" + text + "` for " + parameter.name +
                   (parameter.layer < 0 && formula::reads(*parsed.argument, "l")
                        ? "; `l` has a value inside blocks only: set this role on its own"
                        : ""));
  }
  InitRule rule;
  rule.text = text;
  rule.value = *value;
  const double spread = std::sqrt(2 / (in + out));
  if (parsed.kind == "xavier_normal") {
    rule.kind = Kind::normal;
    rule.value *= spread;
    rule.formula = fmt::format("{:.6g} * sqrt(2/({} + {}))", *value, in, out);
  } else if (parsed.kind == "xavier_uniform") {
    rule.kind = Kind::uniform;
    rule.value *= std::sqrt(3.0) * spread;
    rule.formula = fmt::format("{:.6g} * sqrt(6/({} + {})) / sqrt(3)", *value, in, out);
  } else if (parsed.kind == "uniform") {
    rule.kind = Kind::uniform;
    rule.formula = fmt::format("{:.6g} / sqrt(3)", *value);
  } else if (parsed.kind == "trunc_normal") {
    rule.kind = Kind::trunc_normal;
    rule.formula = fmt::format("{:.6g} * {:.6g}", *value, std::sqrt(cut_variance));
  } else {
    rule.kind = parsed.kind == "constant" ? Kind::constant : Kind::normal;
    rule.formula = fmt::format("{:.6g}", *value);
  }
  return rule;
}

// A rule for gains in terms of what is stored: scalenorm's weight is gain*sqrt(width), a norm with
// a unit offset stores gain - 1.
void store_gain(const nodes::Norm& norm, InitRule* rule) {
  if (norm.kind == nodes::NormKind::scalenorm) {
    rule->value *= std::sqrt(static_cast<double>(norm.width));
  }
  if (norm.unit_offset) rule->offset = -1;
}

std::map<graph::ValueId, const nodes::Norm*> norms_by_weight(const graph::Graph& graph) {
  std::map<graph::ValueId, const nodes::Norm*> norms;
  for (const graph::Node& node : graph.nodes) {
    const auto* norm = std::get_if<nodes::Norm>(&node.op);
    if (norm == nullptr || norm->weight_at() < 0) continue;
    norms[node.inputs[static_cast<size_t>(norm->weight_at())]] = norm;
  }
  return norms;
}

double draw_at(const InitRule& rule, uint64_t seed, uint64_t stream, uint64_t index) {
  const Random random(seed, stream);
  switch (rule.kind) {
    case Kind::constant:
      return rule.offset + rule.value;
    case Kind::normal:
      return rule.offset + rule.value * random.normal(index);
    case Kind::uniform:
      return rule.offset + rule.value * (2 * random.uniform(index) - 1);
    case Kind::trunc_normal:
      break;
  }
  // Redraws take the same index of further streams, so that one element never shifts another.
  for (uint64_t attempt = 0;; ++attempt) {
    const double z = Random(seed, stream + attempt * 0x9E3779B97F4A7C15).normal(index);
    if (std::abs(z) <= 2) return rule.offset + rule.value * z;
  }
}

template <class T>
void fill_with(const InitRule& rule, uint64_t seed, const std::string& name, std::span<T> to,
               uint64_t first) {
  const uint64_t stream = Random::hash(name);
  for (size_t i = 0; i < to.size(); ++i) {
    to[i] = static_cast<T>(draw_at(rule, seed, stream, first + i));
  }
}

}  // namespace

double InitRule::target_std() const {
  switch (kind) {
    case Kind::normal:
      return value;
    case Kind::trunc_normal:
      return value * std::sqrt(cut_variance);
    case Kind::uniform:
      return value / std::sqrt(3.0);
    case Kind::constant:
      break;
  }
  return 0;
}

double InitRule::kurtosis() const {
  if (kind == Kind::uniform) return 1.8;
  return kind == Kind::trunc_normal ? cut_fourth / (cut_variance * cut_variance) : 3;
}

std::vector<InitRule> init_rules(const Specification& specification, const graph::ModelShape& shape,
                                 const graph::Graph& graph) {
  std::map<StackSide, formula::Scalars> names;
  const bool pair = shape.kind == graph::ModelKind::encoder_decoder;
  const auto names_of = [&](StackSide side) -> const formula::Scalars& {
    if (pair && side == StackSide::single) side = StackSide::decoder;
    if (!names.contains(side)) names[side] = scalars(shape, side);
    return names[side];
  };
  const auto norms = norms_by_weight(graph);
  std::vector<InitRule> rules;
  for (const Parameter& parameter : graph.parameters) {
    const std::string text = text_for(specification, parameter);
    if (text.empty()) {
      rules.push_back(start_value(parameter));
      continue;
    }
    rules.push_back(numbers(parameter, text, names_of(parameter.side)));
    const auto norm = norms.find(parameter.value);
    if (norm != norms.end()) store_gain(*norm->second, &rules.back());
  }
  return rules;
}

double draw(const InitRule& rule, uint64_t seed, const std::string& name, uint64_t index) {
  return draw_at(rule, seed, Random::hash(name), index);
}

void fill(const InitRule& rule, uint64_t seed, const std::string& name, std::span<float> to,
          uint64_t first) {
  fill_with(rule, seed, name, to, first);
}
void fill(const InitRule& rule, uint64_t seed, const std::string& name, std::span<double> to,
          uint64_t first) {
  fill_with(rule, seed, name, to, first);
}

}  // namespace addnorm::model
