// Compile-time scalars: L, N, M, S, d, head_dim, l, s and `let` names, and the run-time scalar t.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "addnorm/formula/program.h"

namespace addnorm::formula {

using Scalars = std::map<std::string, double>;

// Functions of scalars: sqrt log exp abs min max clip floor ceil sigmoid silu tanh erf relu gelu.
bool is_scalar_function(const std::string& name);

// One operator of + - * / ^, one function (nullopt if there is none with so many arguments).
double apply_operator(char op, double a, double b);
std::optional<double> apply_function(const std::string& function,
                                     const std::vector<double>& arguments);

// The value of a scalar expression. nullopt where a name is not in `scalars` or a call is not one of
// numbers. 0^0 = 1; a division by zero or a non-finite result is returned as IEEE gives it, the
// caller judges it.
std::optional<double> evaluate(const Expr& expression, const Scalars& scalars);

// The expression with every known name replaced by its number and constant parts computed; what
// stays depends on t.
ExprPtr fold(const Expr& expression, const Scalars& scalars);
ExprPtr number(double value);
// Names of scalars that the expression reads.
bool reads(const Expr& expression, const std::string& name);

}  // namespace addnorm::formula
