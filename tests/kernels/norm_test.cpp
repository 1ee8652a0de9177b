// Every norm kind against its definition in double and against central differences.
#include <gtest/gtest.h>

#include "kernels/support.h"

namespace addnorm::kernels {
namespace {

// Inputs of a norm in double; the packed form is what is differentiated.
struct Case {
  NormKind kind = NormKind::layernorm;
  Index rows = 1;
  Index n = 1;
  double eps = 0;
  bool unit_offset = false;
  bool has_gain = true;
  bool has_bias = true;
  Wide gain, bias;
  double alpha = 0.5, shift = 0;
};

Wide slow_norm(const Case& c, const Wide& a) {
  Wide out(a.size());
  const auto n = static_cast<size_t>(c.n);
  const double offset = c.unit_offset ? 1 : 0;
  for (size_t row = 0; row < static_cast<size_t>(c.rows); ++row) {
    const double* x = a.data() + row * n;
    double mean = 0;
    double square = 0;
    for (size_t i = 0; i < n; ++i) {
      mean += x[i] / static_cast<double>(n);
      square += x[i] * x[i];
    }
    double variance = 0;
    for (size_t i = 0; i < n; ++i) {
      variance += (x[i] - mean) * (x[i] - mean) / static_cast<double>(n);
    }
    for (size_t i = 0; i < n; ++i) {
      double y = 0;
      double gain = c.has_gain && c.kind != NormKind::scalenorm ? c.gain[i] + offset : 1;
      switch (c.kind) {
        case NormKind::layernorm:
          y = (x[i] - mean) / std::sqrt(variance + c.eps);
          break;
        case NormKind::rmsnorm:
          y = x[i] / std::sqrt(square / static_cast<double>(n) + c.eps);
          break;
        case NormKind::scalenorm:
          gain = c.has_gain ? c.gain[0] + offset : std::sqrt(static_cast<double>(n));
          y = x[i] / std::max(std::sqrt(square), c.eps);
          break;
        case NormKind::l2norm:
          gain = 1;
          y = x[i] / std::max(std::sqrt(square), c.eps);
          break;
        case NormKind::dyt:
          y = std::tanh(c.alpha * x[i]);
          break;
        case NormKind::derf:
          y = std::erf(c.alpha * x[i] + c.shift);
          break;
      }
      const bool bias =
          c.kind == NormKind::layernorm || c.kind == NormKind::dyt || c.kind == NormKind::derf;
      out[row * n + i] = gain * y + (bias && c.has_bias ? c.bias[i] : 0);
    }
  }
  return out;
}

bool has_bias(NormKind kind) {
  return kind == NormKind::layernorm || kind == NormKind::dyt || kind == NormKind::derf;
}
bool has_alpha(NormKind kind) { return kind == NormKind::dyt || kind == NormKind::derf; }

// The float side of a case.
struct Floating {
  Case slow;
  Buffer a, gain, bias, dout;
  float alpha = 0.7F, shift = 0.2F;

  Floating(NormKind kind, Index rows, Index n, bool with_gain, bool with_bias, bool unit_offset,
           double scale, float eps)
      : a(random_buffer(rows * n, 1, scale, 0.3 * scale)),
        gain(random_buffer(n, 2, 0.3, 1)),
        bias(random_buffer(n, 3, 0.3)),
        dout(random_buffer(rows * n, 4)) {
    slow = {kind,
            rows,
            n,
            double{eps},
            unit_offset,
            with_gain,
            with_bias,
            widen(gain),
            widen(bias),
            double{alpha},
            kind == NormKind::derf ? double{shift} : 0.0};
  }

