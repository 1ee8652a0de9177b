// Norms and add + norm: each row is read once from memory and stays in the first cache.
#include <algorithm>
#include <cmath>

#include "addnorm/base/error.h"
#include "addnorm/kernels/cpu/targets.h"
#include "addnorm/kernels/kernels.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "addnorm/kernels/cpu/norm.cpp"
#include "hwy/foreach_target.h"
// After foreach_target.h.
#include "addnorm/kernels/cpu/simd-inl.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace addnorm::kernels::HWY_NAMESPACE {

constexpr bool is_pointwise(NormKind kind) {
  return kind == NormKind::dyt || kind == NormKind::derf;
}
constexpr bool is_clamped(NormKind kind) {
  return kind == NormKind::scalenorm || kind == NormKind::l2norm;
}

// The single numbers of a norm, resolved.
struct Numbers {
  float offset = 0;  // added to the stored gain
  float length = 1;  // g of scalenorm
  float alpha = 1;
  float shift = 0;

  explicit Numbers(const NormSpec& spec) {
    offset = spec.unit_offset ? 1.0F : 0.0F;
    if (spec.kind == NormKind::scalenorm) {
      length = spec.gain != nullptr ? spec.gain[0] + offset
                                    : static_cast<float>(std::sqrt(static_cast<double>(spec.n)));
    }
    if (spec.alpha != nullptr) alpha = spec.alpha[0];
    if (spec.shift != nullptr) shift = spec.shift[0];
  }
};

struct Statistics {
  float center = 0;  // layernorm: the mean; clamped kinds: 1, or 0 below the clamp
  float factor = 1;  // what the (centred) row is multiplied by
};

// A row that is zero everywhere and has no eps is normalized to zero.
HWY_INLINE float inverse_or_zero(float length) { return length == 0 ? 0 : 1 / length; }

template <NormKind kind>
HWY_INLINE Statistics statistics_of(const NormSpec& spec, const float* row) {
  const Index n = spec.n;
  const auto size = static_cast<float>(n);
  Statistics result;
  if constexpr (kind == NormKind::layernorm) {
    const auto total = sum_terms(n, [&](auto io, Index i) HWY_ATTR { return io.load(row + i); });
    result.center = sum_of(total) / size;
    const auto mean = set(result.center);
    // The deviation of an empty lane is not 0: keep() makes it so.
    const auto squares = sum_terms(n, [&](auto io, Index i) HWY_ATTR {
      const auto deviation = io.keep(hn::Sub(io.load(row + i), mean));
      return hn::Mul(deviation, deviation);
    });
    result.factor = inverse_or_zero(std::sqrt(sum_of(squares) / size + spec.eps));
  } else if constexpr (!is_pointwise(kind)) {
    const auto squares = sum_terms(n, [&](auto io, Index i) HWY_ATTR {
      const auto x = io.load(row + i);
      return hn::Mul(x, x);
    });
    if constexpr (kind == NormKind::rmsnorm) {
      result.factor = inverse_or_zero(std::sqrt(sum_of(squares) / size + spec.eps));
    } else {
      const float length = std::sqrt(sum_of(squares));
      const bool clamped = length < spec.eps || length == 0;
      result.center = clamped ? 0.0F : 1.0F;
      result.factor = inverse_or_zero(clamped ? spec.eps : length);
    }
  }
  return result;
}

template <class Io>
HWY_INLINE Vector gain_at(Io io, const NormSpec& spec, float offset, Index i) {
  return spec.gain == nullptr ? set(1) : hn::Add(io.load(spec.gain + i), set(offset));
}

template <NormKind kind>
HWY_INLINE void output_row(const NormSpec& spec, const Numbers& numbers,
                           const Statistics& statistics, const float* row, float* out) {
  const auto factor = set(statistics.factor * (is_clamped(kind) ? numbers.length : 1.0F));
  const auto center = set(kind == NormKind::layernorm ? statistics.center : 0.0F);
  const auto alpha = set(numbers.alpha);
  const auto shift = set(numbers.shift);
  sweep(0, spec.n, [&](auto io, Index i) HWY_ATTR {
    const auto x = io.load(row + i);
    if constexpr (is_clamped(kind)) {
      io.store(hn::Mul(x, factor), out + i);
    } else {
      Vector y;
      if constexpr (kind == NormKind::layernorm) {
        y = hn::Mul(hn::Sub(x, center), factor);
      } else if constexpr (kind == NormKind::rmsnorm) {
        y = hn::Mul(x, factor);
      } else if constexpr (kind == NormKind::dyt) {
        y = tanh(hn::Mul(x, alpha));
      } else {
        y = erf(hn::MulAdd(x, alpha, shift));
      }
      if (spec.gain != nullptr) y = hn::Mul(y, gain_at(io, spec, numbers.offset, i));
      if (spec.bias != nullptr) y = hn::Add(y, io.load(spec.bias + i));
      io.store(y, out + i);
    }
  });
}

