// One pass over each parameter per update, and sums over whole buffers.
#include <cmath>

#include "addnorm/kernels/cpu/targets.h"
#include "addnorm/kernels/kernels.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "addnorm/kernels/cpu/optimizer.cpp"
#include "hwy/foreach_target.h"
// After foreach_target.h.
#include "addnorm/kernels/cpu/simd-inl.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace addnorm::kernels::HWY_NAMESPACE {

void adam_all(const AdamStep& step, Index count, float* w, float* g, float* m, float* v) {
  const auto gradient_scale = set(step.gradient_scale);
  const auto beta1 = set(step.beta1);
  const auto rest1 = set(1 - step.beta1);
  const auto beta2 = set(step.beta2);
  const auto rest2 = set(1 - step.beta2);
  const auto correction1 = set(step.correction1);
  const auto correction2 = set(step.correction2);
  const auto eps = set(step.eps);
  const auto rate = set(step.rate);
  const auto inside_decay = set(step.decoupled ? 0 : step.decay);
  const auto outside_decay = set(step.decoupled ? step.decay : 0);
  const bool clear = step.clear_gradient;
  sweep(0, count, [&](auto io, Index i) HWY_ATTR {
    const auto weight = io.load(w + i);
    const auto gradient = hn::MulAdd(weight, inside_decay, hn::Mul(io.load(g + i), gradient_scale));
    const auto first = hn::MulAdd(gradient, rest1, hn::Mul(io.load(m + i), beta1));
    const auto second =
        hn::MulAdd(hn::Mul(gradient, gradient), rest2, hn::Mul(io.load(v + i), beta2));
    const auto divisor = hn::Add(hn::Sqrt(hn::Mul(second, correction2)), eps);
    const auto move =
        hn::MulAdd(weight, outside_decay, hn::Div(hn::Mul(first, correction1), divisor));
    io.store(first, m + i);
    io.store(second, v + i);
    io.store(hn::NegMulAdd(rate, move, weight), w + i);
    if (clear) io.store(zero(), g + i);
  });
}

void sgd_all(const SgdStep& step, Index count, float* w, float* g, float* buffer) {
  const auto gradient_scale = set(step.gradient_scale);
  const auto momentum = set(step.momentum);
  const auto decay = set(step.decay);
  const auto rate = set(step.rate);
  const bool clear = step.clear_gradient;
  sweep(0, count, [&](auto io, Index i) HWY_ATTR {
    const auto weight = io.load(w + i);
    auto move = hn::MulAdd(weight, decay, hn::Mul(io.load(g + i), gradient_scale));
    if (buffer != nullptr) {
      move = hn::MulAdd(momentum, io.load(buffer + i), move);
      io.store(move, buffer + i);
    }
    io.store(hn::NegMulAdd(rate, move, weight), w + i);
    if (clear) io.store(zero(), g + i);
  });
}

double sum_squares_all(Index count, const float* a) {
  DoubleSum sum;
  sweep(0, count, [&](auto io, Index i) HWY_ATTR { sum.add_square(io.load(a + i)); });
  return sum.value();
}

double sum_values_all(Index count, const float* a) {
  DoubleSum sum;
  sweep(0, count, [&](auto io, Index i) HWY_ATTR { sum.add(io.load(a + i)); });
  return sum.value();
}

// x - x is 0 for finite x, else NaN.
bool all_finite(Index count, const float* a) {
  auto bad = zero();
  sweep(0, count, [&](auto io, Index i) HWY_ATTR {
    const auto x = io.load(a + i);
    bad = hn::Add(bad, hn::Sub(x, x));
  });
  return sum_of(bad) == 0;
}

void scale_all(Index count, float factor, float* a) {
  const auto by = set(factor);
  sweep(0, count, [&](auto io, Index i) HWY_ATTR { io.store(hn::Mul(io.load(a + i), by), a + i); });
}

void fill_all(Index count, float value, float* a) {
  const auto v = set(value);
  sweep(0, count, [&](auto io, Index i) HWY_ATTR { io.store(v, a + i); });
}

void sum_parts_all(Index count, Index number, const float* const* parts, float* out,
                   bool accumulate) {
  sweep(0, count, [&](auto io, Index i) HWY_ATTR {
    auto sum = accumulate ? io.load(out + i) : zero();
    for (Index part = 0; part < number; ++part) {
      const auto x = io.load(parts[part] + i);
      sum = part == 0 && !accumulate ? x : hn::Add(sum, x);
    }
    io.store(sum, out + i);
  });
}

}  // namespace addnorm::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace addnorm::kernels {

HWY_EXPORT(adam_all);
HWY_EXPORT(sgd_all);
HWY_EXPORT(sum_squares_all);
HWY_EXPORT(sum_values_all);
HWY_EXPORT(all_finite);
HWY_EXPORT(scale_all);
HWY_EXPORT(fill_all);
HWY_EXPORT(sum_parts_all);

void adam(const AdamStep& step, Index count, float* w, float* g, float* m, float* v) {
  HWY_DYNAMIC_DISPATCH(adam_all)(step, count, w, g, m, v);
}

void sgd(const SgdStep& step, Index count, float* w, float* g, float* buffer) {
  HWY_DYNAMIC_DISPATCH(sgd_all)(step, count, w, g, buffer);
}

double sum_squares(Index count, const float* a) {
  return HWY_DYNAMIC_DISPATCH(sum_squares_all)(count, a);
}

double sum_values(Index count, const float* a) {
  return HWY_DYNAMIC_DISPATCH(sum_values_all)(count, a);
}

Index first_nonfinite(Index count, const float* a) {
  constexpr Index kBlock = 4096;
  for (Index begin = 0; begin < count; begin += kBlock) {
    const Index size = count - begin < kBlock ? count - begin : kBlock;
    if (HWY_DYNAMIC_DISPATCH(all_finite)(size, a + begin)) continue;
    for (Index i = begin; i < begin + size; ++i) {
      if (!std::isfinite(a[i])) return i;
    }
  }
  return -1;
}

void scale(Index count, float factor, float* a) {
  HWY_DYNAMIC_DISPATCH(scale_all)(count, factor, a);
}

void fill(Index count, float value, float* a) { HWY_DYNAMIC_DISPATCH(fill_all)(count, value, a); }

void add(Index count, const float* a, float* out) {
  HWY_DYNAMIC_DISPATCH(sum_parts_all)(count, 1, &a, out, true);
}

void sum_parts(Index count, Index number, const float* const* parts, float* out, bool accumulate) {
  HWY_DYNAMIC_DISPATCH(sum_parts_all)(count, number, parts, out, accumulate);
}

}  // namespace addnorm::kernels
#endif
