// Optimizer passes against the update rule in double, sums over buffers, tables and rotary turns.
#include <gtest/gtest.h>

#include "kernels/support.h"

namespace addnorm::kernels {
namespace {

class Updates : public EverySet {};

TEST_P(Updates, AdamBothWays) {
  for (const Index count : {1, 3, 7, 17, 65, 1000}) {
    for (const bool decoupled : {false, true}) {
      for (const bool clear : {false, true}) {
        Buffer w = random_buffer(count, 1);
        Buffer m(static_cast<size_t>(count), 0.0F);
        Buffer v(static_cast<size_t>(count), 0.0F);
        Wide slow_w = widen(w);
        Wide slow_m(w.size(), 0.0);
        Wide slow_v(w.size(), 0.0);
        for (int t = 1; t <= 3; ++t) {
          Buffer g = random_buffer(count, 10 + static_cast<uint64_t>(t));
          const Buffer before = g;
          AdamStep step;
          step.gradient_scale = 0.5F;
          step.rate = 0.01F;
          step.beta1 = 0.75F;
          step.beta2 = 0.875F;
          step.correction1 = static_cast<float>(1 / (1 - std::pow(0.75, t)));
          step.correction2 = static_cast<float>(1 / (1 - std::pow(0.875, t)));
          step.eps = 1e-3F;
          step.decay = 0.1F;
          step.decoupled = decoupled;
          step.clear_gradient = clear;
          adam(step, count, w.data(), g.data(), m.data(), v.data());
          for (size_t i = 0; i < w.size(); ++i) {
            const double gradient = 0.5 * before[i] + (decoupled ? 0 : double{0.1F} * slow_w[i]);
            slow_m[i] = 0.75 * slow_m[i] + 0.25 * gradient;
            slow_v[i] = 0.875 * slow_v[i] + 0.125 * gradient * gradient;
            const double m_hat = slow_m[i] / (1 - std::pow(0.75, t));
            const double v_hat = slow_v[i] / (1 - std::pow(0.875, t));
            slow_w[i] -= double{0.01F} * (m_hat / (std::sqrt(v_hat) + double{1e-3F}) +
                                          (decoupled ? double{0.1F} * slow_w[i] : 0));
            ASSERT_EQ(g[i], clear ? 0.0F : before[i]);
          }
        }
        expect_near(w, slow_w, 2e-6, "w");
        expect_near(m, slow_m, 2e-6, "m");
        expect_near(v, slow_v, 2e-6, "v");
      }
    }
  }
}

TEST_P(Updates, SgdWithMomentum) {
  for (const Index count : {1, 7, 65}) {
    for (const bool with_momentum : {false, true}) {
      Buffer w = random_buffer(count, 1);
      Buffer buffer(w.size(), 0.0F);
      Wide slow_w = widen(w);
      Wide slow_buffer(w.size(), 0.0);
      for (int t = 1; t <= 3; ++t) {
        Buffer g = random_buffer(count, 20 + static_cast<uint64_t>(t));
        SgdStep step;
        step.gradient_scale = 2;
        step.rate = 0.125F;
        step.momentum = with_momentum ? 0.75F : 0.0F;
        step.decay = 0.25F;
        for (size_t i = 0; i < w.size(); ++i) {
          slow_buffer[i] =
              (with_momentum ? 0.75 : 0) * slow_buffer[i] + 2 * double{g[i]} + 0.25 * slow_w[i];
          slow_w[i] -= 0.125 * slow_buffer[i];
        }
        sgd(step, count, w.data(), g.data(), with_momentum ? buffer.data() : nullptr);
      }
      expect_near(w, slow_w, 2e-6, "w");
      if (with_momentum) expect_near(buffer, slow_buffer, 2e-6, "buffer");
    }
  }
}

TEST_P(Updates, SumsOverBuffers) {
  for (const Index count : {0, 1, 3, 7, 17, 65, 10007}) {
    const Buffer a = random_buffer(count, 1);
    double square = 0;
    double total = 0;
    for (const float x : a) {
      square += double{x} * x;
      total += x;
    }
    EXPECT_NEAR(sum_squares(count, a.data()), square, 1e-12 * std::max(1.0, square));
    EXPECT_NEAR(sum_values(count, a.data()), total, 1e-11 * std::max(1.0, square));
    EXPECT_EQ(first_nonfinite(count, a.data()), -1);
    for (const float bad : {kNan, INFINITY, -INFINITY}) {
      if (count == 0) continue;
      Buffer broken = a;
      const auto where = static_cast<size_t>(count * 2 / 3);
      broken[where] = bad;
      EXPECT_EQ(first_nonfinite(count, broken.data()), static_cast<Index>(where));
    }
  }
  const Buffer large(100, 1e30F);  // squares beyond float
  EXPECT_NEAR(sum_squares(100, large.data()) / 1e62, 1, 1e-6);
}

TEST_P(Updates, PlainPasses) {
  for (const Index count : {1, 3, 7, 17, 65}) {
    const Buffer a = random_buffer(count, 1);
    const Buffer b = random_buffer(count, 2);
    const Buffer c = random_buffer(count, 3);
    Buffer out = a;
    scale(count, 3, out.data());
    for (size_t i = 0; i < a.size(); ++i) ASSERT_EQ(out[i], a[i] * 3);
    fill(count, 2.5F, out.data());
    EXPECT_EQ(out, Buffer(a.size(), 2.5F));
    out = a;
    add(count, b.data(), out.data());
    for (size_t i = 0; i < a.size(); ++i) ASSERT_EQ(out[i], a[i] + b[i]);
    const float* parts[] = {a.data(), b.data(), c.data()};
    out = nan_buffer(count);
    sum_parts(count, 3, parts, out.data(), false);
    for (size_t i = 0; i < a.size(); ++i) ASSERT_EQ(out[i], (a[i] + b[i]) + c[i]);
    Buffer same = a;
    const float* with_same[] = {same.data(), b.data(), c.data()};
    sum_parts(count, 3, with_same, same.data(), false);
    EXPECT_EQ(same, out);
    out = Buffer(a.size(), 1.0F);
    sum_parts(count, 2, parts, out.data(), true);
    for (size_t i = 0; i < a.size(); ++i) ASSERT_EQ(out[i], (1 + a[i]) + b[i]);
  }
}

TEST_P(Updates, GatherAndScatter) {
  for (const Index width : {1, 3, 17, 65}) {
    const std::vector<int32_t> ids = {2, 0, 2, 4};
    const Buffer table = random_buffer(5 * width, 1);
    const Buffer dout = random_buffer(4 * width, 2);
    Wide want;
    Wide dtable(table.size(), 1.0);
    for (size_t row = 0; row < ids.size(); ++row) {
      for (Index i = 0; i < width; ++i) {
        const auto from = static_cast<size_t>(ids[row] * width + i);
        want.push_back(1.5 * table[from]);
        dtable[from] += 1.5 * dout[row * static_cast<size_t>(width) + static_cast<size_t>(i)];
      }
    }
    check_gradient(4 * width, want, 1e-6, "gather", [&](float* out, bool accumulate) {
      gather(4, width, ids.data(), table.data(), 1.5F, out, accumulate);
    });
    Buffer got(table.size(), 1.0F);
    scatter_add(4, width, ids.data(), dout.data(), 1.5F, got.data());
    expect_near(got, dtable, 1e-6, "scatter");
  }
}

// design.md: (a, b) becomes (a cos - b sin, b cos + a sin), a and b from halves or from pairs.
TEST_P(Updates, Rotary) {
  for (const RotaryLayout layout : {RotaryLayout::half, RotaryLayout::interleaved}) {
    for (const auto& [head_dim, rotary_dim] :
         {std::pair<Index, Index>{2, 2}, {8, 6}, {34, 34}, {70, 66}, {5, 0}}) {
      const Index rows = 4;
      const Index heads = 3;
      const Index cols = heads * head_dim;
      const std::vector<int32_t> positions = {0, 3, 1, 11};
      const Index half = rotary_dim / 2;
      Buffer cos(static_cast<size_t>(12 * half));
      Buffer sin(cos.size());
      rotary_table(12, rotary_dim, 100, cos.data(), sin.data());
      const Buffer x = random_buffer(rows * cols, 1);
      for (const bool inverse : {false, true}) {
        Wide want = widen(x);
        for (Index row = 0; row < rows; ++row) {
          for (Index head = 0; head < heads; ++head) {
            const Index start = row * cols + head * head_dim;
            for (Index i = 0; i < half; ++i) {
              const double angle =
                  (inverse ? -1 : 1) * positions[static_cast<size_t>(row)] *
                  std::pow(100.0, -2.0 * static_cast<double>(i) / static_cast<double>(rotary_dim));
              const bool halves = layout == RotaryLayout::half;
              const auto ia = static_cast<size_t>(start + (halves ? i : 2 * i));
              const auto ib = static_cast<size_t>(start + (halves ? half + i : 2 * i + 1));
              const double a = x[ia];
              const double b = x[ib];
              want[ia] = a * std::cos(angle) - b * std::sin(angle);
              want[ib] = b * std::cos(angle) + a * std::sin(angle);
            }
          }
        }
        check_gradient(rows * cols, want, 1e-6, "rotary", [&](float* out, bool accumulate) {
          rotary(layout, rows, heads, head_dim, rotary_dim, positions.data(), cos.data(),
                 sin.data(), inverse, x.data(), out, accumulate);
        });
        Buffer in_place = x;
        rotary(layout, rows, heads, head_dim, rotary_dim, positions.data(), cos.data(), sin.data(),
               inverse, in_place.data(), in_place.data(), false);
        expect_near(in_place, want, 1e-6, "in place");
      }
    }
  }
}

// T5's formula: exact up to half of the buckets, then logarithmic up to the distance.
TEST(RelativeBuckets, BothKinds) {
  std::vector<int32_t> both(2 * 200 + 1);
  relative_buckets(200, 32, 128, true, both.data());
  const auto at = [&](Index offset) { return both[static_cast<size_t>(offset + 200)]; };
  EXPECT_EQ(at(0), 0);
  EXPECT_EQ(at(-1), 1);
  EXPECT_EQ(at(-7), 7);
  EXPECT_EQ(at(-8), 8);
  EXPECT_EQ(at(-11), 8);
  EXPECT_EQ(at(-12), 9);
  EXPECT_EQ(at(-16), 10);
  EXPECT_EQ(at(-32), 12);
  EXPECT_EQ(at(-64), 14);
  EXPECT_EQ(at(-128), 15);
  EXPECT_EQ(at(-200), 15);
  EXPECT_EQ(at(1), 17);
  EXPECT_EQ(at(200), 31);
  std::vector<int32_t> causal(both.size());
  relative_buckets(200, 32, 128, false, causal.data());
  const auto back = [&](Index offset) { return causal[static_cast<size_t>(offset + 200)]; };
  EXPECT_EQ(back(5), 0);
  EXPECT_EQ(back(0), 0);
  EXPECT_EQ(back(-15), 15);
  EXPECT_EQ(back(-16), 16);
  EXPECT_EQ(back(-32), 21);
  EXPECT_EQ(back(-64), 26);
  EXPECT_EQ(back(-127), 31);
  EXPECT_EQ(back(-200), 31);
}

TEST(InstructionSets, AreForcedByName) {
  const auto sets = instruction_sets();
  ASSERT_FALSE(sets.empty());
  for (const std::string& set : sets) {
    force_instruction_set(set);
    EXPECT_EQ(instruction_set(), set);
  }
  force_instruction_set("");
  EXPECT_EQ(instruction_set(), sets.front());
  EXPECT_THROW(force_instruction_set("none such"), std::runtime_error);
  EXPECT_EQ(instruction_set(), sets.front());
}

ADDNORM_EVERY_SET(Updates);

}  // namespace
}  // namespace addnorm::kernels
