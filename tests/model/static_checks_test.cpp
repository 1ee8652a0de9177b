// The static checks of the catalogue: each finds what it is for, at its level and place, and the plain
// wirings give nothing.
#include "addnorm/model/static_checks.h"

#include <gtest/gtest.h>

#include <set>

#include "support.h"

namespace addnorm::test {
namespace {

std::string model_of(const std::string& wiring, int layers = 4, const std::string& rest = "") {
  return "[model]\nkind = \"decoder\"\nlayers = " + std::to_string(layers) +
         "\nwidth = 16\nheads = 4\nvocab = 20\ncontext = 16\nwiring = \"" + wiring + "\"\n" + rest;
}

Findings checks(const std::string& wiring, int layers = 4, const std::string& rest = "") {
  const auto spec = parsed(model_of(wiring, layers, rest));
  const auto shape = shape_of(spec);
  return model::static_checks(spec, shape, graph::lower(shape));
}

// The findings that mention `part`, as text.
std::string about(const Findings& findings, const std::string& part) {
  Findings found;
  for (const Finding& finding : findings) {
    if (contains(finding.message, part)) found.push_back(finding);
  }
  return lines_of(found);
}

const char* const bare = "needs an initialization rule";

TEST(StaticChecks, PlainWiringsGiveNothing) {
  for (const char* wiring : {"pre-ln", "post-ln", "peri-ln", "deepnorm", "parallel"}) {
    for (const int layers : {1, 6, 48}) {
      const Findings found = checks(wiring, layers);
      EXPECT_TRUE(found.empty()) << wiring << " at " << layers << "\n" << lines_of(found);
    }
  }
}

// Check 1, over the whole catalogue: exactly these.
TEST(StaticChecks, BarePathFromEmbedToOut) {
  const std::set<std::string> expected = {"rezero",  "skip-init", "fixup",
                                          "t-fixup", "gtrxl",     "dyt/7b"};
  std::set<std::string> found;
  int entries = 0;
  for (const auto& entry : formula::Catalogue::builtin().entries()) {
    if (entry.name.ends_with("/encoder") || entry.name.ends_with("/decoder")) continue;
    ++entries;
    const Findings findings = checks(entry.name, 4);
    if (!about(findings, bare).empty()) found.insert(entry.name);
    EXPECT_EQ(about(findings, "no final norm"), "") << entry.name;
    EXPECT_EQ(about(findings, "no residual"), "") << entry.name;
    EXPECT_EQ(about(findings, "depth is scaled twice"), "") << entry.name;
    EXPECT_EQ(about(findings, "DeepNorm"), "") << entry.name;
    EXPECT_FALSE(has_errors(findings)) << lines_of(findings);
  }
  EXPECT_GT(entries, 50);
  for (const std::string& name : expected) EXPECT_TRUE(found.contains(name)) << name;
  for (const std::string& name : found) EXPECT_TRUE(expected.contains(name)) << name;
  EXPECT_TRUE(contains(lines_of(checks("rezero")), "factor 1"));
}

TEST(StaticChecks, NoFinalNorm) {  // 2, case W2
  Findings found = checks("x = x + f(norm(x))");
  ASSERT_EQ(found.size(), 1U) << lines_of(found);
  EXPECT_EQ(found[0].level, Level::warning);
  EXPECT_TRUE(contains(found[0].message, "the implied statement `out = x`")) << found[0].message;
  found = checks("x = x + f(norm(x)); out = x");
  EXPECT_TRUE(contains(lines_of(found), "warning [model.wiring:1:21] no final norm"))
      << lines_of(found);
  EXPECT_EQ(about(checks("x = x + f(norm(x)); out = norm(x)"), "no final norm"), "");
  EXPECT_EQ(about(checks("x = 0.5*x + f(norm(x))"), "no final norm"), "");
  EXPECT_TRUE(contains(about(checks("x = 0.5*x + f(norm(x))", 2), bare), "factor 0.0625"));
}

TEST(StaticChecks, FactorsUnderANormAreCancelled) {  // 3, case W6
  std::string text = lines_of(checks("x = x + f(norm(x)); out = norm(10*x)"));
  EXPECT_TRUE(contains(text, "warning [model.wiring:1:27] the factor 10 is cancelled")) << text;
  EXPECT_TRUE(contains(text, "`out = norm(10*x)`")) << text;
  EXPECT_EQ(about(checks("x = x + f(norm(x)); out = 10*norm(x)"), "cancelled"), "");
  EXPECT_NE(about(checks("y = 3*x; x = x + f(norm(y)); out = norm(x)"), "cancelled"), "");
  EXPECT_NE(about(checks("x = x + f(norm(param(2)*x)); out = norm(x)"), "a param is cancelled"),
            "");
  EXPECT_NE(about(checks("x = x + norm(0.5*f(norm(x))); out = norm(x)"), "cancelled"), "");
  EXPECT_EQ(about(checks("x = x + f(norm(param(2, per=channel)*x)); out = norm(x)"), "cancelled"),
            "");
  EXPECT_EQ(about(checks("x = x + f(dyt(2*x)); out = norm(x)"), "cancelled"), "");
  EXPECT_EQ(about(checks("x = x + f(norm(-x)); out = norm(x)"), "cancelled"), "");
  text = about(checks("reversible"), "cancelled");
  EXPECT_TRUE(contains(text, "information") && contains(text, "only averages")) << text;
  EXPECT_TRUE(contains(about(checks("x = x + f(norm(x)); out = norm((x + embed)/3)"), "cancelled"),
                       "warning"));
}

TEST(StaticChecks, NormOverZero) {  // 4
  const std::string zero = "[init]\nattn_out = \"zeros\"\nffn_out = \"zeros\"\n";
  const std::string text = about(checks("peri-ln", 2, zero), "starts at 0");
  EXPECT_TRUE(contains(text, "warning")) << text;
  EXPECT_TRUE(contains(text, "blocks.0.norm.1")) << text;
  EXPECT_TRUE(contains(text, "316")) << text;  // 1/sqrt(1e-5)
  EXPECT_EQ(about(checks("pre-ln", 2, zero), "starts at 0 in"), "");
  EXPECT_EQ(about(checks("peri-ln", 2), "starts at 0 in"), "");
  EXPECT_EQ(
      about(checks("x = x + norm(f(norm(x)), gain=0); out = norm(x)", 2, zero), "starts at 0 in"),
      "");
  EXPECT_NE(about(checks("x = x + norm(param(0, per=channel)*f(norm(x))); out = norm(x)"),
                  "starts at 0 in"),
            "");
  EXPECT_EQ(about(checks("x = x + dyt(f(norm(x))); out = norm(x)", 2, zero), "starts at 0 in"), "");
}

TEST(StaticChecks, FactorsOfZeroAreNotVanishing) {  // 5
  for (const char* wiring : {"swin-v2", "rezero", "skip-init"}) {
    const std::string text = about(checks(wiring), "zero gradient in the first step");
    EXPECT_TRUE(contains(text, "information")) << wiring;
    EXPECT_FALSE(contains(text, "vanish"));
  }
  EXPECT_EQ(about(checks("gpas"), "zero gradient"), "");
  EXPECT_EQ(about(checks("res-scale"), "zero gradient"), "");
}

TEST(StaticChecks, TheStreamLeavesHalfPrecision) {  // 6
  std::string text = about(checks("x = (2*L)^(1/4)*x + f(norm(x)); out = norm(x)", 12), "fp16");
  EXPECT_TRUE(contains(text, "deepnorm mis-spelt?")) << text;
  EXPECT_TRUE(contains(text, "branch 14 (blocks.6.ffn)")) << text;  // 2.2133638^14 > 65504
  text = about(checks("x = 3*x + f(norm(x)); out = norm(x)", 12), "fp16");
  EXPECT_TRUE(contains(text, "branch 11")) << text;  // 3^11 = 177147
  EXPECT_FALSE(contains(text, "mis-spelt")) << text;
  EXPECT_EQ(about(checks("x = 3*x + f(norm(x)); out = norm(x)", 5), "fp16"), "");
  EXPECT_EQ(about(checks("deepnorm", 48), "fp16"), "");
  EXPECT_EQ(about(checks("minimax-01", 48), "fp16"), "");
}

TEST(StaticChecks, WhatIsNoLongerRead) {  // 7, case W2
  Findings found = checks("x = norm(x + f(x)); out = norm(x)");
  ASSERT_EQ(found.size(), 1U) << lines_of(found);
  EXPECT_EQ(found[0].level, Level::information);
  EXPECT_TRUE(contains(found[0].message, "redundant norm in `out = norm(x)`")) << found[0].message;
  std::string text = lines_of(checks("y = 2*x; x = x + f(norm(x)); out = norm(x)"));
  EXPECT_TRUE(
      contains(text, "information [model.wiring:1:5] none of the names that `y = 2*x` sets"))
      << text;
  text = lines_of(
      checks("begin: x = embed; y = embed\\nblock[1..2]: y = y + norm(x); x = x + f(norm(x + y))\\n"
             "block: y = y + x; x = x + f(norm(x))\\nend: out = norm(x)"));
  EXPECT_TRUE(contains(text, "none of the names that `y = y + x` sets")) << text;
  text = lines_of(
      checks("begin: x = embed; r = embed\\nblock: y = f(norm(x + r)); x = x + y; r = r + y\\n"
             "end: out = norm(x)"));
  EXPECT_TRUE(contains(text, "`r = r + y` sets is no longer read")) << text;
}

TEST(StaticChecks, NoResidual) {  // 8
  std::string text = lines_of(checks("x = f(norm(x)); out = norm(x)", 3));
  EXPECT_TRUE(contains(text, "warning [model.wiring:1:")) << text;
  EXPECT_TRUE(contains(text, "no residual in layers 1 to 3")) << text;
  text = lines_of(
      checks("block[2..2]: x = f(norm(x))\\nblock: x = norm(x + f(x))\\nend: out = norm(x)", 3));
  EXPECT_TRUE(contains(text, "no residual in layer 2:")) << text;
  // Only the second branch lacks it: a path from x to the new x is still missing.
  text = lines_of(checks("a = norm(x + attn(x)); x = norm(ffn(a))", 2));
  EXPECT_TRUE(contains(text, "no residual in layers 1 to 2")) << text;
}

TEST(StaticChecks, DepthScaledTwice) {  // 9
  const std::string init =
      "[init]\nattn_out = \"normal(0.02/sqrt(2*L))\"\nffn_out = \"normal(0.02/sqrt(S))\"\n";
  for (const char* wiring :
       {"x = x + f(norm(x))/sqrt(L); out = norm(x)", "x = x + 0.5*f(norm(x)); out = norm(x)",
        "w = 2/l; x = x + w*f(norm(x)); out = norm(x)",
        "y = f(norm(x)); x = x + y/L; out = norm(x)"}) {
    const std::string text = about(checks(wiring, 4, init), "depth is scaled twice");
    EXPECT_TRUE(contains(text, "warning")) << wiring;
    EXPECT_TRUE(contains(text, "ffn_out = normal(0.02/sqrt(S))") || contains(text, "attn_out"))
        << text;
    EXPECT_EQ(about(checks(wiring, 4), "depth is scaled twice"), "") << wiring;
  }
  for (const char* wiring :
       {"x = x + f(norm(x)); out = norm(x)", "x = x/L + f(norm(x)); out = norm(x)",
        "x = x + f(norm(x)/sqrt(l)); out = norm(x)", "x = x + 2*f(norm(x)); out = norm(x)",
        "x = x + norm(f(norm(x))/L); out = norm(x)"}) {
    EXPECT_EQ(about(checks(wiring, 4, init), "depth is scaled twice"), "") << wiring;
  }
}

TEST(StaticChecks, DeepNormsFactorWithoutItsRules) {  // 9
  const std::string mine = "x = norm((2*L)^(1/4)*x + f(x))";
  const std::string text = about(checks(mine, 6), "DeepNorm");
  EXPECT_TRUE(contains(text, "warning [model.wiring:1:1]")) << text;
  EXPECT_TRUE(contains(text, "v attn_out ffn_in ffn_out are not xavier_normal((8*L)^(-1/4))"))
      << text;
  const std::string rule = "\"xavier_normal((8*L)^(-1/4))\"\n";
  EXPECT_EQ(about(checks(mine, 6,
                         "[init]\nv = " + rule + "attn_out = " + rule + "ffn_in = " + rule +
                             "ffn_out = " + rule),
                  "DeepNorm"),
            "");
  EXPECT_TRUE(contains(
      about(
          checks(mine, 6, "[init]\nattn_out = " + rule + "ffn_in = " + rule + "ffn_out = " + rule),
          "DeepNorm"),
      "rules of v are"));
  EXPECT_EQ(about(checks("x = norm(1.5*x + f(x))", 6), "DeepNorm"), "");
  EXPECT_NE(about(checks("x = norm(x*1.8612097182 + f(x))", 6), "DeepNorm"), "");
}

TEST(StaticChecks, AttentionOnAnUnnormedStream) {  // 10
  const std::string text = about(checks("res-post-norm"), "attention saturates");
  EXPECT_TRUE(contains(text, "warning")) << text;
  EXPECT_TRUE(contains(text, "`x = x + norm(f(x))`")) << text;
  EXPECT_EQ(about(checks("olmo2"), "attention saturates"), "");
  EXPECT_EQ(about(checks("post-ln"), "attention saturates"), "");
  EXPECT_EQ(about(checks("ln-scaling"), "attention saturates"), "");
  EXPECT_EQ(about(checks("x = x + norm(attn(x, qk=rmsnorm)); x = x + norm(ffn(x)); out = norm(x)",
                         2, "positions = \"rope\"\n"),
                  "attention saturates"),
            "");
  EXPECT_NE(about(checks("rezero"), "attention saturates"), "");
}

TEST(StaticChecks, BuildHandsOnWhatWasFound) {
  const auto spec = parsed(model_of("x = x + f(norm(x))"));
  Findings findings;
  EXPECT_EQ(model::build(spec, shape_of(spec), &findings).stacks.size(), 1U);
  EXPECT_EQ(findings.size(), 1U);
  EXPECT_NO_THROW(model::build(spec, shape_of(spec)));
}

TEST(StaticChecks, RulesWithoutAParameter) {
  const std::string text =
      lines_of(checks("pre-ln", 2, "[init]\nhead = \"zeros\"\ncross_q = \"zeros\"\n"));
  EXPECT_TRUE(contains(text, "information [init.head] no effect")) << text;
  EXPECT_TRUE(contains(text, "a tied head follows embed")) << text;
  EXPECT_TRUE(contains(text, "information [init.cross_q] no effect")) << text;
}

TEST(StaticChecks, PairsAreJudgedByStack) {
  const std::string pair =
      "[model]\nkind = \"encoder-decoder\"\nencoder_layers = 2\ndecoder_layers = 2\nwidth = 16\n"
      "heads = 4\nvocab = 20\ncontext = 16\n";
  const auto run = [&](const std::string& lines) {
    const auto spec = parsed(pair + lines);
    const auto shape = shape_of(spec);
    return lines_of(model::static_checks(spec, shape, graph::lower(shape)));
  };
  for (const char* wiring : {"pre-ln", "post-ln", "peri-ln", "deepnorm"}) {
    EXPECT_EQ(run("wiring = \"" + std::string(wiring) + "\"\n"), "") << wiring;
  }
  std::string text = run("wiring = \"pre-ln\"\nencoder_wiring = \"x = x + f(norm(x))\"\n");
  EXPECT_TRUE(contains(text, "[model.encoder_wiring] no final norm")) << text;
  EXPECT_FALSE(contains(text, "decoder_wiring")) << text;
  text = run("wiring = \"pre-ln\"\ndecoder_wiring = \"x = norm((3*M)^(1/4)*x + f(x))\"\n");
  EXPECT_TRUE(contains(text, "[model.decoder_wiring:1:1] the factor (3*M)^(1/4) on x")) << text;
}

}  // namespace
}  // namespace addnorm::test
