// What all vector kernels share, compiled once per instruction set: sweeps with a partial last
// vector, broadcasts, reductions, and exp, tanh, erf of a few units in the last place. Polynomials are
// weighted minimax fits made for these intervals. NaN flows through every function.
#if defined(ADDNORM_KERNELS_SIMD_INL) == defined(HWY_TARGET_TOGGLE)
#ifdef ADDNORM_KERNELS_SIMD_INL
#undef ADDNORM_KERNELS_SIMD_INL
#else
#define ADDNORM_KERNELS_SIMD_INL
#endif

#include <cstddef>
#include <cstdint>

#include "addnorm/kernels/kernels.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace addnorm::kernels::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using Floats = hn::ScalableTag<float>;
using Vector = hn::Vec<Floats>;

HWY_INLINE Index lanes() { return static_cast<Index>(hn::Lanes(Floats())); }
HWY_INLINE Vector set(float value) { return hn::Set(Floats(), value); }
HWY_INLINE Vector zero() { return hn::Zero(Floats()); }

// A whole vector of memory.
struct Whole {
  HWY_INLINE Vector load(const float* p) const { return hn::LoadU(Floats(), p); }
  HWY_INLINE void store(Vector v, float* p) const { hn::StoreU(v, Floats(), p); }
  HWY_INLINE Vector keep(Vector v) const { return v; }
  HWY_INLINE Vector keep_or(Vector v, Vector) const { return v; }
};

// The first `count` numbers of a vector; the others read as 0, are not written and not touched.
struct Part {
  size_t count;
  HWY_INLINE Vector load(const float* p) const {
#if HWY_MEM_OPS_MIGHT_FAULT
    HWY_ALIGN float buffer[hn::MaxLanes(Floats())] = {};
    for (size_t i = 0; i < count; ++i) buffer[i] = p[i];
    return hn::Load(Floats(), buffer);
#else
    return hn::MaskedLoad(hn::FirstN(Floats(), count), Floats(), p);
#endif
  }
  HWY_INLINE void store(Vector v, float* p) const {
#if HWY_MEM_OPS_MIGHT_FAULT
    HWY_ALIGN float buffer[hn::MaxLanes(Floats())];
    hn::Store(v, Floats(), buffer);
    for (size_t i = 0; i < count; ++i) p[i] = buffer[i];
#else
    hn::BlendedStore(v, hn::FirstN(Floats(), count), Floats(), p);
#endif
  }
  HWY_INLINE Vector keep(Vector v) const {
    return hn::IfThenElseZero(hn::FirstN(Floats(), count), v);
  }
  HWY_INLINE Vector keep_or(Vector v, Vector other) const {
    return hn::IfThenElse(hn::FirstN(Floats(), count), v, other);
  }
};

// step(io, i) for i = begin, begin + lanes, ... < end; io is a Whole, at the end perhaps a Part.
template <class Step>
HWY_INLINE void sweep(Index begin, Index end, Step step) {
  const Index width = lanes();
  Index i = begin;
  for (; i + width <= end; i += width) step(Whole{}, i);
  if (i < end) step(Part{static_cast<size_t>(end - i)}, i);
}

// The lane-wise sum of term(io, i) over all vectors of 0..count-1. Terms must be 0 in the lanes that a
// Part does not hold, which they are for products with something loaded. Four chains at once.
template <class Each>
HWY_INLINE Vector sum_terms(Index count, Each term) {
  const Index width = lanes();
  auto sum0 = zero();
  auto sum1 = zero();
  auto sum2 = zero();
  auto sum3 = zero();
  Index i = 0;
  for (; i + 4 * width <= count; i += 4 * width) {
    sum0 = hn::Add(sum0, term(Whole{}, i));
    sum1 = hn::Add(sum1, term(Whole{}, i + width));
    sum2 = hn::Add(sum2, term(Whole{}, i + 2 * width));
    sum3 = hn::Add(sum3, term(Whole{}, i + 3 * width));
  }
  for (; i + width <= count; i += width) sum0 = hn::Add(sum0, term(Whole{}, i));
  if (i < count) sum1 = hn::Add(sum1, term(Part{static_cast<size_t>(count - i)}, i));
  return hn::Add(hn::Add(sum0, sum1), hn::Add(sum2, sum3));
}

HWY_INLINE float sum_of(Vector v) { return hn::GetLane(hn::SumOfLanes(Floats(), v)); }
HWY_INLINE float max_of(Vector v) { return hn::GetLane(hn::MaxOfLanes(Floats(), v)); }