template <NormKind kind>
HWY_INLINE void norm_row(const NormSpec& spec, const Numbers& numbers, const float* row, float* out,
                         float* stats) {
  const Statistics statistics = statistics_of<kind>(spec, row);
  output_row<kind>(spec, numbers, statistics, row, out);
  if (stats != nullptr) {
    stats[0] = statistics.center;
    stats[1] = statistics.factor;
  }
}

template <NormKind kind>
HWY_NOINLINE void norm_rows(const NormSpec& spec, Index rows, const float* a, float* out,
                            float* stats) {
  const Numbers numbers(spec);
  for (Index row = 0; row < rows; ++row) {
    norm_row<kind>(spec, numbers, a + row * spec.n, out + row * spec.n,
                   stats == nullptr ? nullptr : stats + 2 * row);
  }
}

template <NormKind kind>
HWY_NOINLINE void add_norm_rows(const NormSpec& spec, Index rows, float ca, const float* a,
                                float cb, const float* b, float* sum, float* out, float* stats) {
  const Numbers numbers(spec);
  const auto factor_a = set(ca);
  const auto factor_b = set(cb);
  for (Index row = 0; row < rows; ++row) {
    const Index start = row * spec.n;
    sweep(start, start + spec.n, [&](auto io, Index i) HWY_ATTR {
      io.store(hn::MulAdd(factor_a, io.load(a + i), hn::Mul(factor_b, io.load(b + i))), sum + i);
    });
    norm_row<kind>(spec, numbers, sum + start, out + start,
                   stats == nullptr ? nullptr : stats + 2 * row);
  }
}

// Gradients of per-channel parameters over the rows of one call: summed in a near buffer for some rows,
// then added to the far ones, so that long sums lose little.
class ChannelSums {
 public:
  ChannelSums(Index n, const NormGradients& gradients) : n_(n), far_(gradients) {
    near_fits_ = n <= kWidth;
    gain = far_.gain == nullptr || !near_fits_ ? far_.gain : near_gain_;
    bias = far_.bias == nullptr || !near_fits_ ? far_.bias : near_bias_;
    if (near_fits_) clear();
  }
  void end_row() {
    if (++rows_ % kRows == 0) flush();
  }
  void flush() {
    if (!near_fits_) return;
    if (far_.gain != nullptr) add(n_, near_gain_, far_.gain);
    if (far_.bias != nullptr) add(n_, near_bias_, far_.bias);
    clear();
  }

  float* gain = nullptr;  // where to add the next row; null: not wanted
  float* bias = nullptr;

 private:
  static constexpr Index kWidth = 2048;
  static constexpr Index kRows = 32;

  void clear() {
    if (far_.gain != nullptr) std::fill_n(near_gain_, n_, 0.0F);
    if (far_.bias != nullptr) std::fill_n(near_bias_, n_, 0.0F);
  }

  Index n_;
  NormGradients far_;
  bool near_fits_ = false;
  Index rows_ = 0;
  float near_gain_[kWidth];
  float near_bias_[kWidth];
};