  NormSpec spec() const {
    NormSpec result;
    result.kind = slow.kind;
    result.n = slow.n;
    result.eps = static_cast<float>(slow.eps);
    result.unit_offset = slow.unit_offset;
    if (slow.has_gain) result.gain = gain.data();
    if (slow.has_bias && has_bias(slow.kind)) result.bias = bias.data();
    if (has_alpha(slow.kind)) result.alpha = &alpha;
    if (slow.kind == NormKind::derf) result.shift = &shift;
    return result;
  }
};

const std::vector<NormKind> kKinds = {NormKind::layernorm, NormKind::rmsnorm, NormKind::scalenorm,
                                      NormKind::l2norm,    NormKind::dyt,     NormKind::derf};

class Norms : public EverySet {};

void check(NormKind kind, Index rows, Index n, bool has_gain, bool with_bias, bool unit_offset,
           double scale, float eps) {
  SCOPED_TRACE(testing::Message() << "kind " << static_cast<int>(kind) << " rows " << rows << " n "
                                  << n << " gain " << has_gain << " offset " << unit_offset
                                  << " scale " << scale);
  Floating f(kind, rows, n, has_gain, with_bias, unit_offset, scale, eps);
  const NormSpec spec = f.spec();
  Buffer out = nan_buffer(rows * n);
  Buffer stats = nan_buffer(norm_stats(rows));
  norm(spec, rows, f.a.data(), out.data(), stats.data());
  const Wide want = slow_norm(f.slow, widen(f.a));
  expect_near(out, want, 3e-6, "out");

  const double step = 1e-5 * scale;
  const Wide da = differences([&](const Wide& a) { return inner(slow_norm(f.slow, a), f.dout); },
                              widen(f.a), step);
  check_gradient(rows * n, da, 3e-5, "da", [&](float* target, bool accumulate) {
    norm_backward(spec, rows, f.a.data(), stats.data(), f.dout.data(), target, accumulate, {});
  });

  // Parameters are always added to.
  Buffer dgain(static_cast<size_t>(n), 1.0F);
  Buffer dbias(static_cast<size_t>(n), 1.0F);
  Buffer dalpha(1, 1.0F);
  Buffer dshift(1, 1.0F);
  NormGradients gradients;
  if (has_gain && kind != NormKind::l2norm) gradients.gain = dgain.data();
  if (spec.bias != nullptr) gradients.bias = dbias.data();
  if (spec.alpha != nullptr) gradients.alpha = dalpha.data();
  if (spec.shift != nullptr) gradients.shift = dshift.data();
  Buffer in_place = f.dout;
  norm_backward(spec, rows, f.a.data(), stats.data(), in_place.data(), in_place.data(), false,
                gradients);
  expect_near(in_place, da, 3e-5, "da in the place of dout");
  const auto value = [&](const Case& c) { return inner(slow_norm(c, widen(f.a)), f.dout); };
  const auto compare = [&](const Buffer& got, const Wide& gradient, const char* what) {
    Wide sum = gradient;
    for (double& entry : sum) entry += 1;
    expect_near(Buffer(got.begin(), got.begin() + static_cast<Index>(sum.size())), sum, 3e-5, what);
  };
  if (gradients.gain != nullptr) {
    Wide parameters = f.slow.gain;
    if (kind == NormKind::scalenorm) parameters.resize(1);
    compare(dgain,
            differences(
                [&](const Wide& gain) {
                  Case c = f.slow;
                  c.gain = gain;
                  return value(c);
                },
                parameters),
            "dgain");
  }
  if (gradients.bias != nullptr) {
    compare(dbias,
            differences(
                [&](const Wide& bias) {
                  Case c = f.slow;
                  c.bias = bias;
                  return value(c);
                },
                f.slow.bias),
            "dbias");
  }
  if (gradients.alpha != nullptr) {
    compare(dalpha,
            differences(
                [&](const Wide& alpha) {
                  Case c = f.slow;
                  c.alpha = alpha[0];
                  return value(c);
                },
                {f.slow.alpha}),
            "dalpha");
  }
  if (gradients.shift != nullptr) {
    compare(dshift,
            differences(
                [&](const Wide& shift) {
                  Case c = f.slow;
                  c.shift = shift[0];
                  return value(c);
                },
                {f.slow.shift}),
            "dshift");
  }
}

TEST_P(Norms, ForwardAndBackward) {
  for (const NormKind kind : kKinds) {
    for (const Index n : {3, 7, 17, 65}) {
      for (const Index rows : {1, 5}) {
        check(kind, rows, n, true, true, false, 1, 1e-5F);
        if (HasFatalFailure()) return;
      }
    }
    check(kind, 3, 33, false, false, false, 1, 1e-5F);
    check(kind, 3, 33, kind != NormKind::l2norm, true, kind != NormKind::l2norm, 2, 1e-6F);
    check(kind, 70, 4, true, true, false, 1, 1e-5F);   // more rows than a block of the sums
    check(kind, 2, 300, true, true, false, 1, 1e-5F);  // the unrolled part
    if (HasFatalFailure()) return;
  }
}

TEST_P(Norms, LargeEpsilonAndBelowTheClamp) {
  for (const NormKind kind : kKinds) {
    check(kind, 3, 17, true, true, false, 1, 0.5F);
    check(kind, 3, 17, true, true, false, 1e-3, 0.5F);
    if (HasFatalFailure()) return;
  }
}

std::vector<std::pair<NormKind, float>> kinds_with(std::initializer_list<float> eps) {
  std::vector<std::pair<NormKind, float>> all;
  for (const NormKind kind : kKinds) {
    for (const float one : eps) all.emplace_back(kind, one);
  }
  return all;
}

TEST_P(Norms, OneChannelAndZeroRows) {
  const Buffer a = {0, 0, 0};
  for (const auto& [kind, eps] : kinds_with({1e-5F, 0.0F})) {
    const float alpha = 0.5F;
    NormSpec spec;
    spec.kind = kind;
    spec.n = 3;
    spec.eps = eps;
    if (kind == NormKind::dyt || kind == NormKind::derf) spec.alpha = &alpha;
    Buffer out = nan_buffer(3);
    Buffer stats = nan_buffer(2);
    norm(spec, 1, a.data(), out.data(), stats.data());
    EXPECT_EQ(out, (Buffer{0, 0, 0}));
    Buffer da = nan_buffer(3);
    const Buffer dout = {1, 2, 3};
    norm_backward(spec, 1, a.data(), stats.data(), dout.data(), da.data(), false, {});
    for (const float x : da) EXPECT_TRUE(std::isfinite(x));
    norm(spec, 0, a.data(), nullptr, nullptr);
  }
  NormSpec spec;
  spec.n = 1;
  spec.eps = 1e-5F;
  const Buffer one = {3};
  Buffer out = nan_buffer(1);
  Buffer stats = nan_buffer(2);
  norm(spec, 1, one.data(), out.data(), stats.data());
  EXPECT_EQ(out[0], 0.0F);
}

TEST_P(Norms, NanStaysInItsRow) {
  for (const NormKind kind : kKinds) {
    Floating f(kind, 3, 17, true, true, false, 1, 1e-5F);
    const NormSpec spec = f.spec();
    f.a[20] = kNan;
    Buffer out(51);
    Buffer stats(6);
    norm(spec, 3, f.a.data(), out.data(), stats.data());
    EXPECT_TRUE(std::isnan(out[20]));
    for (size_t i = 0; i < 17; ++i)
      EXPECT_TRUE(std::isfinite(out[i]) && std::isfinite(out[34 + i]));
  }
}

TEST_P(Norms, AddNormIsSumThenNorm) {
  for (const NormKind kind : kKinds) {
    const Index rows = 5;
    const Index n = 37;
    const Index size = rows * n;
    Floating f(kind, rows, n, true, true, false, 1, 1e-5F);
    const NormSpec spec = f.spec();
    const Buffer b = random_buffer(size, 11);
    const float ca = 1.7F;
    const float cb = -0.4F;
    Buffer sum = nan_buffer(size);
    Buffer out = nan_buffer(size);
    Buffer stats = nan_buffer(2 * rows);
    add_norm(spec, rows, ca, f.a.data(), cb, b.data(), sum.data(), out.data(), stats.data());
    Wide want_sum(sum.size());
    for (size_t i = 0; i < sum.size(); ++i) want_sum[i] = double{ca} * f.a[i] + double{cb} * b[i];
    expect_near(sum, want_sum, 1e-6, "sum");
    expect_near(out, slow_norm(f.slow, want_sum), 5e-6, "out");
    Buffer in_place = f.a;
    Buffer again = nan_buffer(size);
    add_norm(spec, rows, ca, in_place.data(), cb, b.data(), in_place.data(), again.data(),
             stats.data());
    EXPECT_EQ(in_place, sum);
    EXPECT_EQ(again, out);

    const Buffer dsum_in = random_buffer(size, 12);
    Wide ds =
        differences([&](const Wide& s) { return inner(slow_norm(f.slow, s), f.dout); }, want_sum);
    for (const bool other_uses : {false, true}) {
      Wide total = ds;
      for (size_t i = 0; i < total.size(); ++i) total[i] += other_uses ? dsum_in[i] : 0;
      Wide want_a = total;
      Wide want_b = total;
      for (double& x : want_a) x *= ca;
      for (double& x : want_b) x *= cb;
      const float* extra = other_uses ? dsum_in.data() : nullptr;
      Buffer dsum = nan_buffer(size);
      Buffer dgain(static_cast<size_t>(n), 0.0F);
      check_gradient(size, want_a, 3e-5, "da", [&](float* da, bool accumulate) {
        add_norm_backward(spec, rows, sum.data(), stats.data(), f.dout.data(), extra,
                          {ca, da, accumulate, cb, nullptr, false, nullptr}, {});
      });
      check_gradient(size, want_b, 3e-5, "db", [&](float* db, bool accumulate) {
        Buffer da = nan_buffer(size);
        add_norm_backward(spec, rows, sum.data(), stats.data(), f.dout.data(), extra,
                          {ca, da.data(), false, cb, db, accumulate, dsum.data()}, {});
        expect_near(da, want_a, 3e-5, "da beside db");
      });
      expect_near(dsum, total, 3e-5, "dsum");
    }
    // The gradient of the stream arrives in the buffer that receives da.
    Buffer stream = dsum_in;
    add_norm_backward(spec, rows, sum.data(), stats.data(), f.dout.data(), stream.data(),
                      {1, stream.data(), false, 1, nullptr, false, nullptr}, {});
    for (size_t i = 0; i < ds.size(); ++i) ds[i] += dsum_in[i];
    expect_near(stream, ds, 3e-5, "in place");
  }
}

// catalogue.md, Norm kinds: values for (1, 2, 4, -3) at eps 0, and near zero at eps 1e-5.
TEST_P(Norms, PrintedValues) {
  const Buffer a = {1, 2, 4, -3};
  const float alpha = 0.5F;
  const auto first = [&](NormKind kind, const Buffer& x, float eps) {
    NormSpec spec;
    spec.kind = kind;
    spec.n = 4;
    spec.eps = eps;
    spec.alpha = &alpha;
    Buffer out = nan_buffer(4);
    Buffer stats = nan_buffer(2);
    norm(spec, 1, x.data(), out.data(), stats.data());
    return out;
  };
  EXPECT_NEAR(first(NormKind::layernorm, a, 0)[3], -1.568929, 1e-6);
  EXPECT_NEAR(first(NormKind::rmsnorm, a, 0)[0], 0.365148, 1e-6);
  EXPECT_NEAR(first(NormKind::l2norm, a, 0)[2], 1.460593 / 2, 1e-6);
  EXPECT_NEAR(first(NormKind::dyt, a, 0)[0], 0.462117, 1e-6);
  EXPECT_NEAR(first(NormKind::derf, a, 0)[0], 0.520500, 1e-6);
  const Buffer small = {0.001F, -0.001F, 0.001F, -0.001F};
  EXPECT_NEAR(first(NormKind::rmsnorm, small, 1e-5F)[0], 0.301511, 1e-6);
  EXPECT_NEAR(first(NormKind::layernorm, small, 1e-5F)[0], 0.301511, 1e-6);
  EXPECT_NEAR(first(NormKind::scalenorm, small, 1e-5F)[0], 1, 1e-6);
}

ADDNORM_EVERY_SET(Norms);

}  // namespace
}  // namespace addnorm::kernels
