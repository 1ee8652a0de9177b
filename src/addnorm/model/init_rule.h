// The grammar of initialization rules: NAME(expression) or `zeros`.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "addnorm/base/error.h"
#include "addnorm/formula/program.h"

namespace addnorm::model {

struct RuleText {
  // normal trunc_normal uniform xavier_uniform xavier_normal constant
  std::string kind;
  formula::ExprPtr argument;  // `zeros` is constant(0)
};

// Throws Error without a place for a rule that is none.
RuleText parse_rule(const std::string& text);
// "" where a rule can draw finite 32-bit floats with this number, else "expected .., got ..".
std::string number_problem(const RuleText& rule, const std::optional<double>& value);
bool same_rule(const std::string& a, const std::string& b);  // up to spelling
const std::vector<std::string>& rule_names();

// Whether every name and call of a scalar expression is known. One message per problem, with the
// nearest name.
std::vector<std::string> expression_problems(const formula::Expr& expression,
                                             const std::vector<std::string>& names);

}  // namespace addnorm::model