// Writes or adds.
template <class Io>
HWY_INLINE void put(Io io, Vector v, float* p, bool accumulate) {
  io.store(accumulate ? hn::Add(io.load(p), v) : v, p);
}

// A running sum in double of float vectors.
class DoubleSum {
 public:
  // Spelt out: what the compiler generates by itself is not compiled for the instruction set.
#if HWY_TARGET == HWY_SCALAR
  HWY_INLINE void add(Vector v) { sum_ += hn::GetLane(v); }
  HWY_INLINE void add_square(Vector v) { sum_ += double{hn::GetLane(v)} * hn::GetLane(v); }
  HWY_INLINE double value() const { return sum_; }

 private:
  double sum_ = 0;
#else
  HWY_INLINE DoubleSum() : low_(hn::Zero(Doubles())), high_(hn::Zero(Doubles())) {}
  HWY_INLINE void add(Vector v) {
    low_ = hn::Add(low_, low(v));
    high_ = hn::Add(high_, high(v));
  }
  HWY_INLINE void add_square(Vector v) {
    const auto a = low(v);
    const auto b = high(v);
    low_ = hn::MulAdd(a, a, low_);
    high_ = hn::MulAdd(b, b, high_);
  }
  HWY_INLINE double value() const {
    return hn::GetLane(hn::SumOfLanes(Doubles(), hn::Add(low_, high_)));
  }

 private:
  using Doubles = hn::ScalableTag<double>;
  using Half = hn::Rebind<float, Doubles>;
  static HWY_INLINE hn::Vec<Doubles> low(Vector v) {
    return hn::PromoteTo(Doubles(), hn::LowerHalf(Half(), v));
  }
  static HWY_INLINE hn::Vec<Doubles> high(Vector v) {
    return hn::PromoteTo(Doubles(), hn::UpperHalf(Half(), v));
  }
  hn::Vec<Doubles> low_;
  hn::Vec<Doubles> high_;
#endif
};

HWY_INLINE Vector nan_of(Vector x, Vector result) {
  return hn::IfThenElse(hn::IsNaN(x), x, result);
}

// 2^n e^f from n = round(x log2 e), for arguments whose result is a normal number.
HWY_INLINE Vector exp_in_range(Vector x) {
  const Floats d;
  const hn::RebindToSigned<Floats> di;
  const auto n = hn::Round(hn::Mul(x, set(1.44269504F)));
  // ln 2 in two pieces, the first with 9 trailing zero bits: n times it is exact.
  auto f = hn::NegMulAdd(n, set(0.693359375F), x);
  f = hn::NegMulAdd(n, set(-2.12194440e-4F), f);
  auto p = hn::MulAdd(f, set(0.001381505027F), set(0.008368766277F));
  p = hn::MulAdd(p, f, set(0.04166838347F));
  p = hn::MulAdd(p, f, set(0.1666652025F));
  p = hn::MulAdd(p, f, set(0.4999999346F));
  p = hn::MulAdd(hn::Mul(f, f), p, hn::Add(f, set(1)));
  const auto exponent = hn::ShiftLeft<23>(hn::ConvertTo(di, n));
  // The exponent of a NaN is arbitrary.
  return nan_of(x, hn::BitCast(d, hn::Add(hn::BitCast(di, p), exponent)));
}

inline constexpr float kExpLowest = -87.33654F;  // e^x is the smallest normal number
inline constexpr float kExpHighest = 88.72283F;  // e^x is the largest number

// x within bounds; a NaN stays one.
HWY_INLINE Vector at_least(float bound, Vector x) {
#if HWY_TARGET == HWY_SCALAR
  return hn::IfThenElse(hn::Lt(x, set(bound)), set(bound), x);
#else
  return hn::Max(set(bound), x);  // x86 gives the second operand, Arm the NaN
#endif
}
HWY_INLINE Vector at_most(float bound, Vector x) {
#if HWY_TARGET == HWY_SCALAR
  return hn::IfThenElse(hn::Gt(x, set(bound)), set(bound), x);
#else
  return hn::Min(set(bound), x);
#endif
}

// e^x; results below the normal range are 0.
HWY_INLINE Vector exp(Vector x) {
  auto y = exp_in_range(at_most(kExpHighest, at_least(kExpLowest, x)));
  y = hn::IfThenZeroElse(hn::Lt(x, set(kExpLowest)), y);
  return hn::IfThenElse(hn::Gt(x, set(kExpHighest)), hn::Inf(Floats()), y);
}

