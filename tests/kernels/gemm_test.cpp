// Matrix products against three loops, with pitches, empty dimensions and NaN in the outputs.
#include <gtest/gtest.h>

#include "kernels/support.h"

namespace addnorm::kernels {
namespace {

// C = op(A) op(B) in double.
Wide product(bool at, bool bt, Index m, Index n, Index k, const Buffer& a, Index a_pitch,
             const Buffer& b, Index b_pitch) {
  Wide c(static_cast<size_t>(m * n), 0.0);
  for (Index i = 0; i < m; ++i) {
    for (Index j = 0; j < n; ++j) {
      for (Index l = 0; l < k; ++l) {
        c[static_cast<size_t>(i * n + j)] +=
            double{a[static_cast<size_t>(at ? l * a_pitch + i : i * a_pitch + l)]} *
            b[static_cast<size_t>(bt ? j * b_pitch + l : l * b_pitch + j)];
      }
    }
  }
  return c;
}

const std::vector<Index> kSizes = {1, 3, 7, 17, 65};

TEST(Gemm, MatmulWithPitches) {
  for (const Index m : kSizes) {
    for (const Index n : kSizes) {
      for (const Index k : kSizes) {
        for (int flags = 0; flags < 4; ++flags) {
          const bool at = (flags & 1) != 0;
          const bool bt = (flags & 2) != 0;
          const Index a_pitch = (at ? m : k) + 3;
          const Index b_pitch = (bt ? k : n) + 2;
          const Index c_pitch = n + 1;
          const Buffer a = random_buffer((at ? k : m) * a_pitch, 1);
          const Buffer b = random_buffer((bt ? n : k) * b_pitch, 2);
          const Wide want = product(at, bt, m, n, k, a, a_pitch, b, b_pitch);
          for (const bool accumulate : {false, true}) {
            Buffer c = accumulate ? Buffer(static_cast<size_t>(m * c_pitch), 2.0F)
                                  : nan_buffer(m * c_pitch);
            const Buffer before = c;
            matmul(at, bt, m, n, k, a.data(), a_pitch, b.data(), b_pitch, c.data(), c_pitch,
                   accumulate);
            for (Index i = 0; i < m; ++i) {
              for (Index j = 0; j < n; ++j) {
                ASSERT_NEAR(c[static_cast<size_t>(i * c_pitch + j)],
                            want[static_cast<size_t>(i * n + j)] + (accumulate ? 2 : 0), 1e-4)
                    << m << " " << n << " " << k << " " << flags;
              }
              const auto gap = static_cast<size_t>(i * c_pitch + n);
              if (accumulate) {
                ASSERT_EQ(c[gap], before[gap]);
              }
            }
          }
        }
      }
    }
  }
}

TEST(Gemm, EmptyInnerDimensionGivesZeroOrKeeps) {
  Buffer c = nan_buffer(6);
  matmul(false, false, 2, 3, 0, nullptr, 0, nullptr, 3, c.data(), 3, false);
  EXPECT_EQ(c, Buffer(6, 0.0F));
  c = Buffer(6, 5.0F);
  matmul(false, false, 2, 3, 0, nullptr, 0, nullptr, 3, c.data(), 3, true);
  EXPECT_EQ(c, Buffer(6, 5.0F));
  // A thread without rows clears its weight gradient.
  Buffer dw = nan_buffer(6);
  linear_dw(0, 2, 3, nullptr, nullptr, dw.data(), false);
  EXPECT_EQ(dw, Buffer(6, 0.0F));
  Buffer y = nan_buffer(6);
  const Buffer bias = {1, 2, 3};
  linear(2, 3, 0, nullptr, nullptr, bias.data(), y.data());
  EXPECT_EQ(y, (Buffer{1, 2, 3, 1, 2, 3}));
  linear(0, 3, 4, nullptr, bias.data(), bias.data(), y.data());
  EXPECT_EQ(y, (Buffer{1, 2, 3, 1, 2, 3}));
}

TEST(Gemm, LinearLayer) {
  for (const Index m : kSizes) {
    for (const Index n : kSizes) {
      const Index k = 17;
      const Buffer x = random_buffer(m * k, 1);
      const Buffer w = random_buffer(n * k, 2);
      const Buffer bias = random_buffer(n, 3);
      const Buffer dy = random_buffer(m * n, 4);
      for (const float* b : {static_cast<const float*>(nullptr), bias.data()}) {
        Wide want = product(false, true, m, n, k, x, k, w, k);
        for (Index i = 0; i < m * n; ++i) {
          if (b != nullptr) want[static_cast<size_t>(i)] += bias[static_cast<size_t>(i % n)];
        }
        Buffer y = nan_buffer(m * n);
        linear(m, n, k, x.data(), w.data(), b, y.data());
        expect_near(y, want, 2e-6, "y");
      }
      check_gradient(m * k, product(false, false, m, k, n, dy, n, w, k), 2e-6, "dx",
                     [&](float* dx, bool accumulate) {
                       linear_dx(m, n, k, dy.data(), w.data(), dx, accumulate);
                     });
      check_gradient(n * k, product(true, false, n, k, m, dy, n, x, k), 2e-6, "dw",
                     [&](float* dw, bool accumulate) {
                       linear_dw(m, n, k, dy.data(), x.data(), dw, accumulate);
                     });
    }
  }
}

}  // namespace
}  // namespace addnorm::kernels
