// Elementwise functions of one value: the activations and the functions of the formula language.
#pragma once

#include "addnorm/nodes/io.h"

namespace addnorm::nodes {

enum class UnaryKind : uint8_t {
  sigmoid,
  silu,
  tanh,
  erf,
  relu,
  relu2,
  gelu,
  gelu_tanh,
  abs,
  sqrt,
  log,
  exp,
  clip,     // between `low` and `high`
  power,    // a ^ low
  softcap,  // low * tanh(a / low)
};

// Derivatives at kinks: relu, relu2 and abs 0 at 0, clip 1 on [low, high].
struct Unary {
  static constexpr const char* name = "unary";
  UnaryKind kind = UnaryKind::sigmoid;
  Scalar low{0}, high{0};

  Shape shape(std::span<const Shape> in) const { return in[0]; }

  template <class T>
  void forward(const Forward<T>& io) const {
    for (int64_t i = 0; i < io.out.size(); ++i) io.out.data[i] = value(io.in[0].data[i], io.batch);
  }
  template <class T>
  void backward(const Backward<T>& io) const {
    if (!io.grad_in[0]) return;
    for (int64_t i = 0; i < io.grad_out.size(); ++i) {
      io.grad_in[0].data[i] += io.grad_out.data[i] * slope(io.in[0].data[i], io.batch);
    }
  }

  template <class T>
  T value(const T& a, const BatchView& batch) const {
    switch (kind) {
      case UnaryKind::sigmoid:
        return T(1) / (T(1) + std::exp(-a));
      case UnaryKind::silu:
        return a / (T(1) + std::exp(-a));
      case UnaryKind::tanh:
        return std::tanh(a);
      case UnaryKind::erf:
        return error_function(a);
      case UnaryKind::relu:
        return real_part(a) > 0 ? a : T(0);
      case UnaryKind::relu2:
        return real_part(a) > 0 ? a * a : T(0);
      case UnaryKind::gelu:
        return a * normal_cdf(a);
      case UnaryKind::gelu_tanh:
        return T(0.5) * a * (T(1) + std::tanh(tanh_argument(a)));
      case UnaryKind::abs:
        return absolute(a);
      case UnaryKind::sqrt:
        return std::sqrt(a);
      case UnaryKind::log:
        return std::log(a);
      case UnaryKind::exp:
        return std::exp(a);
      case UnaryKind::clip:
        if (real_part(a) < low.at(batch)) return T(low.at(batch));
        return real_part(a) > high.at(batch) ? T(high.at(batch)) : a;
      case UnaryKind::power:
        return power(a, low.at(batch));
      case UnaryKind::softcap:
        return T(low.at(batch)) * std::tanh(a / T(low.at(batch)));
    }
    return a;
  }

  template <class T>
  T slope(const T& a, const BatchView& batch) const {
    switch (kind) {
      case UnaryKind::sigmoid: {
        const T s = T(1) / (T(1) + std::exp(-a));
        return s * (T(1) - s);
      }
      case UnaryKind::silu: {
        const T s = T(1) / (T(1) + std::exp(-a));
        return s * (T(1) + a * (T(1) - s));
      }
      case UnaryKind::tanh:
        return T(1) - std::tanh(a) * std::tanh(a);
      case UnaryKind::erf:
        return T(2 * std::numbers::inv_sqrtpi) * std::exp(-a * a);
      case UnaryKind::relu:
        return T(real_part(a) > 0 ? 1 : 0);
      case UnaryKind::relu2:
        return real_part(a) > 0 ? T(2) * a : T(0);
      case UnaryKind::gelu:
        return normal_cdf(a) +
               a * std::exp(T(-0.5) * a * a) * T(std::numbers::inv_sqrtpi / std::numbers::sqrt2);
      case UnaryKind::gelu_tanh: {
        const T y = std::tanh(tanh_argument(a));
        const T inner = T(root_2_over_pi) * (T(1) + T(3 * 0.044715) * a * a);
        return T(0.5) * (T(1) + y) + T(0.5) * a * (T(1) - y * y) * inner;
      }
      case UnaryKind::abs:
        return T(real_part(a) > 0 ? 1 : real_part(a) < 0 ? -1 : 0);
      case UnaryKind::sqrt:
        return T(0.5) / std::sqrt(a);
      case UnaryKind::log:
        return T(1) / a;
      case UnaryKind::exp:
        return std::exp(a);
      case UnaryKind::clip:
        return T(real_part(a) >= low.at(batch) && real_part(a) <= high.at(batch) ? 1 : 0);
      case UnaryKind::power: {
        const double e = low.at(batch);
        return e == 0 ? T(0) : T(e) * power(a, e - 1);
      }
      case UnaryKind::softcap: {
        const T y = std::tanh(a / T(low.at(batch)));
        return T(1) - y * y;
      }
    }
    return T(1);
  }

 private:
  static constexpr double root_2_over_pi = std::numbers::sqrt2 * std::numbers::inv_sqrtpi;

  template <class T>
  static T normal_cdf(const T& a) {
    return T(0.5) * (T(1) + error_function(a * T(1 / std::numbers::sqrt2)));
  }
  template <class T>
  static T tanh_argument(const T& a) {
    return T(root_2_over_pi) * (a + T(0.044715) * a * a * a);
  }
};

}  // namespace addnorm::nodes