// e^x for x <= 0, -inf included.
HWY_INLINE Vector exp_nonpositive(Vector x) {
  return hn::IfThenZeroElse(hn::Lt(x, set(kExpLowest)), exp_in_range(at_least(kExpLowest, x)));
}

HWY_INLINE Vector sigmoid(Vector x) { return hn::Div(set(1), hn::Add(set(1), exp(hn::Neg(x)))); }

HWY_INLINE Vector tanh(Vector x) {
  const auto t = hn::Abs(x);
  const auto s = hn::Mul(x, x);
  auto p = hn::MulAdd(s, set(-0.005708213686F), set(0.02064198435F));
  p = hn::MulAdd(p, s, set(-0.05374058417F));
  p = hn::MulAdd(p, s, set(0.1333145188F));
  p = hn::MulAdd(p, s, set(-0.3333328224F));
  const auto near = hn::MulAdd(hn::Mul(p, s), x, x);
  // 1 - tanh(20) is far below the precision.
  const auto e = exp_in_range(at_most(40, hn::Add(t, t)));
  const auto far = hn::Sub(set(1), hn::Div(set(2), hn::Add(e, set(1))));
  return hn::IfThenElse(hn::Lt(t, set(0.625F)), near, hn::CopySign(far, x));
}

// erf(x) for |x| < 15/16.
HWY_INLINE Vector erf_near(Vector x) {
  const auto s = hn::Mul(x, x);
  auto p = hn::MulAdd(s, set(-0.0005921001344F), set(0.004979468214F));
  p = hn::MulAdd(p, s, set(-0.02675728772F));
  p = hn::MulAdd(p, s, set(0.1128156034F));
  p = hn::MulAdd(p, s, set(-0.3761246955F));
  p = hn::MulAdd(p, s, set(0.128379146F));
  return hn::MulAdd(p, x, x);
}

// erfc(t) for t >= 15/16, relative error below 1e-6 up to t = 4.
HWY_INLINE Vector erfc_far(Vector t) {
  t = at_most(9, t);
  auto p = hn::MulAdd(t, set(-1.539122398e-5F), set(0.0003620004305F));
  p = hn::MulAdd(p, t, set(-0.003792742399F));
  p = hn::MulAdd(p, t, set(0.02406239261F));
  p = hn::MulAdd(p, t, set(-0.1065670986F));
  p = hn::MulAdd(p, t, set(-0.6349617238F));
  // 1.1286929 = 1 + 0.1286929: the large part is exact.
  p = hn::MulAdd(p, t, set(-0.128692942F));
  return exp_nonpositive(hn::MulSub(p, t, t));
}

HWY_INLINE Vector erf(Vector x) {
  const auto t = hn::Abs(x);
  const auto far = hn::CopySign(hn::Sub(set(1), erfc_far(t)), x);
  return hn::IfThenElse(hn::Lt(t, set(0.9375F)), erf_near(x), far);
}

// The normal distribution function and density. For t >= 0, Phi(-t) = e^(-t²/2) P(u) with a polynomial
// in u = 1/(1 + 0.3t): no cancellation for negative arguments, and one exponential for both.
struct Normal {
  Vector distribution;
  Vector density;
};

HWY_INLINE Normal normal(Vector x) {
  const auto e = exp_nonpositive(hn::Mul(hn::Mul(x, x), set(-0.5F)));
  const auto u = hn::Div(set(1), hn::MulAdd(hn::Abs(x), set(0.3F), set(1)));
  auto p = hn::MulAdd(u, set(0.03580197019F), set(-0.1571636833F));
  p = hn::MulAdd(p, u, set(0.2051691233F));
  p = hn::MulAdd(p, u, set(-0.05143420481F));
  p = hn::MulAdd(p, u, set(0.1266936706F));
  p = hn::MulAdd(p, u, set(0.1006983762F));
  p = hn::MulAdd(p, u, set(0.1205930426F));
  p = hn::MulAdd(p, u, set(0.1196419169F));
  const auto tail = hn::Mul(hn::Mul(p, u), e);
  const auto below = hn::IfThenElse(hn::Lt(x, zero()), tail, hn::Sub(set(1), tail));
  return {below, hn::Mul(e, set(0.39894228F))};
}

}  // namespace addnorm::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif
