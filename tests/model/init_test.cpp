// Rules by role, draws that are functions of (seed, name, index), and the numbers of case W5.
#include "addnorm/model/init.h"

#include <gtest/gtest.h>

#include <cmath>
#include <map>

#include "addnorm/model/init_report.h"
#include "addnorm/model/init_rule.h"
#include "support.h"

namespace addnorm::test {
namespace {

using Kind = model::InitRule::Kind;

std::string sized(int layers, const std::string& wiring, const std::string& init = "") {
  return "[model]\nkind = \"decoder\"\nlayers = " + std::to_string(layers) +
         "\nwidth = 64\nheads = 4\nffn = 256\nvocab = 128\ncontext = 64\nwiring = \"" + wiring +
         "\"\n" + (init.empty() ? "" : "[init]\n" + init);
}

std::map<std::string, model::InitRule> rules(const model::Specification& spec) {
  const auto shape = shape_of(spec);
  const auto graph = graph::lower(shape);
  const auto all = model::init_rules(spec, shape, graph);
  std::map<std::string, model::InitRule> by_name;
  for (size_t i = 0; i < all.size(); ++i) by_name[graph.parameters[i].name] = all[i];
  return by_name;
}

model::InitRule rule(const std::string& text) {
  return rules(parsed(sized(2, "pre-ln", "q = \"" + text + "\"\n"))).at("blocks.1.attn.q.weight");
}

TEST(InitRule, Grammar) {
  EXPECT_EQ(rule("normal(0.5)").kind, Kind::normal);
  EXPECT_EQ(rule("normal(1/2)").value, 0.5);
  EXPECT_EQ(rule("trunc_normal(0.5)").kind, Kind::trunc_normal);
  EXPECT_EQ(rule("uniform(0.5)").kind, Kind::uniform);
  EXPECT_EQ(rule("zeros").kind, Kind::constant);
  EXPECT_EQ(rule("constant(-2)").value, -2);
  EXPECT_DOUBLE_EQ(rule("xavier_normal(2)").value, 2 * std::sqrt(2.0 / 128));
  EXPECT_DOUBLE_EQ(rule("xavier_uniform(2)").value, 2 * std::sqrt(6.0 / 128));
  EXPECT_DOUBLE_EQ(rule("normal(l*L*S/(d*head_dim*ffn*N*M))").value,
                   2.0 * 2 * 4 / (64.0 * 16 * 256 * 2 * 2));
  EXPECT_DOUBLE_EQ(rule("normal(sqrt(1/fan_in) + fan_out)").value, 64.125);
  for (const char* wrong :
       {"norml(1)", "normal", "normal()", "normal(1, 2)", "normal(t)", "normal(-1)", "normal(1/0)",
        "normal(width)", "0.02", "normal(1) + 1", "zeros(1)", "(("}) {
    const std::string text = problems(sized(2, "pre-ln", "q = \"" + std::string(wrong) + "\"\n"));
    EXPECT_TRUE(contains(text, "spec.toml:11: init.q]")) << wrong << ": " << text;
  }
  EXPECT_TRUE(model::same_rule("normal(0.02/sqrt(2*L))", "normal( 0.02 / sqrt(2*L) )"));
  EXPECT_FALSE(model::same_rule("normal(0.02)", "trunc_normal(0.02)"));
}

TEST(InitRule, LayersHaveNoMeaningOutsideBlocks) {
  const auto spec = parsed(sized(2, "pre-ln", "default = \"normal(0.02/l)\"\n"));
  const std::string text = failure_of([&] { rules(spec); }).second;
  EXPECT_TRUE(contains(text, "embed.tokens.weight")) << text;
  EXPECT_TRUE(contains(text, "inside blocks only")) << text;
  const auto whole = rules(parsed(
      sized(2, "pre-ln",
            "default = \"normal(0.02/l)\"\nembed = \"normal(1)\"\npositions = \"zeros\"\n")));
  EXPECT_EQ(whole.at("blocks.1.ffn.in.weight").value, 0.01);
}

TEST(InitRule, RolesAndNotNames) {
  auto all = rules(parsed(sized(2, "x = x + param(0.7)*f(norm(x, gain=0.3)); out = norm(x)")));
  EXPECT_EQ(all.at("blocks.0.param.1").value, 0.7);
  EXPECT_EQ(all.at("blocks.0.norm.1.weight").value, 0.3);
  EXPECT_EQ(all.at("blocks.0.norm.1.weight").kind, Kind::constant);
  EXPECT_EQ(all.at("blocks.0.norm.1.bias").value, 0);
  EXPECT_EQ(all.at("blocks.0.attn.q.bias").kind, Kind::constant);
  EXPECT_EQ(all.at("embed.positions.weight").value, 0.02);

  // `default` covers matrices and embeddings; norm and param only where they are set.
  all = rules(parsed(sized(2, "x = x + param(0.7)*f(norm(x, gain=0.3)); out = norm(x)",
                           "default = \"normal(1)\"\n")));
  EXPECT_EQ(all.at("blocks.0.param.1").value, 0.7);
  EXPECT_EQ(all.at("blocks.0.attn.q.weight").value, 1);
  EXPECT_EQ(all.at("blocks.0.attn.q.bias").value, 0);
  all = rules(parsed(sized(2, "x = x + param(0.7)*f(norm(x, gain=0.3)); out = norm(x)",
                           "norm = \"constant(2)\"\nparam = \"constant(3)\"\n")));
  EXPECT_EQ(all.at("blocks.0.param.1").value, 3);
  EXPECT_EQ(all.at("blocks.0.norm.1.weight").value, 2);
  EXPECT_EQ(all.at("blocks.0.norm.1.bias").value, 0);
}

TEST(InitRule, GainsAsTheyAreStored) {
  auto all = rules(parsed(sized(1, "x = x + f(scalenorm(x)); out = rmsnorm(x, unit_offset=true)",
                                "norm = \"constant(2)\"\n")));
  EXPECT_DOUBLE_EQ(all.at("blocks.0.norm.1.weight").value, 16);  // 2*sqrt(64)
  const auto offset = all.at("end.norm.1.weight");
  EXPECT_EQ(model::draw(offset, 1, "end.norm.1.weight", 5), 1);  // gain - 1
  all = rules(parsed(sized(1, "x = x + f(scalenorm(x)); out = rmsnorm(x, unit_offset=true)")));
  EXPECT_DOUBLE_EQ(all.at("blocks.0.norm.1.weight").value, 8);
  EXPECT_EQ(model::draw(all.at("end.norm.1.weight"), 1, "n", 0), 0);
}

struct DeepNormRow {
  int layers;
  double alpha, beta;
};

// Case W5.
TEST(InitW5, DeepNormsConstantsAndTheWeightsTheyScale) {
  for (const DeepNormRow& row : {DeepNormRow{6, 1.8612097, 0.3799178},
                                 {12, 2.2133638, 0.3194716},
                                 {24, 2.6321480, 0.2686425},
                                 {100, 3.7606031, 0.1880302}}) {
    const auto spec = parsed(sized(row.layers, "deepnorm"));
    const auto shape = shape_of(spec);
    const auto graph = graph::lower(shape);
    const auto all = rules(spec);
    const double beta = row.beta;
    for (const char* role : {"attn.q", "attn.k"}) {
      EXPECT_NEAR(all.at("blocks.0." + std::string(role) + ".weight").target_std(), 0.125, 1e-12);
    }
    for (const char* role : {"attn.v", "attn.o"}) {
      EXPECT_NEAR(all.at("blocks.0." + std::string(role) + ".weight").target_std() / (0.125 * beta),
                  1, 1e-6);
    }
    for (const char* role : {"ffn.in", "ffn.out"}) {
      EXPECT_NEAR(all.at("blocks.0." + std::string(role) + ".weight").target_std() /
                      (std::sqrt(2.0 / 320) * beta),
                  1, 1e-6);
    }
    bool found = false;
    for (const auto& node : graph.nodes) {
      const auto* sum = std::get_if<nodes::Sum>(&node.op);
      found = found || (sum != nullptr && !sum->weights.empty() &&
                        std::abs(sum->weights[0].value / row.alpha - 1) < 1e-7);
    }
    EXPECT_TRUE(found) << row.layers;
  }
  const auto all = rules(parsed(sized(12, "deepnorm")));
  EXPECT_NEAR(all.at("blocks.3.attn.v.weight").target_std(), 0.0399339, 1e-7);
  EXPECT_NEAR(all.at("blocks.3.ffn.out.weight").target_std(), 0.0252564, 1e-7);
  EXPECT_EQ(all.at("blocks.3.attn.v.weight").text, "xavier_normal((8*L)^(-1/4))");
  EXPECT_EQ(all.at("blocks.3.attn.v.weight").formula, "0.319472 * sqrt(2/(64 + 64))");
}

TEST(InitW5, MeasuredWithinFiveStandardErrors) {
  const auto spec = parsed(sized(12, "deepnorm"));
  const auto shape = shape_of(spec);
  const auto report = model::init_report(spec, shape, graph::lower(shape), 1);
  EXPECT_TRUE(report.passed());
  int matrices = 0;
  for (const auto& row : report.rows) {
    if (row.target == 0) continue;
    ++matrices;
    EXPECT_EQ(row.count, row.size) << row.name;
    // std/sqrt(2n), all rules of this model are normal.
    const double error = row.target / std::sqrt(2.0 * static_cast<double>(row.size));
    EXPECT_LT(std::abs(row.measured - row.target), 5 * error) << row.name;
    EXPECT_NEAR(row.z, (row.measured - row.target) / error, 1e-9);
  }
  EXPECT_EQ(matrices, 12 * 6 + 2);
  EXPECT_TRUE(report.notes.empty());
}

TEST(InitW5, AGainOnlyScalesTheDraw) {
  const auto one = rule("xavier_normal(1)"), other = rule("xavier_normal(0.3194716)");
  for (uint64_t i = 0; i < 1000; ++i) {
    const double a = 0.3194716 * model::draw(one, 3, "w", i), b = model::draw(other, 3, "w", i);
    EXPECT_NEAR(a, b, 4e-16 * std::abs(a));
  }
}

double mean(const model::InitRule& r, int power, int n = 200000) {
  double sum = 0;
  for (int i = 0; i < n; ++i)
    sum += std::pow(model::draw(r, 7, "tensor", static_cast<uint64_t>(i)), power);
  return sum / n;
}

TEST(InitDraws, MomentsOfEachDistribution) {
  for (const char* text : {"normal(0.5)", "trunc_normal(0.5)", "uniform(0.5)"}) {
    const auto r = rule(text);
    const double variance = mean(r, 2), fourth = mean(r, 4);
    EXPECT_NEAR(mean(r, 1), 0, 0.006) << text;
    EXPECT_NEAR(std::sqrt(variance) / r.target_std(), 1, 0.008) << text;
    EXPECT_NEAR(fourth / (variance * variance) / r.kurtosis(), 1, 0.03) << text;
  }
  EXPECT_NEAR(rule("trunc_normal(1)").target_std(), 0.8796256610, 1e-9);
  EXPECT_DOUBLE_EQ(rule("uniform(3)").target_std(), std::sqrt(3.0));
  const auto truncated = rule("trunc_normal(0.5)");
  for (uint64_t i = 0; i < 20000; ++i) EXPECT_LE(std::abs(model::draw(truncated, 7, "t", i)), 1);
}

TEST(InitDraws, AreFunctionsOfSeedNameAndIndex) {
  const auto r = rule("trunc_normal(1)");
  std::vector<float> whole(1000), part(10);
  model::fill(r, 5, "a", std::span<float>(whole));
  model::fill(r, 5, "a", std::span<float>(part), 500);
  for (size_t i = 0; i < part.size(); ++i) EXPECT_EQ(part[i], whole[500 + i]);
  EXPECT_EQ(whole[3], static_cast<float>(model::draw(r, 5, "a", 3)));
  std::vector<double> precise(1000), other(1000);
  model::fill(r, 5, "a", std::span<double>(precise));
  EXPECT_EQ(static_cast<float>(precise[17]), whole[17]);
  for (const auto& [seed, name] : {std::pair{6, "a"}, {5, "b"}}) {
    model::fill(r, static_cast<uint64_t>(seed), name, std::span<double>(other));
    double dot = 0;
    for (size_t i = 0; i < other.size(); ++i) dot += other[i] * precise[i];
    EXPECT_LT(std::abs(dot), 150);  // independent: about sqrt(1000)
  }
}

TEST(InitReport, FindsAWrongSpread) {
  const auto spec = parsed(sized(1, "pre-ln"));
  const auto shape = shape_of(spec);
  auto report = model::init_report(spec, shape, graph::lower(shape), 1);
  EXPECT_TRUE(report.passed());
  report.rows[0].z = 5.1;
  EXPECT_FALSE(report.passed());
  report.rows[0].z = -5.1;
  EXPECT_FALSE(report.passed());
}

TEST(InitReport, UniformAndTruncatedHaveTheirOwnStandardError) {
  for (const char* text : {"xavier_uniform(1)", "trunc_normal(0.1)", "normal(0.1)"}) {
    const auto spec = parsed(sized(6, "pre-ln", "default = \"" + std::string(text) + "\"\n"));
    const auto shape = shape_of(spec);
    double squares = 0;
    int n = 0;
    for (uint64_t seed = 1; seed <= 20; ++seed) {
      for (const auto& row :
           model::init_report(spec, shape, graph::lower(shape), seed, 2000).rows) {
        if (row.target == 0) continue;
        squares += row.z * row.z;
        ++n;
      }
    }
    // z has variance 1: 760 values, standard error of the mean square 0.05.
    EXPECT_NEAR(squares / n, 1, 0.25) << text;
  }
}

// Case D7, without the program.
TEST(InitReport, StdTooLargeForTheWidth) {
  const auto spec = parsed(
      "[model]\nkind = \"decoder\"\nlayers = 2\nwidth = 14336\nheads = 112\nffn = 57344\nvocab = "
      "256\n"
      "context = 64\nwiring = \"pre-ln\"\n[init]\ndefault = \"normal(0.02)\"\n");
  const auto shape = shape_of(spec);
  const auto report = model::init_report(spec, shape, graph::lower(shape), 1, 20000);
  ASSERT_EQ(report.notes.size(), 1U);
  const std::string& text = report.notes[0].message;
  EXPECT_TRUE(contains(text, "4.148 times 1/sqrt(3*d) = 0.004822")) << text;
  EXPECT_TRUE(contains(text, "3.786 times sqrt(2/(5*d)) = 0.0052822")) << text;
  EXPECT_TRUE(contains(text, "q k v attn_out ffn_in ffn_out")) << text;
  EXPECT_TRUE(report.passed());
  for (const auto& row : report.rows) {
    EXPECT_LE(row.count, 20000) << row.name;
  }
}

TEST(Init, ReplacedPublishedRulesAreSaid) {
  const auto spec = parsed(sized(6, "deepnorm", "default = \"xavier_normal(1)\"\n"));
  const std::string text = warnings(spec);
  EXPECT_TRUE(contains(text,
                       "warning [spec.toml:11: init.default] replaces the initialization "
                       "published with deepnorm: attn_out = xavier_normal((8*L)^(-1/4))"))
      << text;
  EXPECT_FALSE(contains(text, "q = ")) << text;  // published as xavier_normal(1) too
  EXPECT_EQ(rules(spec).at("blocks.0.attn.v.weight").text, "xavier_normal(1)");

  const auto one = parsed(sized(6, "deepnorm", "v = \"normal(1)\"\nembed = \"normal(1)\"\n"));
  EXPECT_EQ(one.findings.size(), 1U) << warnings(one);
  EXPECT_TRUE(contains(warnings(one), "init.v]"));
  EXPECT_EQ(rules(one).at("blocks.0.attn.v.weight").value, 1);
  EXPECT_EQ(rules(one).at("blocks.0.attn.o.weight").text, "xavier_normal((8*L)^(-1/4))");

  EXPECT_TRUE(
      parsed(sized(6, "deepnorm", "v = \"xavier_normal( (8*L)^(-1/4) )\"\n")).findings.empty());
  EXPECT_TRUE(parsed(sized(6, "pre-ln", "default = \"normal(1)\"\n")).findings.empty());
}

}  // namespace
}  // namespace addnorm::test
