// What reaches `out`, and the check as a whole.
#include <gtest/gtest.h>

#include <limits>
#include <string>

#include "addnorm/formula/check.h"
#include "formula/check_support.h"
#include "formula/random_program.h"

namespace addnorm::formula {
namespace {

TEST(CheckFlow, EmbedReachesOut) {
  expect_findings("x = x + f(x)\nend: out = memory",
                  {"error [formula:1:9] expected the result of `f`",
                   "error [formula:2:6] expected `out` to depend "
                   "on `embed`"},
                  pair(Stack::pair_decoder));
  expect_findings("begin: x = memory\nblock: x = x + f(x)",
                  {"error [formula] expected `out` to depend on `embed`"},
                  pair(Stack::pair_decoder));
  expect_fine("begin: x = 0*embed\nblock: x = x + f(x)");  // structural
  expect_fine("begin: r = embed\nblock: x = 2*f(x)\nend: out = x");
}

TEST(CheckFlow, BranchesReachOut) {
  expect_findings("y = attn(x); x = x + ffn(x)",
                  {"error [formula:1:5] expected the result of `attn` to reach `out`"});
  expect_fine("y = attn(x); x = x + ffn(x) + 0*y");
  // Only the last layer's is lost: a warning that names it.
  expect_findings("begin: y = embed\nblock: y = y + attn(x); x = x + ffn(x) + z; z = y", {"error"});
  expect_findings(
      "begin: y = embed\nblock: x = x + ffn(y); y = y + attn(x)\nend: out = x",
      {"warning [formula:2:32] expected the result of `attn` to reach `out`, got no use "
       "of it that does in layer 4"});
  expect_findings(
      "begin: y = embed\nblock: z = f(x); x = x + y; y = z",
      {"warning [formula:2:12] expected the result of `f` to reach `out`, got no use of "
       "it that does in layer 4 (ffn)"});
  // A block without layers has no instances.
  expect_fine("block[1..0]: y = f(x)\nblock: x = x + f(x)");
}

TEST(CheckFlow, Detach) {
  expect_findings(
      "x = detach(x) + f(detach(x))",
      {"error [formula] expected a gradient from `out` to `embed`, got a `detach` on "
       "every path",
       "warning [formula:1:17] expected a gradient from `out` to `f`, got a `detach` on "
       "every path in layers 1 to 3, 4 (attn)"});
  expect_findings("x = x + detach(f(x))",
                  {"error [formula:1:16] expected a gradient from `out` to `f`, got a `detach` on "
                   "every path"});
  expect_fine("x = x + f(x); x = x - silu(param(0, share=layer))*detach(x)");
}

TEST(Check, LetOverrides) {
  const std::string mix =
      "let: fraction = 1/4\nblock[1..floor(fraction*L)]: x = norm(x + f(x))\nblock: x = x + "
      "f(norm(x))\nend: out = norm(x)";
  Context context = stack(10);
  EXPECT_EQ(layout(parse(mix), context).block_of[2]->at.line, 3);
  context.let_overrides = {{"fraction", 0.5}};
  EXPECT_EQ(layout(parse(mix), context).block_of[4]->at.line, 2);
  EXPECT_EQ(layout(parse(mix), context).block_of[5]->at.line, 3);
  EXPECT_EQ(layout(parse(mix), context).scalars.at("fraction"), 0.5);
  context.let_overrides = {{"fractoin", 0.5}};
  EXPECT_EQ(findings(mix, context),
            "error [formula] expected a `let` name of the program, got `fractoin`; try `fraction`");
  context.let_overrides = {{"fraction", std::numeric_limits<double>::infinity()}};
  EXPECT_EQ(findings(mix, context),
            "error [formula] expected a finite number for `fraction`, got inf");
}

TEST(Check, EverythingAtOnceInOrderAndOnce) {
  expect_findings(
      "let: unused = 1\n"
      "block[1..9]: x = x + f(nrom(x))/(l - 1)\n"
      "block: y, y = x\n"
      "       L = 2; x = x + f(norm(x, gian=1)) + z\n"
      "end: out = 2",
      {"error [formula:1:6]", "error [formula:2:1]", "error [formula:2:24]", "error [formula:2:34]",
       "error [formula:3:8]", "error [formula:3:11]", "error [formula:4:8]", "error [formula:4:33]",
       "error [formula:4:44]", "error [formula:5:12]"});
}

TEST(Check, NothingCrashesIt) {
  int fine = 0;
  for (uint64_t seed = 0; seed < 3000; ++seed) {
    const Stack kinds[] = {Stack::decoder, Stack::encoder, Stack::pair_encoder,
                           Stack::pair_decoder};
    const Context context = pair(kinds[seed % 4], 1 + static_cast<int>(seed % 5));
    check(RandomProgram(seed).program(), context);
    try {
      if (!has_errors(check(parse(damaged_program(seed)), context))) ++fine;
    } catch (const Error&) {  // does not parse
    }
  }
  EXPECT_GT(fine, 20);
  std::string sum = "x = f(x)";
  for (int i = 0; i < 900; ++i) sum += " + x";
  expect_fine(sum);
}

TEST(Check, SingleStacksHaveEqualLayerCounts) {
  Context context;
  context.layers = 6;
  EXPECT_EQ(layout(parse("x = x + N/M*f(x)"), context).scalars.at("N"), 6);
  context.stack = Stack::pair_decoder;
  context.encoder_layers = 3;
  EXPECT_EQ(layout(parse("x = x + N/M*f(x)"), context).scalars.at("N"), 3);
}

TEST(Check, ManyLayersAreCheap) {
  EXPECT_EQ(findings("x = x + f(norm(x)/sqrt(l)); out = norm(x)", stack(20000)), "");
}

}  // namespace
}  // namespace addnorm::formula
