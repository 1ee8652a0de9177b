// What a node's reference reads and writes, for any scalar type: double, float, complex<double>.
#pragma once

#include <algorithm>
#include <cmath>
#include <complex>
#include <cstdint>
#include <numbers>
#include <span>

#include "addnorm/nodes/batch.h"
#include "addnorm/nodes/shape.h"

namespace addnorm::nodes {

// A coefficient known before the tokens: a constant, or an expression in t of the graph.
struct Scalar {
  double value = 0;
  int schedule = -1;  // index into BatchView::schedules, -1: constant

  double at(const BatchView& batch) const {
    return schedule < 0 ? value : batch.schedules[schedule];
  }
  bool operator==(const Scalar&) const = default;
};

// Row-major [rows, cols]. Reads outside by broadcasting: an index into a side of size 1 is 0.
template <class T>
struct View {
  T* data = nullptr;
  int64_t rows = 0;
  int64_t cols = 0;

  T* row(int64_t i) const { return data + i * cols; }
  T& at(int64_t i, int64_t j) const {
    return data[(rows == 1 ? 0 : i) * cols + (cols == 1 ? 0 : j)];
  }
  int64_t size() const { return rows * cols; }
  explicit operator bool() const { return data != nullptr; }
};

template <class T>
struct Forward {
  const BatchView& batch;
  std::span<const View<const T>> in;
  View<T> out;  // overwritten
};

template <class T>
struct Backward {
  const BatchView& batch;
  std::span<const View<const T>> in;
  View<const T> out;
  View<const T> grad_out;
  std::span<const View<T>> grad_in;  // added to; without data where no gradient is wanted
};

// Comparisons (relu, clip, clamps, the shift of a softmax) look at the real part, so that a complex
// step of 1e-30 takes the same way as the real computation.
inline double real_part(double a) { return a; }
inline float real_part(float a) { return a; }
inline double real_part(const std::complex<double>& a) { return a.real(); }

inline double error_function(double a) { return std::erf(a); }
inline float error_function(float a) { return std::erf(a); }
// To first order in the imaginary part, which is all that a complex step carries.
inline std::complex<double> error_function(const std::complex<double>& a) {
  return {std::erf(a.real()),
          a.imag() * 2 * std::numbers::inv_sqrtpi * std::exp(-a.real() * a.real())};
}

// a^e with a real exponent, 0^0 = 1; complex to first order as above (std::pow turns the argument
// through pi for negative bases and drowns the imaginary part).
inline double power(double a, double e) { return std::pow(a, e); }
inline float power(float a, double e) { return std::pow(a, static_cast<float>(e)); }
inline std::complex<double> power(const std::complex<double>& a, double e) {
  return {std::pow(a.real(), e), e == 0 ? 0 : a.imag() * e * std::pow(a.real(), e - 1)};
}
template <class T>
T absolute(const T& a) {
  return real_part(a) < 0 ? -a : a;
}

}  // namespace addnorm::nodes
