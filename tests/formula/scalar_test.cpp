// Scalars: values, folding, edge cases.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "addnorm/formula/scalar.h"

namespace addnorm::formula {
namespace {

double value(const char* text, const Scalars& scalars = {}) {
  const std::optional<double> result = evaluate(*parse_expression(text), scalars);
  EXPECT_TRUE(result.has_value()) << text;
  return result.value_or(std::nan(""));
}

TEST(Scalar, Values) {
  EXPECT_EQ(value("2^3^2"), 512);
  EXPECT_EQ(value("-2^2"), -4);
  EXPECT_EQ(value("10^-1"), 0.1);
  EXPECT_EQ(value("0^0"), 1);
  EXPECT_EQ(value("1 - 2 - 3"), -4);
  EXPECT_EQ(value("8/2/2"), 2);
  EXPECT_DOUBLE_EQ(value("(2*L)^(1/4)", {{"L", 6}}), 1.8612097182041991);
  EXPECT_EQ(value("clip(5, 0, 1) + clip(-5, 0, 1) + clip(0.25, 0, 1)"), 1.25);
  EXPECT_EQ(value("min(2, 3) + 10*max(2, 3)"), 32);
  EXPECT_EQ(value("floor(-0.5) + ceil(0.5)"), 0);
  EXPECT_EQ(value("abs(-3) + sqrt(16) + exp(0) + log(1)"), 8);
  EXPECT_EQ(value("relu(-1) + relu(2) + tanh(0) + erf(0) + silu(0) + gelu(0)"), 2);
  EXPECT_EQ(value("sigmoid(0)"), 0.5);
  EXPECT_NEAR(value("gelu(1)"), 0.84134474606854293, 1e-16);
  EXPECT_NEAR(value("silu(1)"), 0.73105857863000490, 1e-16);
}

TEST(Scalar, NotFiniteAsIeee) {
  EXPECT_TRUE(std::isinf(value("1/0")));
  EXPECT_TRUE(std::isnan(value("0/0")));
  EXPECT_TRUE(std::isnan(value("sqrt(-1)")));
  EXPECT_TRUE(std::isnan(value("min(1, 0/0)")));
  EXPECT_TRUE(std::isnan(value("max(0/0, 1)")));
  EXPECT_TRUE(std::isnan(value("clip(0/0, 0, 1)")));
  EXPECT_TRUE(std::isnan(value("relu(0/0)")));
  const Scalars end = {{"t", std::numeric_limits<double>::infinity()}};
  EXPECT_EQ(value("clip(t/1000, 0, 1) + 1/t", end), 1);
}

TEST(Scalar, WhatIsNotAScalarHasNoValue) {
  EXPECT_FALSE(evaluate(*parse_expression("L"), {}));
  EXPECT_FALSE(evaluate(*parse_expression("1 + norm(2)"), {}));
  EXPECT_FALSE(evaluate(*parse_expression("sqrt(1, 2)"), {}));
  EXPECT_FALSE(evaluate(*parse_expression("sqrt(1, gain=2)"), {}));
  EXPECT_FALSE(is_scalar_function("dot"));
  EXPECT_TRUE(is_scalar_function("clip"));
}

TEST(Scalar, FoldLeavesWhatDependsOnT) {
  const Scalars known = {{"L", 4}, {"l", 2}, {"T", 1000}};
  const auto folded = [&](const char* text) {
    return print(*fold(*parse_expression(text), known));
  };
  EXPECT_EQ(folded("clip(t/(T*l), 0, 1)*(1 + L)"), "clip(t/2000, 0, 1)*5");
  EXPECT_EQ(folded("x + (l - L)*f(norm(x, gain=1/L))"), "x + -2*f(norm(x, gain=0.25))");
  EXPECT_EQ(folded("attn(x, qk=rmsnorm(eps=1/L))"), "attn(x, qk=rmsnorm(eps=0.25))");
  EXPECT_EQ(folded("-L"), "-4");
  EXPECT_EQ(folded("param(L - 1)"), "param(3)");
  EXPECT_EQ(print(*fold(*number(2), {})), "2");
  EXPECT_EQ(print(*parse_expression(folded("(l - L)^2 - -L^2"))), "20");
}

TEST(Scalar, Reads) {
  const ExprPtr e = parse_expression("clip(t/2, 0, 1)*norm(x, gain=w)");
  EXPECT_TRUE(reads(*e, "t"));
  EXPECT_TRUE(reads(*e, "w"));
  EXPECT_FALSE(reads(*e, "clip"));
  EXPECT_FALSE(reads(*e, "L"));
}

}  // namespace
}  // namespace addnorm::formula
