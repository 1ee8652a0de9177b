// The norm kinds. Statistics run over groups of `width` channels (a norm per head has many groups,
// all with one parameter set); with x^ the normalized value, h = gain * grad:
//   layernorm  gain*(a - mu)/sqrt(var + eps) + bias   backward (h - mean h - x^ mean(h x^))/sigma
//   rmsnorm    gain*a/sqrt(mean a^2 + eps)            backward (h - x^ mean(h x^))/rho
//   scalenorm  g*a/max(|a|, eps)      l2norm  a/max(|a|, eps)
//   dyt        gain*tanh(alpha*a) + bias              derf  gain*erf(alpha*a + shift) + bias
// Ba et al. 1607.06450, Zhang and Sennrich 1910.07467, Nguyen and Salazar 1910.05895, Zhu et al.
// 2503.10622, Derf 2512.10938.
#pragma once

#include <vector>

#include "addnorm/nodes/io.h"

namespace addnorm::nodes {

enum class NormKind : uint8_t { layernorm, rmsnorm, scalenorm, l2norm, dyt, derf };

// in: a [rows, groups*width], then what `affine` and `bias` ask for: weight [width] (scalenorm: [1]),
// bias [width]; dyt and derf: weight, [bias], alpha [1], derf also shift [1].
struct Norm {
  static constexpr const char* name = "norm";
  NormKind kind = NormKind::layernorm;
  int64_t width = 0;
  double eps = 0;  // inside the root; scalenorm and l2norm: a lower clamp of the length
  bool affine = true;
  bool bias = true;
  bool unit_offset = false;  // the stored weight is gain - 1

  Shape shape(std::span<const Shape> in) const { return in[0]; }

  // Places of the parameters among the inputs, -1 where absent.
  int weight_at() const { return affine && kind != NormKind::l2norm ? 1 : -1; }
  int bias_at() const { return weight_at() > 0 && bias ? 2 : -1; }
  int alpha_at() const { return elementwise() ? (bias ? 3 : 2) : -1; }
  int shift_at() const { return kind == NormKind::derf ? alpha_at() + 1 : -1; }
  bool elementwise() const { return kind == NormKind::dyt || kind == NormKind::derf; }

  template <class T>
  T gain(std::span<const View<const T>> in, int64_t j) const {
    if (kind == NormKind::scalenorm) {
      if (!affine) return T(std::sqrt(static_cast<double>(width)));
      return in[1].data[0] + T(unit_offset ? 1 : 0);
    }
    if (weight_at() < 0) return T(1);
    return in[1].data[j] + T(unit_offset ? 1 : 0);
  }

  template <class T>
  struct Statistics {
    T mean = T(0);
    T inverse = T(1);      // 1/sigma, 1/rho or 1/length
    bool clamped = false;  // length below eps
  };

  template <class T>
  Statistics<T> statistics(const T* a) const {
    Statistics<T> s;
    const T n = T(static_cast<double>(width));
    if (kind == NormKind::layernorm) {
      for (int64_t j = 0; j < width; ++j) s.mean += a[j];
      s.mean /= n;
    }
    T squares = T(0);
    for (int64_t j = 0; j < width; ++j) squares += (a[j] - s.mean) * (a[j] - s.mean);
    if (kind == NormKind::scalenorm || kind == NormKind::l2norm) {
      // sqrt at 0 has no derivative; below the clamp the length is the constant eps.
      s.clamped = real_part(squares) < eps * eps || real_part(squares) == 0;
      s.inverse = s.clamped ? T(eps > 0 ? 1 / eps : 0) : T(1) / std::sqrt(squares);
    } else {
      const T inside = squares / n + T(eps);
      s.inverse = real_part(inside) > 0 ? T(1) / std::sqrt(inside) : T(0);
    }
    return s;
  }

