// The elementwise functions and their derivatives as vector code, one per instruction set.
#if defined(ADDNORM_KERNELS_FUNCTIONS_INL) == defined(HWY_TARGET_TOGGLE)
#ifdef ADDNORM_KERNELS_FUNCTIONS_INL
#undef ADDNORM_KERNELS_FUNCTIONS_INL
#else
#define ADDNORM_KERNELS_FUNCTIONS_INL
#endif

#include <cmath>

#include "addnorm/kernels/cpu/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace addnorm::kernels::HWY_NAMESPACE {

// Applies a scalar function to each lane: for functions too rare to deserve vector code.
template <class Each>
HWY_INLINE Vector lane_by_lane(Vector x, Each each) {
  HWY_ALIGN float buffer[hn::MaxLanes(Floats())];
  hn::Store(x, Floats(), buffer);
  for (Index i = 0; i < lanes(); ++i) buffer[i] = each(buffer[i]);
  return hn::Load(Floats(), buffer);
}

// max(x, 0) that keeps NaN.
HWY_INLINE Vector relu(Vector x) { return hn::IfThenZeroElse(hn::Lt(x, zero()), x); }

// Inner argument of gelu_tanh, sqrt(2/pi) (x + 0.044715 x³), and its derivative.
HWY_INLINE Vector gelu_inner(Vector x) {
  const auto square = hn::Mul(x, x);
  return hn::Mul(hn::Mul(x, set(0.79788456F)), hn::MulAdd(square, set(0.044715F), set(1)));
}
HWY_INLINE Vector gelu_inner_slope(Vector x) {
  return hn::Mul(set(0.79788456F), hn::MulAdd(hn::Mul(x, x), set(3 * 0.044715F), set(1)));
}

template <Unary kind>
HWY_INLINE Vector value_of(const Function& f, Vector x) {
  if constexpr (kind == Unary::identity) {
    return x;
  } else if constexpr (kind == Unary::sigmoid) {
    return sigmoid(x);
  } else if constexpr (kind == Unary::silu) {
    return hn::Mul(x, sigmoid(x));
  } else if constexpr (kind == Unary::tanh) {
    return tanh(x);
  } else if constexpr (kind == Unary::erf) {
    return erf(x);
  } else if constexpr (kind == Unary::relu) {
    return relu(x);
  } else if constexpr (kind == Unary::gelu) {
    return hn::Mul(x, normal(x).distribution);
  } else if constexpr (kind == Unary::gelu_tanh) {
    const auto half = hn::Mul(x, set(0.5F));
    return hn::MulAdd(half, tanh(gelu_inner(x)), half);
  } else if constexpr (kind == Unary::relu2) {
    const auto r = relu(x);
    return hn::Mul(r, r);
  } else if constexpr (kind == Unary::abs) {
    return hn::Abs(x);
  } else if constexpr (kind == Unary::sqrt) {
    return hn::Sqrt(x);
  } else if constexpr (kind == Unary::log) {
    return lane_by_lane(x, [](float v) { return std::log(v); });
  } else if constexpr (kind == Unary::exp) {
    return exp(x);
  } else if constexpr (kind == Unary::clip) {
    const auto low = set(f.p);
    const auto high = set(f.q);
    const auto raised = hn::IfThenElse(hn::Lt(x, low), low, x);
    return hn::IfThenElse(hn::Gt(raised, high), high, raised);
  } else {
    const float exponent = f.p;
    return lane_by_lane(x, [exponent](float v) { return std::pow(v, exponent); });
  }
}

// The value and the derivative; callers that need one of them leave the rest to the compiler.
struct ValueAndSlope {
  Vector value;
  Vector slope;
};

