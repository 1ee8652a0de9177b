// Elementwise functions alone, after a bias, and as a gate.
#include "addnorm/kernels/cpu/targets.h"
#include "addnorm/kernels/kernels.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "addnorm/kernels/cpu/unary.cpp"
#include "hwy/foreach_target.h"
// After foreach_target.h.
#include "addnorm/kernels/cpu/functions-inl.h"
#include "addnorm/kernels/cpu/simd-inl.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace addnorm::kernels::HWY_NAMESPACE {

template <Unary kind>
HWY_NOINLINE void apply(const Function& f, Index count, const float* a, float* out) {
  sweep(0, count,
        [&](auto io, Index i) HWY_ATTR { io.store(value_of<kind>(f, io.load(a + i)), out + i); });
}

template <Unary kind>
HWY_NOINLINE void apply_backward(const Function& f, Index count, const float* a, const float* dout,
                                 float* da, bool accumulate) {
  sweep(0, count, [&](auto io, Index i) HWY_ATTR {
    const auto slope = slope_of<kind>(f, io.load(a + i)).slope;
    put(io, hn::Mul(slope, io.load(dout + i)), da + i, accumulate);
  });
}

template <Unary kind>
HWY_NOINLINE void bias_then(const Function& f, Index rows, Index cols, const float* bias,
                            float* pre, float* h) {
  for (Index row = 0; row < rows; ++row) {
    const Index start = row * cols;
    sweep(0, cols, [&](auto io, Index i) HWY_ATTR {
      const auto x = hn::Add(io.load(pre + start + i), io.load(bias + i));
      io.store(x, pre + start + i);
      io.store(value_of<kind>(f, x), h + start + i);
    });
  }
}

template <Unary kind>
HWY_NOINLINE void gate(const Function& f, Index rows, Index cols, const float* gate_bias,
                       float* gate_pre, const float* in_bias, float* in, float* h) {
  for (Index row = 0; row < rows; ++row) {
    const Index start = row * cols;
    sweep(0, cols, [&](auto io, Index i) HWY_ATTR {
      auto g = io.load(gate_pre + start + i);
      auto x = io.load(in + start + i);
      if (gate_bias != nullptr) {
        g = hn::Add(g, io.load(gate_bias + i));
        io.store(g, gate_pre + start + i);
      }
      if (in_bias != nullptr) {
        x = hn::Add(x, io.load(in_bias + i));
        io.store(x, in + start + i);
      }
      io.store(hn::Mul(value_of<kind>(f, g), x), h + start + i);
    });
  }
}

template <Unary kind>
HWY_NOINLINE void gate_backward(const Function& f, Index count, const float* gate_pre,
                                const float* in, const float* dh, float* dgate, float* din) {
  sweep(0, count, [&](auto io, Index i) HWY_ATTR {
    const auto both = slope_of<kind>(f, io.load(gate_pre + i));
    const auto x = io.load(in + i);
    const auto g = io.load(dh + i);
    io.store(hn::Mul(hn::Mul(both.slope, x), g), dgate + i);
    io.store(hn::Mul(both.value, g), din + i);
  });
}

void unary_all(const Function& f, Index count, const float* a, float* out) {
  by_function(f.kind, [&]<Unary kind>() { apply<kind>(f, count, a, out); });
}

void unary_backward_all(const Function& f, Index count, const float* a, const float* dout,
                        float* da, bool accumulate) {
  by_function(f.kind,
              [&]<Unary kind>() { apply_backward<kind>(f, count, a, dout, da, accumulate); });
}

void bias_all(const Function& f, Index rows, Index cols, const float* bias, float* pre, float* h) {
  by_function(f.kind, [&]<Unary kind>() { bias_then<kind>(f, rows, cols, bias, pre, h); });
}

void gate_all(const Function& f, Index rows, Index cols, const float* gate_bias, float* gate_pre,
              const float* in_bias, float* in, float* h) {
  by_function(f.kind, [&]<Unary kind>() {
    gate<kind>(f, rows, cols, gate_bias, gate_pre, in_bias, in, h);
  });
}

void gate_backward_all(const Function& f, Index count, const float* gate_pre, const float* in,
                       const float* dh, float* dgate, float* din) {
  by_function(f.kind,
              [&]<Unary kind>() { gate_backward<kind>(f, count, gate_pre, in, dh, dgate, din); });
}

}  // namespace addnorm::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace addnorm::kernels {

HWY_EXPORT(unary_all);
HWY_EXPORT(unary_backward_all);
HWY_EXPORT(bias_all);
HWY_EXPORT(gate_all);
HWY_EXPORT(gate_backward_all);

void unary(const Function& f, Index count, const float* a, float* out) {
  HWY_DYNAMIC_DISPATCH(unary_all)(f, count, a, out);
}

void unary_backward(const Function& f, Index count, const float* a, const float* dout, float* da,
                    bool accumulate) {
  HWY_DYNAMIC_DISPATCH(unary_backward_all)(f, count, a, dout, da, accumulate);
}

void bias_activation(const Function& f, Index rows, Index cols, const float* bias, float* pre,
                     float* h) {
  if (bias == nullptr) {
    unary(f, rows * cols, pre, h);
  } else {
    HWY_DYNAMIC_DISPATCH(bias_all)(f, rows, cols, bias, pre, h);
  }
}

// The bias gradient is a second pass over a few rows at a time, while they are still in the cache.
void bias_activation_backward(const Function& f, Index rows, Index cols, const float* pre,
                              const float* dh, float* dpre, float* dbias) {
  if (dbias == nullptr) return unary_backward(f, rows * cols, pre, dh, dpre, false);
  constexpr Index kRows = 32;
  for (Index row = 0; row < rows; row += kRows) {
    const Index some = rows - row < kRows ? rows - row : kRows;
    const Index start = row * cols;
    unary_backward(f, some * cols, pre + start, dh + start, dpre + start, false);
    column_sums(some, cols, dpre + start, dbias, true);
  }
}

void gated_activation(const Function& f, Index rows, Index cols, const float* gate_bias,
                      float* gate, const float* in_bias, float* in, float* h) {
  HWY_DYNAMIC_DISPATCH(gate_all)(f, rows, cols, gate_bias, gate, in_bias, in, h);
}

void gated_activation_backward(const Function& f, Index rows, Index cols, const float* gate,
                               const float* in, const float* dh, float* dgate, float* din,
                               float* dgate_bias, float* din_bias) {
  constexpr Index kRows = 32;
  for (Index row = 0; row < rows; row += kRows) {
    const Index some = rows - row < kRows ? rows - row : kRows;
    const Index start = row * cols;
    HWY_DYNAMIC_DISPATCH(gate_backward_all)
    (f, some * cols, gate + start, in + start, dh + start, dgate + start, din + start);
    if (dgate_bias != nullptr) column_sums(some, cols, dgate + start, dgate_bias, true);
    if (din_bias != nullptr) column_sums(some, cols, din + start, din_bias, true);
  }
}

}  // namespace addnorm::kernels
#endif
