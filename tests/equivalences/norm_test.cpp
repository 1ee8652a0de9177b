// What norms cancel, absorb and project out: equivalences 7 to 10 of catalogue.md.
#include "equivalences/compare.h"

namespace addnorm::equivalences {
namespace {

const char* const pre = "x = x + f(norm(x)); out = norm(x)";

void scale(Values& values, double factor) {
  for (double& value : values) value *= factor;
}

bool writes_to_stream(const std::string& name) {
  return name.find(".attn.o.") != std::string::npos || name.find(".ffn.out.") != std::string::npos;
}
bool is_embedding(const std::string& name) { return name.starts_with("embed."); }

// Subtracts the mean over the channels of the stream: the output axis of a weight [d, n] or bias [d],
// the last axis of a table [vocab, d].
void centre(const std::string& name, Values& values) {
  constexpr size_t d = 16;
  const bool table = is_embedding(name);
  const size_t others = values.size() / d;
  for (size_t i = 0; i < others; ++i) {
    const auto at = [&](size_t channel) -> double& {
      return values[table ? i * d + channel : channel * others + i];
    };
    double mean = 0;
    for (size_t channel = 0; channel < d; ++channel) mean += at(channel) / d;
    for (size_t channel = 0; channel < d; ++channel) at(channel) -= mean;
  }
}

TEST(Equivalence07, LayerNormIsRmsNormOfTheCentredArgument) {
  const std::string layer = "x = x + f(layernorm(x, bias=false)); out = layernorm(x, bias=false)";
  const std::string centred = "rmsnorm(x - dot(x, param(1/d, per=channel)))";
  auto a = model(layer), b = model("x = x + f(" + centred + "); out = " + centred);
  for (const double eps : {0.0, 1e-3}) {
    a.norm_eps = b.norm_eps = eps;
    const Weights weights = draw(a);
    expect_same(compute(a, weights), compute(b, carried(weights, draw(b))));
  }
}

TEST(Equivalence07, PreLnWithLayerNormIsPreLnWithRmsNormOnCentredWeights) {
  auto layer = model(pre), rms = model(pre);
  layer.norm_bias = false;
  rms.norm = nodes::NormKind::rmsnorm;
  for (const double eps : {0.0, 1e-3}) {
    layer.norm_eps = rms.norm_eps = eps;
    Weights weights = draw(layer);
    for (auto& [name, values] : weights) {
      if (writes_to_stream(name) || is_embedding(name)) centre(name, values);
    }
    const Outcome a = compute(layer, weights);
    Outcome b = compute(rms, weights);
    // LayerNorm's gradient has no part along the mean; RMSNorm's may leave the centred weights.
    double left = 0;
    for (auto& [name, gradient] : b.gradients) {
      if (!writes_to_stream(name) && !is_embedding(name)) continue;
      const Values before = gradient;
      centre(name, gradient);
      left = std::max(left, distance(before, gradient));
    }
    EXPECT_GT(left, 1e-4);
    expect_same(a, b);
  }
}
TEST(Equivalence07, WithoutCentredWeightsTheyDiffer) {
  auto layer = model(pre), rms = model(pre);
  layer.norm_bias = false;
  rms.norm = nodes::NormKind::rmsnorm;
  const Weights weights = draw(layer);
  EXPECT_GT(distance(compute(layer, weights).logits, compute(rms, weights).logits), 1e-2);
}

struct Fold {
  std::string norm, linear;
};
std::vector<Fold> folds() {
  std::vector<Fold> all;
  for (int layer = 0; layer < 3; ++layer) {
    const std::string block = "blocks." + std::to_string(layer) + ".";
    for (const char* matrix : {"attn.q", "attn.k", "attn.v"}) {
      all.push_back({norm_name(layer, 1), block + matrix});
    }
    all.push_back({norm_name(layer, 2), block + "ffn.in"});
  }
  all.push_back({"end.norm.1", "head"});
  return all;
}

// Gains and biases of norms written into the matrices that read them.
Weights folded(Weights weights, const std::vector<Fold>& list) {
  for (const Fold& fold : list) {
    const Values& gain = weights.at(fold.norm + ".weight");
    const Values& shift = weights.at(fold.norm + ".bias");
    Values& matrix = weights.at(fold.linear + ".weight");
    Values& bias = weights.at(fold.linear + ".bias");
    const size_t in = gain.size();
    for (size_t i = 0; i < bias.size(); ++i) {
      for (size_t j = 0; j < in; ++j) {
        bias[i] += matrix[i * in + j] * shift[j];
        matrix[i * in + j] *= gain[j];
      }
    }
  }
  for (const Fold& fold : list) {
    weights[fold.norm + ".weight"].assign(16, 1);
    weights[fold.norm + ".bias"].assign(16, 0);
  }
  return weights;
}

TEST(Equivalence08, ANormGainFoldsIntoTheLinearMapBehindIt) {
  auto shape = model(pre);
  shape.head_bias = true;
  const Weights weights = draw(shape);
  const Outcome a = compute(shape, weights);
  const Outcome b = compute(shape, folded(weights, folds()));
  // Chain rule from the folded weights back: W' = W diag(g), c' = c + W b.
  Outcome back = b;
  for (const Fold& fold : folds()) {
    back.gradients[fold.norm + ".weight"].assign(16, 0);
    back.gradients[fold.norm + ".bias"].assign(16, 0);
  }
  for (const Fold& fold : folds()) {
    const Values& gain = weights.at(fold.norm + ".weight");
    const Values& shift = weights.at(fold.norm + ".bias");
    const Values& matrix = weights.at(fold.linear + ".weight");
    const Values& dmatrix = b.gradients.at(fold.linear + ".weight");
    const Values& dbias = b.gradients.at(fold.linear + ".bias");
    for (size_t i = 0; i < dbias.size(); ++i) {
      for (size_t j = 0; j < 16; ++j) {
        const size_t at = i * 16 + j;
        back.gradients[fold.linear + ".weight"][at] = dmatrix[at] * gain[j] + dbias[i] * shift[j];
        back.gradients[fold.norm + ".weight"][j] += dmatrix[at] * matrix[at];
        back.gradients[fold.norm + ".bias"][j] += dbias[i] * matrix[at];
      }
    }
  }
  expect_same(a, back);
}

TEST(Equivalence08, InPostLnTheGainDoesNotFoldOutOfTheSkip) {
  auto shape = model("post-ln");
  const Weights weights = draw(shape);
  // The norm after the attention of layer 0 feeds its ffn and the skip.
  const std::vector<Fold> one = {{norm_name(0, 1), "blocks.0.ffn.in"}};
  EXPECT_GT(distance(compute(shape, weights).logits, compute(shape, folded(weights, one)).logits),
            1e-2);
}

TEST(Equivalence09, OnlyTheRatioOfTheFactorsUnderANormCounts) {
  const auto a = model("x = norm(2*x + 3*f(x))"), b = model("x = norm(14*x + 21*f(x))"),
             c = model("x = norm(2/3*x + f(x))"), d = model("x = norm(3*x + 2*f(x))");
  const Weights weights = draw(a);
  const Outcome outcome = compute(a, weights);
  expect_same(outcome, compute(b, weights));
  expect_same(outcome, compute(c, weights));
  EXPECT_GT(distance(outcome.logits, compute(d, weights).logits), 1e-2);
}

TEST(Equivalence09, AFactorMovedIntoTheOutputWeightsDividesTheirGradient) {
  constexpr double factor = 3;
  const auto outside = model("x = norm(2*x + 3*f(x))"), inside = model("x = norm(2*x + f(x))");
  const Weights weights = draw(outside);
  Weights moved = weights;
  for (auto& [name, values] : moved) {
    if (writes_to_stream(name)) scale(values, factor);
  }
  const Outcome a = compute(outside, weights);
  Outcome b = compute(inside, moved);
  for (auto& [name, gradient] : b.gradients) {
    if (writes_to_stream(name)) scale(gradient, factor);
  }
  expect_same(a, b);
}

TEST(Equivalence10, APreNormStackIsBlindToTheScaleOfItsStream) {
  constexpr double factor = 5;
  for (const char* wiring : {pre, "x = x + attn(norm(x), qk=rmsnorm) + ffn(norm(x)); out = norm(x)",
                             "x = x + f(scalenorm(x)); out = l2norm(x)"}) {
    const auto shape = model(wiring);
    const Weights weights = draw(shape);
    Weights scaled = weights;
    const auto moves = [](const std::string& name) {
      return writes_to_stream(name) || is_embedding(name);
    };
    for (auto& [name, values] : scaled) {
      if (moves(name)) scale(values, factor);
    }
    const Outcome a = compute(shape, weights);
    Outcome b = compute(shape, scaled);
    EXPECT_LE(distance(a.points.at("out"), b.points.at("out")),
              tolerance * largest(a.points.at("out")));
    for (auto& [name, gradient] : b.gradients) {
      if (moves(name)) scale(gradient, factor);
    }
    expect_same(a, b);
  }
}

TEST(Equivalence10, TheGradientBelowANormIsOrthogonalToItsArgument) {
  for (const char* kind : {"layernorm", "rmsnorm", "scalenorm", "l2norm"}) {
    const auto shape = model(std::string("x = x + f(x); out = ") + kind + "(x)");
    const Outcome outcome = compute(shape, draw(shape));
    const Values& x = outcome.points.at("blocks.2.ffn.x");
    const Values& gradient = outcome.point_gradients.at("blocks.2.ffn.x");
    const double scale = largest(x) * largest(gradient);
    EXPECT_GT(largest(gradient), 1e-5) << kind;
    for (size_t row = 0; row < x.size() / 16; ++row) {
      double mean = 0, sum = 0, product = 0, along_x = 0;
      for (size_t j = 0; j < 16; ++j) mean += x[row * 16 + j] / 16;
      for (size_t j = 0; j < 16; ++j) {
        const double g = gradient[row * 16 + j], value = x[row * 16 + j];
        sum += g;
        product += g * (value - (std::string(kind) == "layernorm" ? mean : 0));
        along_x += g * value;
      }
      EXPECT_LE(std::abs(product), 1e-12 * scale) << kind << ", row " << row;
      if (std::string(kind) == "layernorm") {
        EXPECT_LE(std::abs(sum), 1e-12 * largest(gradient)) << "row " << row;
        EXPECT_LE(std::abs(along_x), 1e-12 * scale) << "row " << row;
      }
    }
  }
}

}  // namespace
}  // namespace addnorm::equivalences
