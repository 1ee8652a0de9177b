// Sums, products and quotients with broadcasting, and the reductions that are their backward passes.
#include <cmath>

#include "addnorm/kernels/cpu/targets.h"
#include "addnorm/kernels/kernels.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "addnorm/kernels/cpu/sums.cpp"
#include "hwy/foreach_target.h"
// After foreach_target.h.
#include "addnorm/kernels/cpu/simd-inl.h"
#include "hwy/highway.h"

// Not per instruction set: the shape of a call after flattening.
#ifndef ADDNORM_KERNELS_SUMS_ONCE
#define ADDNORM_KERNELS_SUMS_ONCE
namespace addnorm::kernels {

// A result of one column is treated as one row, so that vectors stay full.
struct Extent {
  Index rows;
  Index cols;
  bool turned;

  Extent(Index result_rows, Index result_cols)
      : rows(result_rows), cols(result_cols), turned(result_cols == 1 && result_rows > 1) {
    if (turned) {
      cols = rows;
      rows = 1;
    }
  }
  Shape of(Shape shape) const {
    if (!turned) return shape;
    return shape == Shape::tensor || shape == Shape::column ? Shape::tensor : Shape::number;
  }
};

}  // namespace addnorm::kernels
#endif

HWY_BEFORE_NAMESPACE();
namespace addnorm::kernels::HWY_NAMESPACE {

struct Operand {
  const float* a;
  Shape shape;
  Index cols;

