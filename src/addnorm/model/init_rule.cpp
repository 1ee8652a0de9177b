#include "addnorm/model/init_rule.h"

#include <algorithm>
#include <cmath>

#include "addnorm/base/text.h"
#include "addnorm/formula/scalar.h"

namespace addnorm::model {
namespace {

using formula::Expr;

[[noreturn]] void not_a_rule(const std::string& got) {
  const std::string name = nearest(got.substr(0, got.find('(')), rule_names());
  throw Error(Failure::input,
              "expected normal(std), trunc_normal(std), uniform(bound), xavier_uniform(gain), "
              "xavier_normal(gain), constant(v) or zeros, got " +
                  got + (name.empty() ? "" : "; try " + name));
}

}  // namespace

const std::vector<std::string>& rule_names() {
  static const std::vector<std::string> names = {
      "normal", "trunc_normal", "uniform", "xavier_uniform", "xavier_normal", "constant", "zeros"};
  return names;
}

RuleText parse_rule(const std::string& text) {
  formula::ExprPtr expression;
  try {
    expression = formula::parse_expression(text);
  } catch (const Error& error) {
    const std::string name = trim(text.substr(0, text.find('(')));
    const auto& known = rule_names();
    if (std::find(known.begin(), known.end(), name) == known.end() || error.findings().empty()) {
      not_a_rule("\"" + text + "\"");
    }
    throw Error(Failure::input, "expected a number in " + name + "(..), got `" + text +
                                    "`: " + error.findings().front().message);
  }
  if (expression->kind == Expr::Kind::name && expression->name == "zeros") {
    return {"constant", formula::number(0)};
  }
  const auto& names = rule_names();
  if (expression->kind != Expr::Kind::call || expression->name == "zeros" ||
      std::find(names.begin(), names.end(), expression->name) == names.end()) {
    not_a_rule(text);
  }
  if (expression->args.size() != 1 || !expression->options.empty()) {
    throw Error(Failure::input, "expected one number for " + expression->name + ", got " +
                                    std::to_string(expression->args.size()));
  }
  return {expression->name, expression->args[0]};
}

std::string number_problem(const RuleText& rule, const std::optional<double>& value) {
  // A draw of ten standard deviations stays a float, and so do sums over a row of a few of them.
  constexpr double largest = 1e36;
  const bool constant = rule.kind == "constant";
  const std::string got = ", got " + (value ? shortest(*value) : std::string("none"));
  if (!value || !std::isfinite(*value) || (*value < 0 && !constant)) {
    return "expected a finite number" + std::string(constant ? "" : " of at least 0") + got;
  }
  if (std::abs(*value) <= largest) return "";
  return "expected a number of at most 1e36, for weights are 32-bit floats" + got;
}

bool same_rule(const std::string& a, const std::string& b) {
  const RuleText first = parse_rule(a), second = parse_rule(b);
  return first.kind == second.kind && formula::same(*first.argument, *second.argument);
}

std::vector<std::string> expression_problems(const Expr& expression,
                                             const std::vector<std::string>& names) {
  std::vector<std::string> problems;
  formula::visit(expression, [&](const Expr& e) {
    if (e.kind == Expr::Kind::name &&
        std::find(names.begin(), names.end(), e.name) == names.end()) {
      const std::string near = nearest(e.name, names);
      problems.push_back("expected one of " + join(names, " ") + ", got `" + e.name + "`" +
                         (near.empty() ? "" : "; try `" + near + "`"));
    }
    if (e.kind != Expr::Kind::call) return;
    if (!formula::is_scalar_function(e.name)) {
      problems.push_back("expected a function of numbers, got `" + e.name + "(..)`");
    } else if (!e.options.empty()) {
      problems.push_back("`" + e.name + "(..)` of numbers takes no options");
    } else if (!formula::apply_function(e.name, std::vector<double>(e.args.size(), 1))) {
      problems.push_back("expected another number of arguments of `" + e.name + "`, got " +
                         std::to_string(e.args.size()));
    }
  });
  return problems;
}

}  // namespace addnorm::model