// Calls sink(io, i, ds) with the gradient by the row's elements and adds to the parameters' sums.
template <NormKind kind, class Sink>
HWY_INLINE void backward_rows(const NormSpec& spec, Index rows, const float* a, const float* stats,
                              const float* dout, const NormGradients& gradients, Sink sink) {
  const Numbers numbers(spec);
  const Index n = spec.n;
  const bool channel_parameters = !is_clamped(kind);
  ChannelSums sums(n, channel_parameters ? gradients : NormGradients());
  double total_gain = 0;  // scalenorm
  double total_alpha = 0;
  double total_shift = 0;
  for (Index row = 0; row < rows; ++row) {
    const float* x = a + row * n;
    const float* dy = dout + row * n;
    const Index start = row * n;
    if constexpr (is_clamped(kind)) {
      const auto inverse = set(stats[2 * row + 1]);
      const auto along = sum_terms(n, [&](auto io, Index i) HWY_ATTR {
        return hn::Mul(hn::Mul(io.load(x + i), inverse), io.load(dy + i));
      });
      const float projection = sum_of(along);
      if (kind == NormKind::scalenorm) total_gain += projection;
      const auto factor = set(stats[2 * row + 1] * numbers.length);
      const auto back = hn::Mul(inverse, set(stats[2 * row] * projection));
      sweep(0, n, [&](auto io, Index i) HWY_ATTR {
        const auto ds = hn::Mul(factor, hn::NegMulAdd(io.load(x + i), back, io.load(dy + i)));
        sink(io, start + i, ds);
      });
    } else if constexpr (!is_pointwise(kind)) {
      const auto center = set(stats[2 * row]);
      const auto factor = set(stats[2 * row + 1]);
      const auto normal = [&](auto io, Index i) HWY_ATTR {
        const auto value = io.load(x + i);
        return kind == NormKind::layernorm ? hn::Mul(hn::Sub(value, center), factor)
                                           : hn::Mul(value, factor);
      };
      const auto weighted = [&](auto io, Index i) HWY_ATTR {
        const auto g = io.load(dy + i);
        return spec.gain == nullptr ? g : hn::Mul(g, gain_at(io, spec, numbers.offset, i));
      };
      auto mean = zero();
      if constexpr (kind == NormKind::layernorm) {
        mean = set(sum_of(sum_terms(n, weighted)) / static_cast<float>(n));
      }
      const auto along = sum_terms(
          n, [&](auto io, Index i) HWY_ATTR { return hn::Mul(weighted(io, i), normal(io, i)); });
      const auto projection = set(sum_of(along) / static_cast<float>(n));
      sweep(0, n, [&](auto io, Index i) HWY_ATTR {
        const auto y = normal(io, i);
        const auto g = io.load(dy + i);
        auto ds = hn::NegMulAdd(y, projection, weighted(io, i));
        if constexpr (kind == NormKind::layernorm) ds = hn::Sub(ds, mean);
        if (sums.gain != nullptr) {
          io.store(hn::MulAdd(g, y, io.load(sums.gain + i)), sums.gain + i);
        }
        if (sums.bias != nullptr) io.store(hn::Add(g, io.load(sums.bias + i)), sums.bias + i);
        sink(io, start + i, hn::Mul(ds, factor));
      });
    } else {
      const auto alpha = set(numbers.alpha);
      const auto shift = set(numbers.shift);
      auto sum_alpha = zero();
      auto sum_shift = zero();
      sweep(0, n, [&](auto io, Index i) HWY_ATTR {
        const auto value = io.load(x + i);
        const auto g = io.load(dy + i);
        Vector y;
        Vector slope;
        if constexpr (kind == NormKind::dyt) {
          y = tanh(hn::Mul(value, alpha));
          slope = hn::NegMulAdd(y, y, set(1));
        } else {
          const auto z = hn::MulAdd(value, alpha, shift);
          y = erf(z);
          slope = hn::Mul(exp_nonpositive(hn::Neg(hn::Mul(z, z))), set(1.12837917F));
        }
        const auto dz = hn::Mul(hn::Mul(g, gain_at(io, spec, numbers.offset, i)), slope);
        sum_alpha = hn::MulAdd(dz, value, sum_alpha);
        sum_shift = hn::Add(dz, sum_shift);
        if (sums.gain != nullptr) {
          io.store(hn::MulAdd(g, y, io.load(sums.gain + i)), sums.gain + i);
        }
        if (sums.bias != nullptr) io.store(hn::Add(g, io.load(sums.bias + i)), sums.bias + i);
        sink(io, start + i, hn::Mul(dz, alpha));
      });
      total_alpha += sum_of(sum_alpha);
      total_shift += sum_of(sum_shift);
    }
    if constexpr (!is_clamped(kind)) sums.end_row();
  }
  if constexpr (!is_clamped(kind)) sums.flush();
  if (kind == NormKind::scalenorm && gradients.gain != nullptr) {
    gradients.gain[0] += static_cast<float>(total_gain);
  }
  if constexpr (is_pointwise(kind)) {
    if (gradients.alpha != nullptr) gradients.alpha[0] += static_cast<float>(total_alpha);
    if (gradients.shift != nullptr) gradients.shift[0] += static_cast<float>(total_shift);
  }
}

template <NormKind kind>
HWY_NOINLINE void norm_backward_rows(const NormSpec& spec, Index rows, const float* a,
                                     const float* stats, const float* dout, float* da,
                                     bool accumulate, const NormGradients& gradients) {
  backward_rows<kind>(spec, rows, a, stats, dout, gradients,
                      [&](auto io, Index i, Vector ds)
                          HWY_ATTR { put(io, ds, da + i, accumulate); });
}