  template <class Io>
  HWY_INLINE Vector at(Io io, Index row, Index i) const {
    switch (shape) {
      case Shape::tensor:
        return io.load(a + row * cols + i);
      case Shape::vector:
        return io.load(a + i);
      case Shape::column:
        return set(a[row]);
      case Shape::number:
        break;
    }
    return set(a[0]);
  }
};

HWY_INLINE void put_number(double value, float* out, bool accumulate) {
  *out = static_cast<float>(accumulate ? *out + value : value);
}

// out[cols] (+)= sum over rows of value(io, row, i), sixteen rows at a time in registers.
template <class Value>
HWY_INLINE void reduce_to_vector(Index rows, Index cols, Value value, float* out, bool accumulate) {
  constexpr Index kRows = 16;
  if (rows == 0 && !accumulate) {
    sweep(0, cols, [&](auto io, Index i) HWY_ATTR { io.store(zero(), out + i); });
  }
  for (Index first = 0; first < rows; first += kRows) {
    const Index last = first + kRows < rows ? first + kRows : rows;
    const bool add_up = accumulate || first > 0;
    sweep(0, cols, [&](auto io, Index i) HWY_ATTR {
      auto sum = value(io, first, i);
      for (Index row = first + 1; row < last; ++row) sum = hn::Add(sum, value(io, row, i));
      put(io, sum, out + i, add_up);
    });
  }
}

template <class Value>
HWY_INLINE double reduce_row(Index cols, Value value, Index row) {
  constexpr Index kBlock = 4096;
  double total = 0;
  for (Index begin = 0; begin < cols; begin += kBlock) {
    const Index size = cols - begin < kBlock ? cols - begin : kBlock;
    total += sum_of(sum_terms(
        size, [&](auto io, Index i) HWY_ATTR { return io.keep(value(io, row, begin + i)); }));
  }
  return total;
}

template <class Value>
HWY_INLINE void reduce_to(Shape shape, Index rows, Index cols, Value value, float* out,
                          bool accumulate) {
  switch (shape) {
    case Shape::tensor:
      for (Index row = 0; row < rows; ++row) {
        sweep(0, cols, [&](auto io, Index i) HWY_ATTR {
          put(io, value(io, row, i), out + row * cols + i, accumulate);
        });
      }
      return;
    case Shape::vector:
      return reduce_to_vector(rows, cols, value, out, accumulate);
    case Shape::column:
      for (Index row = 0; row < rows; ++row) {
        put_number(reduce_row(cols, value, row), out + row, accumulate);
      }
      return;
    case Shape::number: {
      double total = 0;
      for (Index row = 0; row < rows; ++row) total += reduce_row(cols, value, row);
      put_number(total, out, accumulate);
      return;
    }
  }
}

void weighted_sum_all(Index rows, Index cols, float constant, Index count, const Term* terms,
                      float* out) {
  const Extent extent(rows, cols);
  for (Index row = 0; row < extent.rows; ++row) {
    sweep(0, extent.cols, [&](auto io, Index i) HWY_ATTR {
      auto sum = set(constant);
      for (Index term = 0; term < count; ++term) {
        const Operand operand{terms[term].a, extent.of(terms[term].shape), extent.cols};
        sum = hn::MulAdd(operand.at(io, row, i), set(terms[term].weight), sum);
      }
      io.store(sum, out + row * extent.cols + i);
    });
  }
}

// The common sum of two tensors: a plain stream.
void sum_two_all(Index size, float constant, const Term* terms, float* out) {
  const auto start = set(constant);
  const auto weight0 = set(terms[0].weight);
  const auto weight1 = set(terms[1].weight);
  const float* a = terms[0].a;
  const float* b = terms[1].a;
  sweep(0, size, [&](auto io, Index i) HWY_ATTR {
    io.store(hn::MulAdd(io.load(b + i), weight1, hn::MulAdd(io.load(a + i), weight0, start)),
             out + i);
  });
}

void weighted_sum_backward_all(Index rows, Index cols, float weight, const float* dout, Shape shape,
                               float* da, bool accumulate) {
  const Extent extent(rows, cols);
  const auto factor = set(weight);
  const auto value = [&](auto io, Index row, Index i) HWY_ATTR {
    return hn::Mul(io.load(dout + row * extent.cols + i), factor);
  };
  reduce_to(extent.of(shape), extent.rows, extent.cols, value, da, accumulate);
}

template <Binary op>
HWY_INLINE Vector combine(Vector a, Vector b) {
  if constexpr (op == Binary::multiply) return hn::Mul(a, b);
  if constexpr (op == Binary::divide) return hn::Div(a, b);
  if constexpr (op == Binary::minimum) return nan_of(a, hn::IfThenElse(hn::Le(a, b), a, b));
  if constexpr (op == Binary::maximum) return nan_of(a, hn::IfThenElse(hn::Ge(a, b), a, b));
}

template <Binary op>
HWY_INLINE Vector slope_a(Vector a, Vector b, Vector g) {
  if constexpr (op == Binary::multiply) return hn::Mul(g, b);
  if constexpr (op == Binary::divide) return hn::Div(g, b);
  if constexpr (op == Binary::minimum) return hn::IfThenElseZero(hn::Le(a, b), g);
  if constexpr (op == Binary::maximum) return hn::IfThenElseZero(hn::Ge(a, b), g);
}

template <Binary op>
HWY_INLINE Vector slope_b(Vector a, Vector b, Vector g) {
  if constexpr (op == Binary::multiply) return hn::Mul(g, a);
  if constexpr (op == Binary::divide) return hn::Neg(hn::Div(hn::Mul(g, hn::Div(a, b)), b));
  if constexpr (op == Binary::minimum) return hn::IfThenZeroElse(hn::Le(a, b), g);
  if constexpr (op == Binary::maximum) return hn::IfThenZeroElse(hn::Ge(a, b), g);
}

template <class Call>
HWY_INLINE void by_operation(Binary op, Call call) {
  switch (op) {
    case Binary::multiply:
      return call.template operator()<Binary::multiply>();
    case Binary::divide:
      return call.template operator()<Binary::divide>();
    case Binary::minimum:
      return call.template operator()<Binary::minimum>();
    case Binary::maximum:
      return call.template operator()<Binary::maximum>();
  }
}

template <Binary op>
HWY_NOINLINE void binary_rows(const Extent& extent, const Operand& a, const Operand& b,
                              float* out) {
  for (Index row = 0; row < extent.rows; ++row) {
    sweep(0, extent.cols, [&](auto io, Index i) HWY_ATTR {
      io.store(combine<op>(a.at(io, row, i), b.at(io, row, i)), out + row * extent.cols + i);
    });
  }
}

template <Binary op>
HWY_NOINLINE void binary_backward_rows(const Extent& extent, const Operand& a, const Operand& b,
                                       const float* dout, float* da, bool accumulate_a, float* db,
                                       bool accumulate_b) {
  const Operand g{dout, Shape::tensor, extent.cols};
  if (da != nullptr) {
    const auto value = [&](auto io, Index row, Index i) HWY_ATTR {
      return slope_a<op>(a.at(io, row, i), b.at(io, row, i), g.at(io, row, i));
    };
    reduce_to(a.shape, extent.rows, extent.cols, value, da, accumulate_a);
  }
  if (db != nullptr) {
    const auto value = [&](auto io, Index row, Index i) HWY_ATTR {
      return slope_b<op>(a.at(io, row, i), b.at(io, row, i), g.at(io, row, i));
    };
    reduce_to(b.shape, extent.rows, extent.cols, value, db, accumulate_b);
  }
}

void binary_all(Binary op, Index rows, Index cols, const float* a, Shape a_shape, const float* b,
                Shape b_shape, float* out) {
  const Extent extent(rows, cols);
  const Operand left{a, extent.of(a_shape), extent.cols};
  const Operand right{b, extent.of(b_shape), extent.cols};
  by_operation(op, [&]<Binary operation>() { binary_rows<operation>(extent, left, right, out); });
}

void binary_backward_all(Binary op, Index rows, Index cols, const float* a, Shape a_shape,
                         const float* b, Shape b_shape, const float* dout, float* da,
                         bool accumulate_a, float* db, bool accumulate_b) {
  const Extent extent(rows, cols);
  const Operand left{a, extent.of(a_shape), extent.cols};
  const Operand right{b, extent.of(b_shape), extent.cols};
  by_operation(op, [&]<Binary operation>() {
    binary_backward_rows<operation>(extent, left, right, dout, da, accumulate_a, db, accumulate_b);
  });
}

void dot_all(Index rows, Index cols, const float* a, Shape a_shape, const float* b, Shape b_shape,
             float* out) {
  const Operand left{a, a_shape, cols};
  const Operand right{b, b_shape, cols};
  const auto product = [&](auto io, Index row, Index i)
                           HWY_ATTR { return hn::Mul(left.at(io, row, i), right.at(io, row, i)); };
  reduce_to(Shape::column, rows, cols, product, out, false);
}

void dot_backward_all(Index rows, Index cols, const float* a, Shape a_shape, const float* b,
                      Shape b_shape, const float* dout, float* da, bool accumulate_a, float* db,
                      bool accumulate_b) {
  const Operand g{dout, Shape::column, cols};
  const auto spread = [&](const Operand& other, Shape shape, float* out, bool accumulate) HWY_ATTR {
    const auto value = [&](auto io, Index row, Index i)
                           HWY_ATTR { return hn::Mul(g.at(io, row, i), other.at(io, row, i)); };
    reduce_to(shape, rows, cols, value, out, accumulate);
  };
  if (da != nullptr) spread(Operand{b, b_shape, cols}, a_shape, da, accumulate_a);
  if (db != nullptr) spread(Operand{a, a_shape, cols}, b_shape, db, accumulate_b);
}

void rms_all(Index rows, Index cols, const float* a, float* out) {
  for (Index row = 0; row < rows; ++row) {
    const auto square = [&](auto io, Index, Index i) HWY_ATTR {
      const auto x = io.load(a + row * cols + i);
      return hn::Mul(x, x);
    };
    const double total = reduce_row(cols, square, row);
    out[row] = static_cast<float>(std::sqrt(total / static_cast<double>(cols)));
  }
}

void rms_backward_all(Index rows, Index cols, const float* a, const float* out, const float* dout,
                      float* da, bool accumulate) {
  for (Index row = 0; row < rows; ++row) {
    const float divisor = static_cast<float>(cols) * out[row];
    const auto factor = set(out[row] == 0 ? 0.0F : dout[row] / divisor);
    sweep(row * cols, (row + 1) * cols, [&](auto io, Index i) HWY_ATTR {
      put(io, hn::Mul(io.load(a + i), factor), da + i, accumulate);
    });
  }
}

void head_scale_all(Index rows, Index heads, Index head_dim, const float* a, const float* factors,
                    float* out, bool accumulate) {
  for (Index row = 0; row < rows; ++row) {
    for (Index head = 0; head < heads; ++head) {
      const auto factor = set(factors[head]);
      const Index start = (row * heads + head) * head_dim;
      sweep(start, start + head_dim, [&](auto io, Index i) HWY_ATTR {
        put(io, hn::Mul(io.load(a + i), factor), out + i, accumulate);
      });
    }
  }
}

void head_scale_sums(Index rows, Index heads, Index head_dim, const float* a, const float* dout,
                     float* sums) {
  for (Index head = 0; head < heads; ++head) {
    double total = 0;
    for (Index row = 0; row < rows; ++row) {
      const Index start = (row * heads + head) * head_dim;
      total += sum_of(sum_terms(head_dim, [&](auto io, Index i) HWY_ATTR {
        return hn::Mul(io.load(a + start + i), io.load(dout + start + i));
      }));
    }
    put_number(total, sums + head, true);
  }
}

}  // namespace addnorm::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace addnorm::kernels {

