// Elementwise functions: values to a few units in the last place, derivatives, kinks, NaN; bias +
// activation and gates; dropout.
#include <gtest/gtest.h>

#include "kernels/support.h"

namespace addnorm::kernels {
namespace {

struct Named {
  const char* name;
  Function f;
  std::function<double(double)> value;
  double low, high;     // where it is sampled
  double absolute = 0;  // error allowed beside 4 units in the last place
};

double sigmoid(double x) { return 1 / (1 + std::exp(-x)); }

std::vector<Named> functions() {
  const double root = std::sqrt(2 / std::acos(-1.0));
  return {
      {"identity", {Unary::identity}, [](double x) { return x; }, -9, 9},
      {"sigmoid", {Unary::sigmoid}, sigmoid, -80, 80},
      {"silu", {Unary::silu}, [](double x) { return x * sigmoid(x); }, -80, 80},
      {"tanh", {Unary::tanh}, [](double x) { return std::tanh(x); }, -12, 12},
      {"erf", {Unary::erf}, [](double x) { return std::erf(x); }, -6, 6},
      {"relu", {Unary::relu}, [](double x) { return std::max(x, 0.0); }, -3, 3},
      {"gelu",
       {Unary::gelu},
       [](double x) { return x * 0.5 * std::erfc(-x / std::sqrt(2.0)); },
       -9,
       9,
       6e-8},
      {"gelu_tanh",
       {Unary::gelu_tanh},
       [root](double x) { return 0.5 * x * (1 + std::tanh(root * (x + 0.044715 * x * x * x))); },
       -9,
       9,
       3e-7},
      {"relu2", {Unary::relu2}, [](double x) { return x > 0 ? x * x : 0; }, -3, 3},
      {"abs", {Unary::abs}, [](double x) { return std::abs(x); }, -3, 3},
      {"sqrt", {Unary::sqrt}, [](double x) { return std::sqrt(x); }, 1e-3, 9},
      {"log", {Unary::log}, [](double x) { return std::log(x); }, 1e-3, 9, 1e-7},
      {"exp", {Unary::exp}, [](double x) { return std::exp(x); }, -87, 88.7},
      {"clip",
       {Unary::clip, -0.5F, 1.5F},
       [](double x) { return std::clamp(x, -0.5, 1.5); },
       -3,
       3},
      {"cube", {Unary::power, 3}, [](double x) { return x * x * x; }, -3, 3},
      {"root", {Unary::power, 0.3F}, [](double x) { return std::pow(x, double{0.3F}); }, 0.01, 3},
  };
}

class Elementwise : public EverySet {};

TEST_P(Elementwise, ValuesToAFewUnitsInTheLastPlace) {
  for (const Named& named : functions()) {
    const Index count = 20011;
    Buffer a;
    for (Index i = 0; i < count; ++i) {
      a.push_back(static_cast<float>(named.low + (named.high - named.low) * static_cast<double>(i) /
                                                     static_cast<double>(count - 1)));
    }
    Buffer out = nan_buffer(count);
    unary(named.f, count, a.data(), out.data());
    for (size_t i = 0; i < a.size(); ++i) {
      const double want = named.value(a[i]);
      ASSERT_NEAR(out[i], want, 4 * 6e-8 * std::abs(want) + named.absolute + 1.2e-38)
          << named.name << " at " << a[i];
    }
  }
}

TEST_P(Elementwise, Derivatives) {
  for (const Named& named : functions()) {
    for (const Index count : {1, 3, 7, 17, 65}) {
      Buffer a = random_buffer(count, 1);
      for (float& x : a) {
        if (named.low > 0) x = std::abs(x) + 0.1F;
      }
      const Buffer dout = random_buffer(count, 2);
      Wide want;
      for (size_t i = 0; i < a.size(); ++i) {
        const double h = 1e-6;
        want.push_back(dout[i] * (named.value(a[i] + h) - named.value(a[i] - h)) / (2 * h));
      }
      check_gradient(count, want, 2e-6, named.name, [&](float* da, bool accumulate) {
        unary_backward(named.f, count, a.data(), dout.data(), da, accumulate);
      });
      Buffer in_place = dout;
      unary_backward(named.f, count, a.data(), in_place.data(), in_place.data(), false);
      expect_near(in_place, want, 2e-6, named.name);
    }
  }
}

TEST_P(Elementwise, KinksAndLimits) {
  const auto slope = [](const Function& f, float x) {
    const float one = 1;
    float result = kNan;
    unary_backward(f, 1, &x, &one, &result, false);
    return result;
  };
  const auto value = [](const Function& f, float x) {
    float result = kNan;
    unary(f, 1, &x, &result);
    return result;
  };
  EXPECT_EQ(slope({Unary::relu}, 0), 0.0F);
  EXPECT_EQ(slope({Unary::abs}, 0), 0.0F);
  EXPECT_EQ(slope({Unary::abs}, -0.0F), 0.0F);
  EXPECT_EQ(slope({Unary::abs}, -2), -1.0F);
  EXPECT_EQ(slope({Unary::relu2}, 0), 0.0F);
  const Function clip = {Unary::clip, -1, 2};
  EXPECT_EQ(slope(clip, -1), 1.0F);
  EXPECT_EQ(slope(clip, 2), 1.0F);
  EXPECT_EQ(slope(clip, 2.001F), 0.0F);
  EXPECT_EQ(slope(clip, -1.001F), 0.0F);
  const Function unbounded = {Unary::clip, -INFINITY, 2};
  EXPECT_EQ(value(unbounded, -1e30F), -1e30F);
  EXPECT_EQ(value({Unary::power, 0}, 0), 1.0F);
  EXPECT_EQ(slope({Unary::power, 0}, 0), 0.0F);
  EXPECT_EQ(slope({Unary::power, 1}, 0), 1.0F);
  EXPECT_EQ(value({Unary::exp}, 89), INFINITY);
  EXPECT_EQ(value({Unary::exp}, INFINITY), INFINITY);
  EXPECT_EQ(value({Unary::exp}, -200), 0.0F);
  EXPECT_EQ(value({Unary::exp}, -INFINITY), 0.0F);
  EXPECT_EQ(value({Unary::exp}, 0), 1.0F);
  EXPECT_EQ(value({Unary::sigmoid}, -INFINITY), 0.0F);
  EXPECT_EQ(value({Unary::sigmoid}, 200), 1.0F);
  EXPECT_EQ(value({Unary::tanh}, INFINITY), 1.0F);
  EXPECT_EQ(value({Unary::tanh}, -100), -1.0F);
  EXPECT_EQ(value({Unary::erf}, -INFINITY), -1.0F);
  EXPECT_EQ(value({Unary::erf}, 50), 1.0F);
  EXPECT_EQ(value({Unary::gelu}, 30), 30.0F);
  EXPECT_NEAR(value({Unary::gelu}, -30), 0.0F, 1e-30);
  for (const Named& named : functions()) {
    EXPECT_TRUE(std::isnan(value(named.f, kNan))) << named.name;
    if (named.f.kind == Unary::identity) continue;
    EXPECT_TRUE(std::isnan(slope(named.f, kNan))) << named.name;
  }
}

TEST_P(Elementwise, BiasThenActivation) {
  for (const Named& named : functions()) {
    if (named.low > 0) continue;
    for (const Index cols : {1, 7, 65}) {
      const Index rows = 37;
      const Buffer x = random_buffer(rows * cols, 1);
      const Buffer bias = random_buffer(cols, 2);
      const Buffer dh = random_buffer(rows * cols, 3);
      for (const bool biased : {false, true}) {
        Buffer pre = x;
        Buffer h = nan_buffer(rows * cols);
        bias_activation(named.f, rows, cols, biased ? bias.data() : nullptr, pre.data(), h.data());
        Buffer want_pre = x;
        Wide want_h;
        Wide want_slope;
        Wide want_bias(static_cast<size_t>(cols), 1.0);
        for (size_t i = 0; i < x.size(); ++i) {
          const size_t column = i % static_cast<size_t>(cols);
          if (biased) want_pre[i] += bias[column];
          want_h.push_back(named.value(want_pre[i]));
          const double step = 1e-6;
          want_slope.push_back(dh[i] *
                               (named.value(want_pre[i] + step) - named.value(want_pre[i] - step)) /
                               (2 * step));
          want_bias[column] += want_slope.back();
        }
        EXPECT_EQ(pre, want_pre);
        expect_near(h, want_h, 1e-6, named.name);
        Buffer dpre = dh;
        Buffer dbias(static_cast<size_t>(cols), 1.0F);
        bias_activation_backward(named.f, rows, cols, pre.data(), dpre.data(), dpre.data(),
                                 biased ? dbias.data() : nullptr);
        expect_near(dpre, want_slope, 2e-6, named.name);
        if (biased) expect_near(dbias, want_bias, 2e-6, named.name);
      }
    }
  }
}

TEST_P(Elementwise, Gates) {
  for (const Named& named : functions()) {
    if (named.low > 0) continue;
    const Index rows = 35;
    const Index cols = 19;
    const auto count = static_cast<size_t>(rows * cols);
    const Buffer gate0 = random_buffer(rows * cols, 1);
    const Buffer in0 = random_buffer(rows * cols, 2);
    const Buffer gate_bias = random_buffer(cols, 3);
    const Buffer in_bias = random_buffer(cols, 4);
    const Buffer dh = random_buffer(rows * cols, 5);
    Buffer gate = gate0;
    Buffer in = in0;
    Buffer h = nan_buffer(rows * cols);
    gated_activation(named.f, rows, cols, gate_bias.data(), gate.data(), in_bias.data(), in.data(),
                     h.data());
    Wide want_h;
    Wide want_gate;
    Wide want_in;
    Wide want_gate_bias(static_cast<size_t>(cols), 1.0);
    Wide want_in_bias(static_cast<size_t>(cols), 1.0);
    for (size_t i = 0; i < count; ++i) {
      const size_t column = i % static_cast<size_t>(cols);
      ASSERT_EQ(gate[i], gate0[i] + gate_bias[column]);
      ASSERT_EQ(in[i], in0[i] + in_bias[column]);
      const double step = 1e-6;
      const double slope = (named.value(gate[i] + step) - named.value(gate[i] - step)) / (2 * step);
      want_h.push_back(named.value(gate[i]) * in[i]);
      want_gate.push_back(slope * in[i] * dh[i]);
      want_in.push_back(named.value(gate[i]) * dh[i]);
      want_gate_bias[column] += want_gate.back();
      want_in_bias[column] += want_in.back();
    }
    expect_near(h, want_h, 2e-6, named.name);
    Buffer dgate = nan_buffer(rows * cols);
    Buffer din = dh;
    Buffer dgate_bias(static_cast<size_t>(cols), 1.0F);
    Buffer din_bias(static_cast<size_t>(cols), 1.0F);
    gated_activation_backward(named.f, rows, cols, gate.data(), in.data(), din.data(), dgate.data(),
                              din.data(), dgate_bias.data(), din_bias.data());
    expect_near(dgate, want_gate, 2e-6, named.name);
    expect_near(din, want_in, 2e-6, named.name);
    expect_near(dgate_bias, want_gate_bias, 2e-6, named.name);
    expect_near(din_bias, want_in_bias, 2e-6, named.name);
    Buffer again_gate = gate0;
    Buffer again_in = in0;
    gated_activation(named.f, rows, cols, nullptr, again_gate.data(), nullptr, again_in.data(),
                     h.data());
    EXPECT_EQ(again_gate, gate0);
    EXPECT_EQ(again_in, in0);
  }
}

TEST_P(Elementwise, DropoutIsAFunctionOfTheIndex) {
  const uint64_t seed = 0x123456789ABCDEF0;
  const uint64_t stream = 0xFEDCBA9876543210;
  for (const uint64_t first : {uint64_t{0}, uint64_t{3}, uint64_t{255}, (uint64_t{1} << 34) + 5}) {
    const Index count = 1037;
    const Buffer a = random_buffer(count, 1);
    const float rate = 0.3F;
    const Random random(seed, stream);
    Wide want;
    for (size_t i = 0; i < a.size(); ++i) {
      const uint64_t element = first + i;
      const uint32_t word = random.block(element / 4)[element % 4];
      want.push_back(word >= std::lround(double{rate} * 4294967296.0) ? a[i] / (1 - double{rate})
                                                                      : 0.0);
    }
    check_gradient(count, want, 1e-6, "dropout", [&](float* out, bool accumulate) {
      dropout(seed, stream, rate, first, count, a.data(), out, accumulate);
    });
    // In pieces, in place: the same.
    Buffer whole = nan_buffer(count);
    dropout(seed, stream, rate, first, count, a.data(), whole.data(), false);
    Buffer pieces = a;
    for (Index begin = 0; begin < count; begin += 100) {
      const Index size = std::min<Index>(100, count - begin);
      dropout(seed, stream, rate, first + static_cast<uint64_t>(begin), size, pieces.data() + begin,
              pieces.data() + begin, false);
    }
    EXPECT_EQ(pieces, whole);
  }
  const Buffer a = random_buffer(100000, 2, 0, 1);
  Buffer out = nan_buffer(100000);
  dropout(1, 2, 0.25F, 0, 100000, a.data(), out.data(), false);
  EXPECT_NEAR(sum_values(100000, out.data()) / 1e5, 1, 0.01);
  dropout(1, 2, 0, 0, 100000, a.data(), out.data(), false);
  EXPECT_EQ(out, a);
}

ADDNORM_EVERY_SET(Elementwise);

}  // namespace
}  // namespace addnorm::kernels
