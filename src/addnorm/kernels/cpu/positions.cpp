// Table look-ups by token and by position, and rotary turns.
#include <cmath>

#include "addnorm/base/error.h"
#include "addnorm/kernels/cpu/targets.h"
#include "addnorm/kernels/kernels.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "addnorm/kernels/cpu/positions.cpp"
#include "hwy/foreach_target.h"
// After foreach_target.h.
#include "addnorm/kernels/cpu/simd-inl.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace addnorm::kernels::HWY_NAMESPACE {

// to[width] (+)= factor * from[width]
HWY_INLINE void put_row(Index width, float factor, const float* from, float* to, bool accumulate) {
  const auto by = set(factor);
  sweep(0, width, [&](auto io, Index i) HWY_ATTR {
    put(io, hn::Mul(by, io.load(from + i)), to + i, accumulate);
  });
}

void gather_all(Index rows, Index width, const int32_t* ids, const float* table, float factor,
                float* out, bool accumulate) {
  for (Index row = 0; row < rows; ++row) {
    put_row(width, factor, table + ids[row] * width, out + row * width, accumulate);
  }
}

void scatter_all(Index rows, Index width, const int32_t* ids, const float* dout, float factor,
                 float* dtable) {
  for (Index row = 0; row < rows; ++row) {
    put_row(width, factor, dout + row * width, dtable + ids[row] * width, true);
  }
}

// One head: channels i and half + i turn together.
HWY_INLINE void turn_halves(Index half, const float* cos, const float* sin, Vector sign,
                            const float* x, float* out, bool accumulate) {
  sweep(0, half, [&](auto io, Index i) HWY_ATTR {
    const auto a = io.load(x + i);
    const auto b = io.load(x + half + i);
    const auto c = io.load(cos + i);
    const auto s = hn::Mul(io.load(sin + i), sign);
    put(io, hn::NegMulAdd(b, s, hn::Mul(a, c)), out + i, accumulate);
    put(io, hn::MulAdd(a, s, hn::Mul(b, c)), out + half + i, accumulate);
  });
}

// One head: channels 2i and 2i + 1 turn together.
HWY_INLINE void turn_pairs(Index half, const float* cos, const float* sin, float sign,
                           const float* x, float* out, bool accumulate) {
  for (Index i = 0; i < half; ++i) {
    const float a = x[2 * i];
    const float b = x[2 * i + 1];
    const float s = sin[i] * sign;
    const float first = a * cos[i] - b * s;
    const float second = b * cos[i] + a * s;
    out[2 * i] = accumulate ? out[2 * i] + first : first;
    out[2 * i + 1] = accumulate ? out[2 * i + 1] + second : second;
  }
}

void rotary_all(RotaryLayout layout, Index rows, Index heads, Index head_dim, Index rotary_dim,
                const int32_t* positions, const float* cos, const float* sin, bool inverse,
                const float* x, float* out, bool accumulate) {
  const Index half = rotary_dim / 2;
  const float sign = inverse ? -1.0F : 1.0F;
  for (Index row = 0; row < rows; ++row) {
    const float* c = cos + positions[row] * half;
    const float* s = sin + positions[row] * half;
    for (Index head = 0; head < heads; ++head) {
      const Index start = (row * heads + head) * head_dim;
      if (layout == RotaryLayout::half) {
        turn_halves(half, c, s, set(sign), x + start, out + start, accumulate);
      } else {
        turn_pairs(half, c, s, sign, x + start, out + start, accumulate);
      }
      put_row(head_dim - rotary_dim, 1, x + start + rotary_dim, out + start + rotary_dim,
              accumulate);
    }
  }
}

}  // namespace addnorm::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace addnorm::kernels {

HWY_EXPORT(gather_all);
HWY_EXPORT(scatter_all);
HWY_EXPORT(rotary_all);

void gather(Index rows, Index width, const int32_t* ids, const float* table, float scale,
            float* out, bool accumulate) {
  HWY_DYNAMIC_DISPATCH(gather_all)(rows, width, ids, table, scale, out, accumulate);
}

void scatter_add(Index rows, Index width, const int32_t* ids, const float* dout, float scale,
                 float* dtable) {
  HWY_DYNAMIC_DISPATCH(scatter_all)(rows, width, ids, dout, scale, dtable);
}

void rotary_table(Index positions, Index rotary_dim, double base, float* cos, float* sin) {
  const Index half = rotary_dim / 2;
  for (Index i = 0; i < half; ++i) {
    const double speed =
        std::pow(base, -2.0 * static_cast<double>(i) / static_cast<double>(rotary_dim));
    for (Index position = 0; position < positions; ++position) {
      const double angle = static_cast<double>(position) * speed;
      cos[position * half + i] = static_cast<float>(std::cos(angle));
      sin[position * half + i] = static_cast<float>(std::sin(angle));
    }
  }
}

void rotary(RotaryLayout layout, Index rows, Index heads, Index head_dim, Index rotary_dim,
            const int32_t* positions, const float* cos, const float* sin, bool inverse,
            const float* x, float* out, bool accumulate) {
  ADDNORM_ASSERT(rotary_dim % 2 == 0 && rotary_dim <= head_dim);
  HWY_DYNAMIC_DISPATCH(rotary_all)
  (layout, rows, heads, head_dim, rotary_dim, positions, cos, sin, inverse, x, out, accumulate);
}

void relative_buckets(Index span, Index buckets, Index distance, bool bidirectional,
                      int32_t* lookup) {
  // Raffel et al., JMLR 21 (2020), mesh-tensorflow's _relative_position_bucket: exact buckets for near
  // keys, logarithmic ones up to `distance`, in encoders half of them for keys after the query.
  const Index half = bidirectional ? buckets / 2 : buckets;
  const Index exact = half / 2;
  for (Index offset = -span; offset <= span; ++offset) {
    const Index back = bidirectional ? (offset < 0 ? -offset : offset) : (offset < 0 ? -offset : 0);
    Index bucket = back;
    if (back >= exact) {
      const double share = std::log(static_cast<double>(back) / static_cast<double>(exact)) /
                           std::log(static_cast<double>(distance) / static_cast<double>(exact));
      // Powers of two fall on whole numbers: rounding must not take them one down.
      bucket = exact + static_cast<Index>(share * static_cast<double>(half - exact) + 1e-9);
      if (bucket > half - 1) bucket = half - 1;
    }
    if (bidirectional && offset > 0) bucket += half;
    lookup[offset + span] = static_cast<int32_t>(bucket);
  }
}

}  // namespace addnorm::kernels
#endif