HWY_EXPORT(weighted_sum_all);
HWY_EXPORT(sum_two_all);
HWY_EXPORT(weighted_sum_backward_all);
HWY_EXPORT(binary_all);
HWY_EXPORT(binary_backward_all);
HWY_EXPORT(dot_all);
HWY_EXPORT(dot_backward_all);
HWY_EXPORT(rms_all);
HWY_EXPORT(rms_backward_all);
HWY_EXPORT(head_scale_all);
HWY_EXPORT(head_scale_sums);

void column_sums(Index rows, Index cols, const float* a, float* sums, bool accumulate) {
  weighted_sum_backward(rows, cols, 1, a, Shape::vector, sums, accumulate);
}

void weighted_sum(Index rows, Index cols, float constant, Index count, const Term* terms,
                  float* out) {
  if (count == 2 && terms[0].shape == Shape::tensor && terms[1].shape == Shape::tensor) {
    HWY_DYNAMIC_DISPATCH(sum_two_all)(rows * cols, constant, terms, out);
  } else {
    HWY_DYNAMIC_DISPATCH(weighted_sum_all)(rows, cols, constant, count, terms, out);
  }
}

void weighted_sum_backward(Index rows, Index cols, float weight, const float* dout, Shape shape,
                           float* da, bool accumulate) {
  HWY_DYNAMIC_DISPATCH(weighted_sum_backward_all)(rows, cols, weight, dout, shape, da, accumulate);
}