template <Unary kind>
HWY_INLINE ValueAndSlope slope_of(const Function& f, Vector x) {
  const auto one = set(1);
  if constexpr (kind == Unary::identity) {
    return {x, one};
  } else if constexpr (kind == Unary::sigmoid) {
    const auto y = sigmoid(x);
    return {y, hn::NegMulAdd(y, y, y)};
  } else if constexpr (kind == Unary::silu) {
    const auto s = sigmoid(x);
    const auto y = hn::Mul(x, s);
    return {y, hn::MulAdd(y, hn::Sub(one, s), s)};
  } else if constexpr (kind == Unary::tanh) {
    const auto y = tanh(x);
    return {y, hn::NegMulAdd(y, y, one)};
  } else if constexpr (kind == Unary::erf) {
    const auto density = exp_nonpositive(hn::Neg(hn::Mul(x, x)));
    return {erf(x), hn::Mul(density, set(1.12837917F))};
  } else if constexpr (kind == Unary::relu) {
    return {relu(x), nan_of(x, hn::IfThenElseZero(hn::Gt(x, zero()), one))};
  } else if constexpr (kind == Unary::gelu) {
    const auto at = normal(x);
    return {hn::Mul(x, at.distribution), hn::MulAdd(x, at.density, at.distribution)};
  } else if constexpr (kind == Unary::gelu_tanh) {
    const auto t = tanh(gelu_inner(x));
    const auto half = hn::Mul(x, set(0.5F));
    const auto rise = hn::Mul(hn::NegMulAdd(t, t, one), gelu_inner_slope(x));
    return {hn::MulAdd(half, t, half), hn::MulAdd(half, rise, hn::MulAdd(set(0.5F), t, set(0.5F)))};
  } else if constexpr (kind == Unary::relu2) {
    const auto r = relu(x);
    return {hn::Mul(r, r), hn::Add(r, r)};
  } else if constexpr (kind == Unary::abs) {
    const auto sign = hn::CopySign(one, x);
    return {hn::Abs(x), nan_of(x, hn::IfThenZeroElse(hn::Eq(x, zero()), sign))};
  } else if constexpr (kind == Unary::sqrt) {
    const auto y = hn::Sqrt(x);
    return {y, hn::Div(set(0.5F), y)};
  } else if constexpr (kind == Unary::log) {
    return {value_of<kind>(f, x), hn::Div(one, x)};
  } else if constexpr (kind == Unary::exp) {
    const auto y = exp(x);
    return {y, y};
  } else if constexpr (kind == Unary::clip) {
    const auto inside = hn::And(hn::Ge(x, set(f.p)), hn::Le(x, set(f.q)));
    return {value_of<kind>(f, x), nan_of(x, hn::IfThenElseZero(inside, one))};
  } else {
    const float exponent = f.p;
    const auto slope = lane_by_lane(x, [exponent](float v) {
      return exponent == 0 ? 0.0F : exponent * std::pow(v, exponent - 1);
    });
    return {value_of<kind>(f, x), slope};
  }
}

// Turns the kind of a function into a template argument.
template <class Call>
HWY_INLINE void by_function(Unary kind, Call call) {
  switch (kind) {
    case Unary::identity:
      return call.template operator()<Unary::identity>();
    case Unary::sigmoid:
      return call.template operator()<Unary::sigmoid>();
    case Unary::silu:
      return call.template operator()<Unary::silu>();
    case Unary::tanh:
      return call.template operator()<Unary::tanh>();
    case Unary::erf:
      return call.template operator()<Unary::erf>();
    case Unary::relu:
      return call.template operator()<Unary::relu>();
    case Unary::gelu:
      return call.template operator()<Unary::gelu>();
    case Unary::gelu_tanh:
      return call.template operator()<Unary::gelu_tanh>();
    case Unary::relu2:
      return call.template operator()<Unary::relu2>();
    case Unary::abs:
      return call.template operator()<Unary::abs>();
    case Unary::sqrt:
      return call.template operator()<Unary::sqrt>();
    case Unary::log:
      return call.template operator()<Unary::log>();
    case Unary::exp:
      return call.template operator()<Unary::exp>();
    case Unary::clip:
      return call.template operator()<Unary::clip>();
    case Unary::power:
      return call.template operator()<Unary::power>();
  }
}

}  // namespace addnorm::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif
