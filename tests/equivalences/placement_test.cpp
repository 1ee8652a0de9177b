// Wirings that become another one when a factor is 1, a gate is 0 or a norm is left out: equivalences
// 1 to 4 and 6 of catalogue.md. The starting point is the catalogue's own text wherever it can be.
#include "equivalences/compare.h"

namespace addnorm::equivalences {
namespace {

const char* const pre = "x = x + f(norm(x)); out = norm(x)";
const char* const post = "x = norm(x + f(x))";

// Norm s of a program that norms before branch s and once at the end, as norm s - 1 of one that norms
// after each branch and once before the first.
Renamed one_place_earlier(int layers) {
  std::map<std::string, std::string> table;
  std::string before = "begin.norm.1";
  for (int layer = 0; layer < layers; ++layer) {
    for (int number = 1; number <= 2; ++number) {
      table[norm_name(layer, number)] = before;
      before = norm_name(layer, number);
    }
  }
  table["end.norm.1"] = before;
  return by_part(table);
}

void expect_moved(const std::string& shifted, const std::string& block) {
  const auto a = model(shifted), b = model("begin: x = norm(embed)\nblock: " + block);
  const Renamed moved = one_place_earlier(3);
  const Weights weights = draw(a);
  expect_same(compute(a, weights), compute(b, carried(weights, {}, moved)), moved);
}

TEST(Equivalence01, ShiftedPostLnIsPostLnBehindAnEmbeddingNorm) {
  expect_moved("shifted-post-ln", catalogue_formula("post-ln"));
}
TEST(Equivalence01, MinimaxIsDeepNormBehindAnEmbeddingNorm) {
  expect_moved("minimax-01", catalogue_formula("deepnorm"));
}

// `a` and `b` share every parameter name of `a`; b's others stay at their start values.
void expect_same_weights(const std::string& a, const std::string& b, double t = infinity) {
  const auto shape_a = model(a), shape_b = model(b);
  const Weights weights = draw(shape_a);
  expect_same(compute(shape_a, weights, t), compute(shape_b, carried(weights, draw(shape_b)), t));
}

TEST(Equivalence02, KeelWithFactorOneAndWithoutInnerNormIsPostLn) {
  std::string keel = catalogue_formula("keel");
  keel = replaced(replaced(keel, "S*x", "1*x"), "f(norm(x))", "f(x)");
  const std::string first = keel.substr(0, keel.find('\n'));
  // The first layer is keel's own in both.
  const std::string reference = first + "\nblock: " + post;
  expect_same_weights(keel, reference);
}
TEST(Equivalence02, AdminWithFactorOneIsPostLn) {
  const std::string admin = catalogue_formula("admin-torch");
  const std::string factor = "sqrt((S + 1)/log(S + 1) - 1)";
  expect_same_weights(post, replaced(admin, factor, "1"));
  expect_same_weights(post, replaced(admin, factor, "param(1, per=channel)"));
}
TEST(Equivalence02, DeepNormWithAlphaOneIsPostLn) {
  expect_same_weights(post, replaced(catalogue_formula("deepnorm"), "(2*L)^(1/4)", "(1)^(1/4)"));
}
TEST(Equivalence02, B2tWithoutItsSkipIsPostLn) {
  expect_same_weights(post, replaced(catalogue_formula("b2t"), " + x)", ")"));
}
TEST(Equivalence02, ResiDualWithFinalGainZeroIsPostLn) {
  const auto a = model(post), b = model("resi-dual");
  const Weights weights = draw(a);
  Weights dual = carried(weights, draw(b));
  dual["end.norm.1.weight"].assign(16, 0);
  dual["end.norm.1.bias"].assign(16, 0);
  expect_same(compute(a, weights), compute(b, dual));
}

TEST(Equivalence03, LnScalingWithFactorOneIsPreLn) {
  expect_same_weights(pre, replaced(catalogue_formula("ln-scaling"), "/sqrt(l)", "/sqrt(1)"));
}
TEST(Equivalence03, LayerScaleWithGainOneIsPreLn) {
  const auto a = model(pre), b = model("layer-scale");
  const Weights weights = draw(a);
  Weights scaled = carried(weights, draw(b));
  for (int layer = 0; layer < 3; ++layer) {
    for (const char* number : {"1", "2"}) {
      scaled["blocks." + std::to_string(layer) + ".param." + number].assign(16, 1);
    }
  }
  expect_same(compute(a, weights), compute(b, scaled));
}
TEST(Equivalence03, ResScaleAtItsStartIsPreLn) { expect_same_weights(pre, "res-scale"); }
TEST(Equivalence03, GpasWithGateZeroIsPreLn) { expect_same_weights(pre, "gpas"); }
TEST(Equivalence03, ProResAfterItsRampIsPreLn) {
  expect_same_weights(pre, "prores", 3000);  // T*L
  expect_same_weights(pre, "prores", infinity);
}
TEST(Equivalence03, ProResBeforeTheEndOfItsRampIsNot) {
  const auto a = model(pre), b = model("prores");
  const Weights weights = draw(a);
  EXPECT_GT(distance(compute(a, weights).logits, compute(b, weights, 2900).logits), 1e-4);
}
TEST(Equivalence03, CompletePAtItsBaseDepthIsPreLn) {
  expect_same_weights(pre, "completep(base=3)");
}
TEST(Equivalence03, PeriLnWithoutOuterNormIsPreLn) {
  expect_same_weights(pre,
                      replaced(catalogue_formula("peri-ln"), "norm(f(norm(x)))", "f(norm(x))"));
}
TEST(Equivalence03, SubLnWithoutInnerNormsIsPreLn) {
  expect_same_weights(pre, replaced(catalogue_formula("sub-ln"), ", inner=norm", ""));
}
TEST(Equivalence03, DropRateZeroIsPreLn) {
  const auto a = model(pre);
  auto b = model("x = x + drop(f(norm(x))); out = drop(norm(x))");
  const Weights weights = draw(a);
  const Outcome plain = compute(a, weights);
  const Outcome none = compute(b, weights, infinity, true);
  EXPECT_EQ(plain.logits, none.logits);
  EXPECT_EQ(plain.gradients, none.gradients);
  b.dropout = 0.5;
  const Outcome evaluated = compute(b, weights, infinity, false);
  EXPECT_EQ(plain.logits, evaluated.logits);
  EXPECT_EQ(plain.gradients, evaluated.gradients);
  EXPECT_NE(plain.logits, compute(b, weights, infinity, true).logits);
}

// The stack leaves the embedding untouched, value and gradient, before its final norm.
void expect_identity(const std::string& wiring, const std::string& last, double t = infinity,
                     const std::function<void(Weights&)>& change = {}) {
  const auto a = model(wiring);
  Weights weights = draw(a);
  if (change) change(weights);
  const Outcome outcome = compute(a, weights, t);
  EXPECT_EQ(outcome.points.at(last), outcome.points.at("embed")) << wiring;
  const bool normed = weights.contains("end.norm.1.weight");
  const auto b = model(std::string("x = x + 0*f(x)") + (normed ? "; out = norm(x)" : ""));
  const Outcome identity = compute(b, weights, t);
  expect_same_function(identity, outcome);
  const Values& gradient = identity.point_gradients.at("out");
  EXPECT_GT(largest(gradient), 1e-4);
  EXPECT_LE(distance(gradient, outcome.point_gradients.at("out")), tolerance * largest(gradient));
  const Values& below = identity.point_gradients.at("embed");
  EXPECT_GT(largest(below), 1e-4);
  EXPECT_LE(distance(below, outcome.point_gradients.at(last)), tolerance * largest(below));
}

void zero_outer_gains(Weights& weights) {
  for (int layer = 0; layer < 3; ++layer) {
    // An outer norm comes before the one inside it, so both instances have an odd one; a program
    // with one norm per branch has 1 and 2.
    const bool two = weights.contains(norm_name(layer, 3) + ".weight");
    for (const int number : {1, two ? 3 : 2}) {
      weights[norm_name(layer, number) + ".weight"].assign(16, 0);
      weights[norm_name(layer, number) + ".bias"].assign(16, 0);
    }
  }
}

TEST(Equivalence04, PeriLnWithGainZeroIsTheIdentity) {
  expect_identity("peri-ln", "blocks.2.ffn.x", infinity, zero_outer_gains);
}
TEST(Equivalence04, ResPostNormWithGainZeroIsTheIdentity) {
  expect_identity("res-post-norm", "blocks.2.ffn.x", infinity, zero_outer_gains);
}
TEST(Equivalence04, LayerScaleWithGainZeroIsTheIdentity) {
  expect_identity("layer-scale", "blocks.2.ffn.x", infinity, [](Weights& weights) {
    for (auto& [name, values] : weights) {
      if (name.find(".param.") != std::string::npos) values.assign(values.size(), 0);
    }
  });
}
TEST(Equivalence04, ReZeroAtItsStartIsTheIdentity) { expect_identity("rezero", "blocks.2.ffn.x"); }
TEST(Equivalence04, ProResAtTheStartOfItsRampIsTheIdentity) {
  expect_identity("prores", "blocks.2.ffn.x", 0);
}

TEST(Equivalence06, ParallelIsParallelTwoNormsWithEqualParameters) {
  const auto one = model("parallel"), two = model("parallel-two-norms");
  const Weights weights = draw(one);
  Weights doubled = weights;
  for (int layer = 0; layer < 3; ++layer) {
    for (const char* last : {".weight", ".bias"}) {
      doubled[norm_name(layer, 2) + last] = weights.at(norm_name(layer, 1) + last);
    }
  }
  const Outcome a = compute(one, weights);
  Outcome b = compute(two, doubled);
  // The one parameter set collects what the two receive.
  for (int layer = 0; layer < 3; ++layer) {
    for (const char* last : {".weight", ".bias"}) {
      Values& sum = b.gradients.at(norm_name(layer, 1) + last);
      const Values& other = b.gradients.at(norm_name(layer, 2) + last);
      for (size_t i = 0; i < sum.size(); ++i) sum[i] += other[i];
    }
  }
  expect_same(a, b);
}

TEST(Equivalence06, SiameseNormWithoutItsSecondStreamIsShiftedPostLn) {
  const auto siamese = model("siamese-norm");
  const auto shifted = model("n = norm(x); x = n + f(norm(n))/sqrt(2*l); out = norm(norm(x))");
  // Per branch: norm(x), norm(x + norm(y)), norm(y); at the end the outer one, norm(x), norm(y).
  std::map<std::string, std::string> table = {{"end.norm.3", ""}};
  for (int layer = 0; layer < 3; ++layer) {
    table[norm_name(layer, 3)] = table[norm_name(layer, 6)] = "";
    table[norm_name(layer, 4)] = norm_name(layer, 3);
    table[norm_name(layer, 5)] = norm_name(layer, 4);
  }
  const Renamed moved = by_part(table);
  Weights weights = draw(siamese);
  for (auto& [name, values] : weights) {
    const auto found = table.find(split_last(name).first);
    if (found != table.end() && found->second.empty()) values.assign(values.size(), 0);
  }
  expect_same(compute(siamese, weights), compute(shifted, carried(weights, {}, moved)), moved);
}

}  // namespace
}  // namespace addnorm::equivalences
