// Rotary positions (Su et al. 2104.09864): in every head the first `rotary_dim` channels are turned in
// pairs, (a, b) -> (a cos - b sin, b cos + a sin), by position * base^(-2i/rotary_dim).
#pragma once

#include "addnorm/nodes/io.h"

namespace addnorm::nodes {

// in: [rows, heads*head_dim].
struct Rotary {
  static constexpr const char* name = "rotary";
  int64_t head_dim = 0;
  int64_t rotary_dim = 0;
  double base = 10000;
  bool interleaved = false;  // pairs (2i, 2i+1) instead of (i, i + rotary_dim/2)
  Rows rows = Rows::target;

  Shape shape(std::span<const Shape> in) const { return in[0]; }

  template <class T>
  void forward(const Forward<T>& io) const {
    std::copy(io.in[0].data, io.in[0].data + io.out.size(), io.out.data);
    turn(io.batch, io.in[0], io.out, 1, [](T& to, const T& value) { to = value; });
  }
  // The gradient turns back.
  template <class T>
  void backward(const Backward<T>& io) const {
    if (!io.grad_in[0]) return;
    for (int64_t i = 0; i < io.grad_out.rows; ++i) {
      for (int64_t j = 0; j < io.grad_out.cols; ++j) {
        if (j % head_dim >= rotary_dim) io.grad_in[0].row(i)[j] += io.grad_out.row(i)[j];
      }
    }
    turn(io.batch, io.grad_out, io.grad_in[0], -1, [](T& to, const T& value) { to += value; });
  }

 private:
  template <class T, class Store>
  void turn(const BatchView& batch, const View<const T>& in, const View<T>& out, double sign,
            Store store) const {
    const int32_t* positions = rows == Rows::source ? batch.source_positions : batch.positions;
    const int64_t half = rotary_dim / 2;
    for (int64_t r = 0; r < out.rows; ++r) {
      for (int64_t head = 0; head < out.cols; head += head_dim) {
        for (int64_t i = 0; i < half; ++i) {
          const int64_t first = head + (interleaved ? 2 * i : i);
          const int64_t second = interleaved ? first + 1 : first + half;
          const double exponent = -2.0 * static_cast<double>(i) / static_cast<double>(rotary_dim);
          const double angle = sign * positions[r] * std::pow(base, exponent);
          const T cosine = T(std::cos(angle)), sine = T(std::sin(angle));
          const T a = in.row(r)[first], b = in.row(r)[second];
          store(out.row(r)[first], a * cosine - b * sine);
          store(out.row(r)[second], b * cosine + a * sine);
        }
      }
    }
  }
};

}  // namespace addnorm::nodes
