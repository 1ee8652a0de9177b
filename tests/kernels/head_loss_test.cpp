// Loss and gradients of the output head against a double definition and central differences.
#include <gtest/gtest.h>

#include "kernels/support.h"

namespace addnorm::kernels {
namespace {

struct Case {
  Index rows = 5, width = 4, vocab = 7;
  bool has_bias = false;
  float logit_scale = 1, softcap = 0, label_smoothing = 0, z_loss = 0;
};

struct Inputs {
  Case c;
  Buffer x, w, bias;
  std::vector<int32_t> targets;

  explicit Inputs(const Case& which)
      : c(which),
        x(random_buffer(c.rows * c.width, 1)),
        w(random_buffer(c.vocab * c.width, 2)),
        bias(random_buffer(c.vocab, 3)) {
    for (Index row = 0; row < c.rows; ++row) {
      targets.push_back(row % 4 == 2 ? kIgnoredTarget
                                     : static_cast<int32_t>((row * 5 + 1) % c.vocab));
    }
  }
  Index counted() const {
    Index count = 0;
    for (const int32_t target : targets) count += target == kIgnoredTarget ? 0 : 1;
    return count;
  }
  HeadSpec spec() const {
    HeadSpec s;
    s.width = c.width;
    s.vocab = c.vocab;
    s.w = w.data();
    if (c.has_bias) s.bias = bias.data();
    s.logit_scale = c.logit_scale;
    s.softcap = c.softcap;
    s.label_smoothing = c.label_smoothing;
    s.z_loss = c.z_loss;
    s.row_weight = 1 / static_cast<float>(std::max<Index>(1, counted()));
    return s;
  }
};

Wide slow_logits(const Case& c, const Wide& x, const Wide& w, const Wide& bias) {
  Wide z;
  for (Index row = 0; row < c.rows; ++row) {
    for (Index v = 0; v < c.vocab; ++v) {
      double u = c.has_bias ? bias[static_cast<size_t>(v)] : 0;
      for (Index i = 0; i < c.width; ++i) {
        u += x[static_cast<size_t>(row * c.width + i)] * w[static_cast<size_t>(v * c.width + i)];
      }
      u *= c.logit_scale;
      z.push_back(c.softcap > 0 ? c.softcap * std::tanh(u / c.softcap) : u);
    }
  }
  return z;
}

double slow_loss(const Inputs& in, const Wide& z) {
  const Case& c = in.c;
  const auto vocab = static_cast<size_t>(c.vocab);
  double loss = 0;
  for (size_t row = 0; row < static_cast<size_t>(c.rows); ++row) {
    if (in.targets[row] == kIgnoredTarget) continue;
    double total = 0;
    double mean = 0;
    for (size_t v = 0; v < vocab; ++v) {
      total += std::exp(z[row * vocab + v]);
      mean += z[row * vocab + v] / static_cast<double>(c.vocab);
    }
    const double lse = std::log(total);
    loss +=
        (1 - c.label_smoothing) * (lse - z[row * vocab + static_cast<size_t>(in.targets[row])]) +
        c.label_smoothing * (lse - mean) + c.z_loss * lse * lse;
  }
  return loss;
}

class Head : public EverySet {};

void check(const Case& c) {
  SCOPED_TRACE(testing::Message() << c.rows << " " << c.width << " " << c.vocab);
  const Inputs in(c);
  const HeadSpec spec = in.spec();
  const Wide x = widen(in.x);
  const Wide w = widen(in.w);
  const Wide bias = widen(in.bias);
  const Wide z = slow_logits(c, x, w, bias);
  const double weight = spec.row_weight;
  const auto weighted = [&](const Wide& logits) { return weight * slow_loss(in, logits); };

  Buffer work = nan_buffer(std::min(c.rows, head_chunk_rows(c.vocab)) * c.vocab);
  Buffer logits = nan_buffer(c.rows * c.vocab);
  Buffer dlogits = nan_buffer(c.rows * c.vocab);
  Buffer dx = nan_buffer(c.rows * c.width);
  Buffer dw(in.w.size(), 1.0F);
  Buffer dbias(in.bias.size(), 1.0F);
  const HeadLoss result =
      head_loss(spec, c.rows, in.x.data(), in.targets.data(), work.data(), logits.data(),
                dlogits.data(), dx.data(), false, dw.data(), dbias.data());
  EXPECT_EQ(result.targets, in.counted());
  EXPECT_NEAR(result.loss, slow_loss(in, z), 2e-6 * std::max(1.0, slow_loss(in, z)));
  expect_near(logits, z, 2e-6, "logits");
  expect_near(dlogits, differences(weighted, z), 1e-5, "dlogits");
  const Wide want_x =
      differences([&](const Wide& value) { return weighted(slow_logits(c, value, w, bias)); }, x);
  expect_near(dx, want_x, 2e-5, "dx");
  Wide want_w =
      differences([&](const Wide& value) { return weighted(slow_logits(c, x, value, bias)); }, w);
  for (double& value : want_w) value += 1;
  expect_near(dw, want_w, 1e-5, "dw");
  Case with_bias = c;
  with_bias.has_bias = true;
  const Wide start = c.has_bias ? bias : Wide(bias.size(), 0.0);
  Wide want_bias = differences(
      [&](const Wide& value) { return weighted(slow_logits(with_bias, x, w, value)); }, start);
  for (double& value : want_bias) value += 1;
  expect_near(dbias, want_bias, 1e-5, "dbias");

  // Without copies: the same bits. Accumulating: twice.
  Buffer again = dx;
  Buffer dw_again(in.w.size(), 1.0F);
  const HeadLoss plain = head_loss(spec, c.rows, in.x.data(), in.targets.data(), work.data(),
                                   nullptr, nullptr, again.data(), true, dw_again.data(), nullptr);
  EXPECT_EQ(plain.loss, result.loss);
  EXPECT_EQ(dw_again, dw);
  Wide twice = want_x;
  for (double& value : twice) value *= 2;
  expect_near(again, twice, 2e-5, "dx accumulated");
}

TEST_P(Head, LossAndGradients) {
  check({});
  for (const Index size : {1, 3, 17, 65}) {
    Case c;
    c.vocab = size;
    c.rows = 6;
    check(c);
    c.width = size;
    c.vocab = 9;
    check(c);
  }
  Case c;
  c.has_bias = true;
  check(c);
  c.logit_scale = 0.3F;
  check(c);
  c.softcap = 2;
  check(c);
  c.label_smoothing = 0.1F;
  check(c);
  c.z_loss = 0.05F;
  check(c);
  c.has_bias = false;
  c.softcap = 0;
  check(c);
}

// A logit of 100 is known to 4e-6 only; what the softmax makes of it is not to be less exact for that.
TEST_P(Head, LargeLogitsKeepTheirProbabilities) {
  const Buffer x = {1}, w = {100, 88};
  const std::vector<int32_t> targets = {0};
  HeadSpec spec;
  spec.width = 1;
  spec.vocab = 2;
  spec.w = w.data();
  Buffer work(2), dlogits(2), dx(1), dw(2);
  head_loss(spec, 1, x.data(), targets.data(), work.data(), nullptr, dlogits.data(), dx.data(),
            false, dw.data(), nullptr);
  const double p = std::exp(-12.0) / (1 + std::exp(-12.0));
  EXPECT_NEAR(dlogits[1] / p, 1, 1e-6);
  EXPECT_NEAR(dlogits[0] + dlogits[1], 0, 6e-8);
}

TEST_P(Head, NothingButIgnoredTargets) {
  Case c;
  const Inputs in(c);
  const std::vector<int32_t> none(static_cast<size_t>(c.rows), kIgnoredTarget);
  Buffer work = nan_buffer(c.rows * c.vocab);
  Buffer dx = nan_buffer(c.rows * c.width);
  Buffer dw(in.w.size(), 0.0F);
  const HeadLoss result = head_loss(in.spec(), c.rows, in.x.data(), none.data(), work.data(),
                                    nullptr, nullptr, dx.data(), false, dw.data(), nullptr);
  EXPECT_EQ(result.loss, 0);
  EXPECT_EQ(result.targets, 0);
  EXPECT_EQ(dx, Buffer(dx.size(), 0.0F));
  EXPECT_EQ(dw, Buffer(dw.size(), 0.0F));
}

// Several chunks of rows give what one definition gives; slices of the vocabulary what the whole gives.
TEST_P(Head, ChunksAndSlicesOfTheVocabulary) {
  Case c;
  c.rows = head_chunk_rows(19) * 2 + 5;
  c.vocab = 19;
  const Inputs in(c);
  const HeadSpec spec = in.spec();
  const Wide z = slow_logits(c, widen(in.x), widen(in.w), widen(in.bias));
  Buffer work = nan_buffer(head_chunk_rows(c.vocab) * c.vocab);
  Buffer dw(in.w.size(), 0.0F);
  Buffer dx = nan_buffer(c.rows * c.width);
  Buffer dlogits = nan_buffer(c.rows * c.vocab);
  const HeadLoss result = head_loss(spec, c.rows, in.x.data(), in.targets.data(), work.data(),
                                    nullptr, dlogits.data(), dx.data(), false, dw.data(), nullptr);
  EXPECT_NEAR(result.loss, slow_loss(in, z), 2e-6 * result.loss);
  Wide want_w(in.w.size(), 0.0);
  for (Index row = 0; row < c.rows; ++row) {
    for (Index v = 0; v < c.vocab; ++v) {
      for (Index i = 0; i < c.width; ++i) {
        want_w[static_cast<size_t>(v * c.width + i)] +=
            double{dlogits[static_cast<size_t>(row * c.vocab + v)]} *
            in.x[static_cast<size_t>(row * c.width + i)];
      }
    }
  }
  expect_near(dw, want_w, 1e-5, "dw");

  const Index some = 6;
  Buffer whole(in.w.size(), 0.5F);
  Buffer whole_bias(in.bias.size(), 0.5F);
  head_chunk(spec, some, in.x.data(), in.targets.data(), true, work.data(), nullptr, nullptr,
             nullptr, false);
  head_weight_gradients(spec, some, in.x.data(), work.data(), 0, c.vocab, whole.data(),
                        whole_bias.data());
  Buffer sliced(in.w.size(), 0.5F);
  Buffer sliced_bias(in.bias.size(), 0.5F);
  for (const auto& [begin, end] : {std::pair<Index, Index>{0, 7}, {7, 8}, {8, 19}, {19, 19}}) {
    head_weight_gradients(spec, some, in.x.data(), work.data(), begin, end, sliced.data(),
                          sliced_bias.data());
  }
  expect_near(sliced, widen(whole), 1e-6, "slices");
  EXPECT_EQ(sliced_bias, whole_bias);
}

TEST_P(Head, LogitsAlone) {
  const Inputs in(Case{});
  Buffer work = nan_buffer(35);
  head_chunk(in.spec(), 5, in.x.data(), nullptr, false, work.data(), nullptr, nullptr, nullptr,
             false);
  expect_near(work, slow_logits(in.c, widen(in.x), widen(in.w), widen(in.bias)), 2e-6, "logits");
}

ADDNORM_EVERY_SET(Head);

}  // namespace
}  // namespace addnorm::kernels
