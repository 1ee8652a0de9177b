// Weighted sums, products, quotients, minima, maxima with every pair of shapes; dot, rms, head scales.
#include <gtest/gtest.h>

#include "kernels/support.h"

namespace addnorm::kernels {
namespace {

const std::vector<Shape> kShapes = {Shape::tensor, Shape::vector, Shape::column, Shape::number};

Index size_of(Shape shape, Index rows, Index cols) {
  switch (shape) {
    case Shape::tensor:
      return rows * cols;
    case Shape::vector:
      return cols;
    case Shape::column:
      return rows;
    case Shape::number:
      break;
  }
  return 1;
}

size_t place(Shape shape, Index cols, Index row, Index column) {
  switch (shape) {
    case Shape::tensor:
      return static_cast<size_t>(row * cols + column);
    case Shape::vector:
      return static_cast<size_t>(column);
    case Shape::column:
      return static_cast<size_t>(row);
    case Shape::number:
      break;
  }
  return 0;
}

struct Extent {
  Index rows, cols;
};
const std::vector<Extent> kExtents = {{1, 1},  {1, 7},   {7, 1},   {3, 17},
                                      {65, 3}, {37, 65}, {130, 1}, {1, 130}};

class Sums : public EverySet {};

TEST_P(Sums, WeightedSum) {
  for (const auto [rows, cols] : kExtents) {
    for (const Shape first : kShapes) {
      for (const Shape second : kShapes) {
        const Buffer a = random_buffer(size_of(first, rows, cols), 1);
        const Buffer b = random_buffer(size_of(second, rows, cols), 2);
        const Buffer c = random_buffer(rows * cols, 3);
        const Term terms[] = {
            {a.data(), 0.5F, first}, {b.data(), -2, second}, {c.data(), 1, Shape::tensor}};
        for (const Index count : {0, 1, 2, 3}) {
          Wide want;
          for (Index row = 0; row < rows; ++row) {
            for (Index column = 0; column < cols; ++column) {
              double sum = 0.25;
              if (count > 0) sum += 0.5 * a[place(first, cols, row, column)];
              if (count > 1) sum -= 2.0 * b[place(second, cols, row, column)];
              if (count > 2) sum += c[place(Shape::tensor, cols, row, column)];
              want.push_back(sum);
            }
          }
          Buffer out = nan_buffer(rows * cols);
          weighted_sum(rows, cols, 0.25F, count, terms, out.data());
          expect_near(out, want, 1e-6, "sum");
        }
        Buffer in_place = c;
        const Term same[] = {{a.data(), 2, first}, {in_place.data(), 1, Shape::tensor}};
        weighted_sum(rows, cols, 0, 2, same, in_place.data());
        for (Index row = 0; row < rows; ++row) {
          const size_t i = place(Shape::tensor, cols, row, cols - 1);
          ASSERT_NEAR(in_place[i], c[i] + 2 * a[place(first, cols, row, cols - 1)], 1e-5);
        }
      }
    }
  }
}

TEST_P(Sums, WeightedSumBackward) {
  for (const auto [rows, cols] : kExtents) {
    const Buffer dout = random_buffer(rows * cols, 1);
    for (const Shape shape : kShapes) {
      Wide want(static_cast<size_t>(size_of(shape, rows, cols)), 0.0);
      for (Index row = 0; row < rows; ++row) {
        for (Index column = 0; column < cols; ++column) {
          want[place(shape, cols, row, column)] +=
              1.5 * dout[place(Shape::tensor, cols, row, column)];
        }
      }
      check_gradient(static_cast<Index>(want.size()), want, 2e-6, "da",
                     [&](float* da, bool accumulate) {
                       weighted_sum_backward(rows, cols, 1.5F, dout.data(), shape, da, accumulate);
                     });
    }
    Wide columns(static_cast<size_t>(cols), 0.0);
    for (size_t i = 0; i < dout.size(); ++i) columns[i % static_cast<size_t>(cols)] += dout[i];
    check_gradient(cols, columns, 2e-6, "column sums", [&](float* sums, bool accumulate) {
      column_sums(rows, cols, dout.data(), sums, accumulate);
    });
  }
  // No rows: sums are 0.
  Buffer none = nan_buffer(5);
  column_sums(0, 5, nullptr, none.data(), false);
  EXPECT_EQ(none, Buffer(5, 0.0F));
  weighted_sum_backward(0, 5, 1, nullptr, Shape::number, none.data(), true);
  EXPECT_EQ(none[0], 0.0F);
}

// A long sum to one number keeps float accuracy.
TEST_P(Sums, LongReductions) {
  const Index rows = 2000;
  const Index cols = 500;
  const Buffer dout = random_buffer(rows * cols, 1, 1e-3, 1);
  double total = 0;
  for (const float x : dout) total += x;
  float got = kNan;
  weighted_sum_backward(rows, cols, 1, dout.data(), Shape::number, &got, false);
  EXPECT_NEAR(got, total, 1e-7 * total);
  Buffer columns = nan_buffer(cols);
  column_sums(rows, cols, dout.data(), columns.data(), false);
  for (const float x : columns) ASSERT_NEAR(x, rows, 1e-3 * rows);
}

double apply(Binary op, double a, double b) {
  switch (op) {
    case Binary::multiply:
      return a * b;
    case Binary::divide:
      return a / b;
    case Binary::minimum:
      return std::min(a, b);
    case Binary::maximum:
      break;
  }
  return std::max(a, b);
}

TEST_P(Sums, BinaryWithEveryPairOfShapes) {
  for (const Binary op : {Binary::multiply, Binary::divide, Binary::minimum, Binary::maximum}) {
    for (const auto [rows, cols] : kExtents) {
      for (const Shape first : kShapes) {
        for (const Shape second : kShapes) {
          const Buffer a = random_buffer(size_of(first, rows, cols), 1);
          Buffer b = random_buffer(size_of(second, rows, cols), 2);
          for (float& x : b) x += x < 0 ? -0.5F : 0.5F;
          const Buffer dout = random_buffer(rows * cols, 3);
          Wide want;
          Wide da(a.size(), 0.0);
          Wide db(b.size(), 0.0);
          for (Index row = 0; row < rows; ++row) {
            for (Index column = 0; column < cols; ++column) {
              const size_t i = place(first, cols, row, column);
              const size_t j = place(second, cols, row, column);
              const double g = dout[place(Shape::tensor, cols, row, column)];
              want.push_back(apply(op, a[i], b[j]));
              const double h = 1e-6;
              da[i] += g * (apply(op, a[i] + h, b[j]) - apply(op, a[i] - h, b[j])) / (2 * h);
              db[j] += g * (apply(op, a[i], b[j] + h) - apply(op, a[i], b[j] - h)) / (2 * h);
            }
          }
          Buffer out = nan_buffer(rows * cols);
          binary(op, rows, cols, a.data(), first, b.data(), second, out.data());
          expect_near(out, want, 1e-6, "out");
          check_gradient(static_cast<Index>(a.size()), da, 5e-6, "da",
                         [&](float* target, bool accumulate) {
                           binary_backward(op, rows, cols, a.data(), first, b.data(), second,
                                           dout.data(), target, accumulate, nullptr, false);
                         });
          Buffer other = nan_buffer(static_cast<Index>(a.size()));
          check_gradient(static_cast<Index>(b.size()), db, 5e-6, "db",
                         [&](float* target, bool accumulate) {
                           binary_backward(op, rows, cols, a.data(), first, b.data(), second,
                                           dout.data(), other.data(), false, target, accumulate);
                         });
          expect_near(other, da, 5e-6, "da beside db");
          if (HasFatalFailure()) return;
        }
      }
    }
  }
}

TEST_P(Sums, TiesBelongToTheFirstOperandAndNanFlows) {
  const Buffer a = {1, 2, kNan, 4};
  const Buffer b = {1, 3, 5, kNan};
  const Buffer dout = {7, 7, 7, 7};
  for (const Binary op : {Binary::minimum, Binary::maximum}) {
    Buffer out(4);
    binary(op, 1, 4, a.data(), Shape::tensor, b.data(), Shape::tensor, out.data());
    EXPECT_TRUE(std::isnan(out[2]) && std::isnan(out[3]));
    Buffer da = nan_buffer(4);
    Buffer db = nan_buffer(4);
    binary_backward(op, 1, 4, a.data(), Shape::tensor, b.data(), Shape::tensor, dout.data(),
                    da.data(), false, db.data(), false);
    EXPECT_EQ(da[0], 7.0F);
    EXPECT_EQ(db[0], 0.0F);
    EXPECT_EQ(da[1], op == Binary::minimum ? 7.0F : 0.0F);
    EXPECT_EQ(db[1], op == Binary::minimum ? 0.0F : 7.0F);
  }
}

TEST_P(Sums, DotOverTheWidth) {
  for (const auto [rows, cols] : kExtents) {
    for (const Shape first : {Shape::tensor, Shape::vector}) {
      for (const Shape second : {Shape::tensor, Shape::vector}) {
        const Buffer a = random_buffer(size_of(first, rows, cols), 1);
        const Buffer b = random_buffer(size_of(second, rows, cols), 2);
        const Buffer dout = random_buffer(rows, 3);
        Wide want(static_cast<size_t>(rows), 0.0);
        Wide da(a.size(), 0.0);
        Wide db(b.size(), 0.0);
        for (Index row = 0; row < rows; ++row) {
          for (Index column = 0; column < cols; ++column) {
            const size_t i = place(first, cols, row, column);
            const size_t j = place(second, cols, row, column);
            const auto r = static_cast<size_t>(row);
            want[r] += double{a[i]} * b[j];
            da[i] += double{dout[r]} * b[j];
            db[j] += double{dout[r]} * a[i];
          }
        }
        Buffer out = nan_buffer(rows);
        dot(rows, cols, a.data(), first, b.data(), second, out.data());
        expect_near(out, want, 2e-6, "dot");
        check_gradient(static_cast<Index>(a.size()), da, 2e-6, "da",
                       [&](float* target, bool accumulate) {
                         dot_backward(rows, cols, a.data(), first, b.data(), second, dout.data(),
                                      target, accumulate, nullptr, false);
                       });
        check_gradient(static_cast<Index>(b.size()), db, 2e-6, "db",
                       [&](float* target, bool accumulate) {
                         dot_backward(rows, cols, a.data(), first, b.data(), second, dout.data(),
                                      nullptr, false, target, accumulate);
                       });
      }
    }
  }
}

TEST_P(Sums, RootMeanSquare) {
  for (const auto [rows, cols] : kExtents) {
    Buffer a = random_buffer(rows * cols, 1);
    const Buffer dout = random_buffer(rows, 2);
    std::fill_n(a.begin(), cols, 0.0F);  // derivative 0 there
    Wide want;
    Wide da;
    for (Index row = 0; row < rows; ++row) {
      double square = 0;
      for (Index i = 0; i < cols; ++i) {
        const double x = a[static_cast<size_t>(row * cols + i)];
        square += x * x / static_cast<double>(cols);
      }
      const double value = std::sqrt(square);
      want.push_back(value);
      for (Index i = 0; i < cols; ++i) {
        const double x = a[static_cast<size_t>(row * cols + i)];
        da.push_back(value == 0 ? 0
                                : dout[static_cast<size_t>(row)] * x /
                                      (static_cast<double>(cols) * value));
      }
    }
    Buffer out = nan_buffer(rows);
    rms(rows, cols, a.data(), out.data());
    expect_near(out, want, 1e-6, "rms");
    check_gradient(rows * cols, da, 2e-6, "da", [&](float* target, bool accumulate) {
      rms_backward(rows, cols, a.data(), out.data(), dout.data(), target, accumulate);
    });
  }
}

TEST_P(Sums, HeadScale) {
  for (const Index head_dim : {1, 3, 16, 17}) {
    const Index rows = 5;
    const Index heads = 3;
    const Index cols = heads * head_dim;
    const Buffer a = random_buffer(rows * cols, 1);
    const Buffer scales = random_buffer(heads, 2);
    const Buffer dout = random_buffer(rows * cols, 3);
    Wide want;
    Wide da;
    Wide dscale(static_cast<size_t>(heads), 1.0);
    for (Index i = 0; i < rows * cols; ++i) {
      const auto h = static_cast<size_t>(i % cols / head_dim);
      const auto k = static_cast<size_t>(i);
      want.push_back(double{a[k]} * scales[h]);
      da.push_back(double{dout[k]} * scales[h]);
      dscale[h] += double{dout[k]} * a[k];
    }
    Buffer out = nan_buffer(rows * cols);
    head_scale(rows, heads, head_dim, a.data(), scales.data(), out.data());
    expect_near(out, want, 1e-6, "out");
    check_gradient(rows * cols, da, 1e-6, "da", [&](float* target, bool accumulate) {
      head_scale_backward(rows, heads, head_dim, a.data(), scales.data(), dout.data(), target,
                          accumulate, nullptr);
    });
    Buffer got(static_cast<size_t>(heads), 1.0F);
    Buffer in_place = dout;
    head_scale_backward(rows, heads, head_dim, a.data(), scales.data(), in_place.data(),
                        in_place.data(), false, got.data());
    expect_near(got, dscale, 2e-6, "dscale");
    expect_near(in_place, da, 1e-6, "in place");
  }
}

ADDNORM_EVERY_SET(Sums);

}  // namespace
}  // namespace addnorm::kernels
