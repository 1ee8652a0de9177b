// Scalars of the language, in double. Conventions: 0^0 = 1; min and max give the first argument at a
// tie; NaN passes through every function.
#include "addnorm/formula/scalar.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <numbers>
#include <span>
#include <vector>

namespace addnorm::formula {
namespace {

struct ScalarFunction {
  const char* name;
  size_t arguments;
  double (*apply)(std::span<const double>);
};

using Args = std::span<const double>;

const ScalarFunction table[] = {
    {"sqrt", 1, [](Args a) { return std::sqrt(a[0]); }},
    {"log", 1, [](Args a) { return std::log(a[0]); }},
    {"exp", 1, [](Args a) { return std::exp(a[0]); }},
    {"abs", 1, [](Args a) { return std::abs(a[0]); }},
    {"floor", 1, [](Args a) { return std::floor(a[0]); }},
    {"ceil", 1, [](Args a) { return std::ceil(a[0]); }},
    {"min", 2, [](Args a) { return a[1] < a[0] || std::isnan(a[1]) ? a[1] : a[0]; }},
    {"max", 2, [](Args a) { return a[1] > a[0] || std::isnan(a[1]) ? a[1] : a[0]; }},
    {"clip", 3, [](Args a) { return a[0] < a[1]   ? a[1]
                                    : a[0] > a[2] ? a[2]
                                                  : a[0]; }},
    {"sigmoid", 1, [](Args a) { return 1 / (1 + std::exp(-a[0])); }},
    {"silu", 1, [](Args a) { return a[0] / (1 + std::exp(-a[0])); }},
    {"tanh", 1, [](Args a) { return std::tanh(a[0]); }},
    {"erf", 1, [](Args a) { return std::erf(a[0]); }},
    {"relu", 1, [](Args a) { return a[0] <= 0 ? 0 : a[0]; }},
    {"gelu", 1, [](Args a) { return a[0] * std::erfc(-a[0] / std::numbers::sqrt2) / 2; }},
};

const ScalarFunction* find(const std::string& name) {
  for (const ScalarFunction& function : table) {
    if (name == function.name) return &function;
  }
  return nullptr;
}

}  // namespace

bool is_scalar_function(const std::string& name) { return find(name) != nullptr; }

double apply_operator(char op, double a, double b) {
  switch (op) {
    case '+':
      return a + b;
    case '-':
      return a - b;
    case '*':
      return a * b;
    case '/':
      return a / b;
    default:
      return std::pow(a, b);
  }
}

namespace {

std::optional<double> call(const std::string& function, Args arguments) {
  const ScalarFunction* found = find(function);
  if (found == nullptr || found->arguments != arguments.size()) return std::nullopt;
  return found->apply(arguments);
}

}  // namespace

std::optional<double> apply_function(const std::string& function,
                                     const std::vector<double>& arguments) {
  return call(function, arguments);
}

std::optional<double> evaluate(const Expr& expression, const Scalars& scalars) {
  switch (expression.kind) {
    case Expr::Kind::number:
      return expression.number;
    case Expr::Kind::name: {
      const auto found = scalars.find(expression.name);
      if (found == scalars.end()) return std::nullopt;
      return found->second;
    }
    case Expr::Kind::negate:
    case Expr::Kind::binary:
    case Expr::Kind::call: {
      if (!expression.options.empty()) return std::nullopt;
      double values[3];  // no function has more; no allocation, since schedules run every update
      if (expression.args.size() > std::size(values)) return std::nullopt;
      size_t count = 0;
      for (const ExprPtr& argument : expression.args) {
        const std::optional<double> value = evaluate(*argument, scalars);
        if (!value) return std::nullopt;
        values[count++] = *value;
      }
      if (expression.kind == Expr::Kind::negate) return -values[0];
      if (expression.kind == Expr::Kind::call) return call(expression.name, Args(values, count));
      return apply_operator(expression.op, values[0], values[1]);
    }
  }
  return std::nullopt;
}

ExprPtr number(double value) {
  auto result = std::make_shared<Expr>();
  result->kind = Expr::Kind::number;
  result->number = value;
  return result;
}

namespace {

std::vector<Option> fold(std::vector<Option> options, const Scalars& scalars) {
  for (Option& option : options) {
    if (option.value) option.value = formula::fold(*option.value, scalars);
    option.inner = fold(std::move(option.inner), scalars);
  }
  return options;
}

}  // namespace

ExprPtr fold(const Expr& expression, const Scalars& scalars) {
  auto result = std::make_shared<Expr>(expression);
  bool constant = expression.options.empty();
  std::vector<double> values;
  for (ExprPtr& argument : result->args) {
    argument = fold(*argument, scalars);
    constant = constant && argument->kind == Expr::Kind::number;
    if (constant) values.push_back(argument->number);
  }
  result->options = fold(std::move(result->options), scalars);

  std::optional<double> value;
  if (expression.kind == Expr::Kind::name) {
    const auto found = scalars.find(expression.name);
    if (found != scalars.end()) value = found->second;
  } else if (constant && expression.kind == Expr::Kind::negate) {
    value = -values[0];
  } else if (constant && expression.kind == Expr::Kind::binary) {
    value = apply_operator(expression.op, values[0], values[1]);
  } else if (constant && expression.kind == Expr::Kind::call) {
    value = apply_function(expression.name, values);
  }
  if (!value) return result;
  auto folded = std::make_shared<Expr>();
  folded->at = expression.at;
  folded->number = *value;
  return folded;
}

bool reads(const Expr& expression, const std::string& name) {
  bool found = false;
  visit(expression,
        [&](const Expr& e) { found = found || (e.kind == Expr::Kind::name && e.name == name); });
  return found;
}

}  // namespace addnorm::formula