void binary(Binary op, Index rows, Index cols, const float* a, Shape a_shape, const float* b,
            Shape b_shape, float* out) {
  HWY_DYNAMIC_DISPATCH(binary_all)(op, rows, cols, a, a_shape, b, b_shape, out);
}

void binary_backward(Binary op, Index rows, Index cols, const float* a, Shape a_shape,
                     const float* b, Shape b_shape, const float* dout, float* da, bool accumulate_a,
                     float* db, bool accumulate_b) {
  HWY_DYNAMIC_DISPATCH(binary_backward_all)
  (op, rows, cols, a, a_shape, b, b_shape, dout, da, accumulate_a, db, accumulate_b);
}

void dot(Index rows, Index cols, const float* a, Shape a_shape, const float* b, Shape b_shape,
         float* out) {
  HWY_DYNAMIC_DISPATCH(dot_all)(rows, cols, a, a_shape, b, b_shape, out);
}

void dot_backward(Index rows, Index cols, const float* a, Shape a_shape, const float* b,
                  Shape b_shape, const float* dout, float* da, bool accumulate_a, float* db,
                  bool accumulate_b) {
  HWY_DYNAMIC_DISPATCH(dot_backward_all)
  (rows, cols, a, a_shape, b, b_shape, dout, da, accumulate_a, db, accumulate_b);
}

void rms(Index rows, Index cols, const float* a, float* out) {
  HWY_DYNAMIC_DISPATCH(rms_all)(rows, cols, a, out);
}

void rms_backward(Index rows, Index cols, const float* a, const float* out, const float* dout,
                  float* da, bool accumulate) {
  HWY_DYNAMIC_DISPATCH(rms_backward_all)(rows, cols, a, out, dout, da, accumulate);
}

void head_scale(Index rows, Index heads, Index head_dim, const float* a, const float* scale,
                float* out) {
  HWY_DYNAMIC_DISPATCH(head_scale_all)(rows, heads, head_dim, a, scale, out, false);
}

void head_scale_backward(Index rows, Index heads, Index head_dim, const float* a,
                         const float* scale, const float* dout, float* da, bool accumulate,
                         float* dscale) {
  if (dscale != nullptr) {
    HWY_DYNAMIC_DISPATCH(head_scale_sums)(rows, heads, head_dim, a, dout, dscale);
  }
  if (da != nullptr) {
    HWY_DYNAMIC_DISPATCH(head_scale_all)(rows, heads, head_dim, dout, scale, da, accumulate);
  }
}

}  // namespace addnorm::kernels
#endif
