// A range of layers, and a formula of sublayers against the same block with its branches by name:
// equivalence 11 of catalogue.md.
#include <memory>

#include "equivalences/compare.h"

namespace addnorm::equivalences {
namespace {

using formula::Expr;
using formula::ExprPtr;

TEST(Equivalence11, MixLnWithFractionZeroIsPreLn) {
  const auto a = model("pre-ln"), b = model("mix-ln(fraction=0)");
  const Weights weights = draw(a);
  expect_same(compute(a, weights), compute(b, weights));
}
TEST(Equivalence11, MixLnWithFractionOneIsPostLnAndANorm) {
  const auto a = model("x = norm(x + f(x)); out = norm(x)"), b = model("mix-ln(fraction=1)");
  const Weights weights = draw(a);
  expect_same(compute(a, weights), compute(b, weights));
}

// f(..) becomes the named branch, `s` its number.
ExprPtr expanded(const Expr& expression, const std::string& branch, const ExprPtr& number) {
  if (expression.kind == Expr::Kind::name && expression.name == "s") return number;
  auto copy = std::make_shared<Expr>(expression);
  if (copy->kind == Expr::Kind::call && copy->name == "f") copy->name = branch;
  for (ExprPtr& argument : copy->args) argument = expanded(*argument, branch, number);
  for (formula::Option& option : copy->options) {
    if (option.value) option.value = expanded(*option.value, branch, number);
  }
  return copy;
}

formula::Program expanded(formula::Program program, formula::Stack stack) {
  const std::vector<std::string> branches = formula::branches(stack);
  for (formula::Block& block : program.blocks) {
    if (!formula::calls_f(block)) continue;
    std::vector<formula::Statement> body;
    for (size_t i = 0; i < branches.size(); ++i) {
      // The instances of f before this layer all stand in layers like this one here.
      const ExprPtr number = formula::parse_expression(std::to_string(branches.size()) +
                                                       "*(l - 1) + " + std::to_string(i + 1));
      for (formula::Statement statement : block.body) {
        for (ExprPtr& value : statement.values) value = expanded(*value, branches[i], number);
        body.push_back(statement);
      }
    }
    block.body = body;
  }
  return program;
}

bool shares_in_a_layer(const std::string& text) {
  return text.find("share=layer") != std::string::npos;
}

graph::ModelShape spelled_out(graph::ModelShape shape, formula::Stack stack) {
  shape.decoder.program = expanded(shape.decoder.program, stack);
  return shape;
}

// Bit for bit: the two texts are one computation.
void expect_same_bits(const graph::ModelShape& a, const graph::ModelShape& b,
                      const std::string& name) {
  const Weights weights = draw(a);
  const Outcome left = compute(a, weights, 700), right = compute(b, weights, 700);
  EXPECT_EQ(left.loss, right.loss) << name;
  EXPECT_EQ(left.logits, right.logits) << name;
  EXPECT_EQ(left.gradients, right.gradients) << name;
}

TEST(Equivalence11, EverySublayerFormulaIsItsExpansionParameterByParameter) {
  int compared = 0;
  for (const formula::Entry& entry : formula::Catalogue::builtin().entries()) {
    if (entry.formula.find("f(") == std::string::npos || entry.name.find('/') != std::string::npos)
      continue;
    auto shape = model(entry.name);
    shape.norm_eps.reset();
    bool sublayer = false;
    for (const auto& block : shape.decoder.program.blocks)
      sublayer = sublayer || formula::calls_f(block);
    if (!sublayer || shares_in_a_layer(entry.formula)) continue;
    expect_same_bits(shape, spelled_out(shape, formula::Stack::decoder), entry.name);
    ++compared;
  }
  EXPECT_GE(compared, 25);
}

TEST(Equivalence11, ASublayerFormulaOfTheDecoderOfAPairIsItsExpansion) {
  for (const char* text : {"x = x + f(norm(x)); out = norm(x)", "x = norm(s/2*x + f(x))",
                           "y = f(x); x = norm(x + y/l); out = x"}) {
    const auto shape = testing_models::small_shape(graph::ModelKind::encoder_decoder, text);
    expect_same_bits(shape, spelled_out(shape, formula::Stack::pair_decoder), text);
  }
}

TEST(Equivalence11, ASharedParameterCollectsWhatItsCopiesReceive) {
  for (const char* name : {"gpas", "rezero"}) {
    const auto shared = model(name);
    const auto copies = spelled_out(shared, formula::Stack::decoder);
    Weights weights = draw(shared);
    for (int layer = 0; layer < 3; ++layer) {
      weights["blocks." + std::to_string(layer) + ".param.1"] = {0.3};
    }
    Weights doubled = weights;
    for (int layer = 0; layer < 3; ++layer) {
      doubled["blocks." + std::to_string(layer) + ".param.2"] = {0.3};
    }
    const Outcome a = compute(shared, weights);
    Outcome b = compute(copies, doubled);
    for (int layer = 0; layer < 3; ++layer) {
      const std::string block = "blocks." + std::to_string(layer) + ".param.";
      b.gradients.at(block + "1")[0] += b.gradients.at(block + "2")[0];
    }
    expect_same(a, b);
  }
}

}  // namespace
}  // namespace addnorm::equivalences