  template <class T>
  void forward(const Forward<T>& io) const {
    const int64_t groups = io.out.cols / width;
    for (int64_t r = 0; r < io.out.rows * groups; ++r) {
      const T* a = io.in[0].data + r * width;
      T* out = io.out.data + r * width;
      const Statistics<T> s = elementwise() ? Statistics<T>{} : statistics(a);
      for (int64_t j = 0; j < width; ++j) {
        T y = (a[j] - s.mean) * s.inverse;
        if (kind == NormKind::dyt) y = std::tanh(io.in[alpha_at()].data[0] * a[j]);
        if (kind == NormKind::derf) {
          y = error_function(io.in[alpha_at()].data[0] * a[j] + io.in[shift_at()].data[0]);
        }
        out[j] = gain(io.in, j) * y + (bias_at() > 0 ? io.in[bias_at()].data[j] : T(0));
      }
    }
  }

  template <class T>
  void backward(const Backward<T>& io) const {
    const int64_t groups = io.out.cols / width;
    for (int64_t r = 0; r < io.out.rows * groups; ++r) {
      const T* a = io.in[0].data + r * width;
      const T* g = io.grad_out.data + r * width;
      if (bias_at() > 0 && io.grad_in[bias_at()]) {
        for (int64_t j = 0; j < width; ++j) io.grad_in[bias_at()].data[j] += g[j];
      }
      if (elementwise()) {
        backward_elementwise(io, a, g, r);
      } else {
        backward_statistics(io, a, g, r);
      }
    }
  }

 private:
  template <class T>
  void add_gain(const Backward<T>& io, int64_t j, const T& value) const {
    if (weight_at() < 0 || !io.grad_in[1]) return;
    io.grad_in[1].data[kind == NormKind::scalenorm ? 0 : j] += value;
  }

  template <class T>
  void backward_statistics(const Backward<T>& io, const T* a, const T* g, int64_t r) const {
    const Statistics<T> s = statistics(a);
    T mean_h = T(0), mean_hx = T(0);  // scalenorm, l2norm: u.h with u = a/|a|
    for (int64_t j = 0; j < width; ++j) {
      const T normalized = (a[j] - s.mean) * s.inverse;
      const T h = gain(io.in, j) * g[j];
      add_gain(io, j, g[j] * normalized);
      mean_h += h;
      mean_hx += h * normalized;
    }
    if (!io.grad_in[0]) return;
    const T n = T(static_cast<double>(width));
    const bool length = kind == NormKind::scalenorm || kind == NormKind::l2norm;
    if (!length) mean_hx /= n;
    mean_h = kind == NormKind::layernorm ? mean_h / n : T(0);
    if (s.clamped) mean_hx = T(0);
    T* to = io.grad_in[0].data + r * width;
    for (int64_t j = 0; j < width; ++j) {
      const T normalized = (a[j] - s.mean) * s.inverse;
      to[j] += (gain(io.in, j) * g[j] - mean_h - normalized * mean_hx) * s.inverse;
    }
  }

  template <class T>
  void backward_elementwise(const Backward<T>& io, const T* a, const T* g, int64_t r) const {
    const T alpha = io.in[alpha_at()].data[0];
    for (int64_t j = 0; j < width; ++j) {
      T y, slope;
      if (kind == NormKind::dyt) {
        y = std::tanh(alpha * a[j]);
        slope = T(1) - y * y;
      } else {
        const T z = alpha * a[j] + io.in[shift_at()].data[0];
        y = error_function(z);
        slope = T(2 * std::numbers::inv_sqrtpi) * std::exp(-z * z);
      }
      const T inner = gain(io.in, j) * g[j] * slope;
      add_gain(io, j, g[j] * y);
      if (io.grad_in[0]) io.grad_in[0].data[r * width + j] += inner * alpha;
      if (io.grad_in[alpha_at()]) io.grad_in[alpha_at()].data[0] += inner * a[j];
      if (shift_at() > 0 && io.grad_in[shift_at()]) io.grad_in[shift_at()].data[0] += inner;
    }
  }
};

}  // namespace addnorm::nodes