template <NormKind kind>
HWY_NOINLINE void add_norm_backward_rows(const NormSpec& spec, Index rows, const float* sum,
                                         const float* stats, const float* dout,
                                         const float* dsum_in, const AddNormOutputs& outputs,
                                         const NormGradients& gradients) {
  const auto ca = set(outputs.ca);
  const auto cb = set(outputs.cb);
  backward_rows<kind>(spec, rows, sum, stats, dout, gradients,
                      [&](auto io, Index i, Vector ds) HWY_ATTR {
                        if (dsum_in != nullptr) ds = hn::Add(ds, io.load(dsum_in + i));
                        if (outputs.dsum_out != nullptr) io.store(ds, outputs.dsum_out + i);
                        if (outputs.da != nullptr) {
                          put(io, hn::Mul(ca, ds), outputs.da + i, outputs.accumulate_a);
                        }
                        if (outputs.db != nullptr) {
                          put(io, hn::Mul(cb, ds), outputs.db + i, outputs.accumulate_b);
                        }
                      });
}

// Turns the kind of a specification into a template argument.
template <class Call>
HWY_INLINE void by_kind(NormKind kind, Call call) {
  switch (kind) {
    case NormKind::layernorm:
      return call.template operator()<NormKind::layernorm>();
    case NormKind::rmsnorm:
      return call.template operator()<NormKind::rmsnorm>();
    case NormKind::scalenorm:
      return call.template operator()<NormKind::scalenorm>();
    case NormKind::l2norm:
      return call.template operator()<NormKind::l2norm>();
    case NormKind::dyt:
      return call.template operator()<NormKind::dyt>();
    case NormKind::derf:
      return call.template operator()<NormKind::derf>();
  }
}

void norm_all(const NormSpec& spec, Index rows, const float* a, float* out, float* stats) {
  by_kind(spec.kind, [&]<NormKind kind>() { norm_rows<kind>(spec, rows, a, out, stats); });
}

void norm_backward_all(const NormSpec& spec, Index rows, const float* a, const float* stats,
                       const float* dout, float* da, bool accumulate,
                       const NormGradients& gradients) {
  by_kind(spec.kind, [&]<NormKind kind>() {
    norm_backward_rows<kind>(spec, rows, a, stats, dout, da, accumulate, gradients);
  });
}

void add_norm_all(const NormSpec& spec, Index rows, float ca, const float* a, float cb,
                  const float* b, float* sum, float* out, float* stats) {
  by_kind(spec.kind,
          [&]<NormKind kind>() { add_norm_rows<kind>(spec, rows, ca, a, cb, b, sum, out, stats); });
}

void add_norm_backward_all(const NormSpec& spec, Index rows, const float* sum, const float* stats,
                           const float* dout, const float* dsum_in, const AddNormOutputs& outputs,
                           const NormGradients& gradients) {
  by_kind(spec.kind, [&]<NormKind kind>() {
    add_norm_backward_rows<kind>(spec, rows, sum, stats, dout, dsum_in, outputs, gradients);
  });
}

}  // namespace addnorm::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace addnorm::kernels {
namespace {

// l2norm knows no parameters at all.
NormSpec checked(NormSpec spec) {
  if (spec.kind == NormKind::l2norm) {
    spec.gain = nullptr;
    spec.unit_offset = false;
  }
  const bool pointwise = spec.kind == NormKind::dyt || spec.kind == NormKind::derf;
  ADDNORM_ASSERT(!pointwise || spec.alpha != nullptr);
  return spec;
}

}  // namespace

HWY_EXPORT(norm_all);
HWY_EXPORT(norm_backward_all);
HWY_EXPORT(add_norm_all);
HWY_EXPORT(add_norm_backward_all);

void norm(const NormSpec& spec, Index rows, const float* a, float* out, float* stats) {
  HWY_DYNAMIC_DISPATCH(norm_all)(checked(spec), rows, a, out, stats);
}

void norm_backward(const NormSpec& spec, Index rows, const float* a, const float* stats,
                   const float* dout, float* da, bool accumulate, const NormGradients& gradients) {
  HWY_DYNAMIC_DISPATCH(norm_backward_all)
  (checked(spec), rows, a, stats, dout, da, accumulate, gradients);
}

void add_norm(const NormSpec& spec, Index rows, float ca, const float* a, float cb, const float* b,
              float* sum, float* out, float* stats) {
  HWY_DYNAMIC_DISPATCH(add_norm_all)(checked(spec), rows, ca, a, cb, b, sum, out, stats);
}

void add_norm_backward(const NormSpec& spec, Index rows, const float* sum, const float* stats,
                       const float* dout, const float* dsum_in, const AddNormOutputs& outputs,
                       const NormGradients& gradients) {
  HWY_DYNAMIC_DISPATCH(add_norm_backward_all)
  (checked(spec), rows, sum, stats, dout, dsum_in, outputs, gradients);
}

}  // namespace addnorm::kernels
#endif
