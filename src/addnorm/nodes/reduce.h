// Numbers per token over the width: dot(a, b) = sum a*b and rms(a) = sqrt(mean a^2).
#pragma once

#include "addnorm/nodes/io.h"

namespace addnorm::nodes {

// in: a, b, both of width d; one may be a vector. out: [rows, 1]
struct Dot {
  static constexpr const char* name = "dot";

  Shape shape(std::span<const Shape> in) const {
    Shape shape = broadcast(in[0], in[1]);
    shape.cols = 1;
    return shape;
  }
  template <class T>
  void forward(const Forward<T>& io) const {
    for (int64_t i = 0; i < io.out.rows; ++i) {
      T sum = T(0);
      for (int64_t j = 0; j < io.in[0].cols; ++j) sum += io.in[0].at(i, j) * io.in[1].at(i, j);
      io.out.data[i] = sum;
    }
  }
  template <class T>
  void backward(const Backward<T>& io) const {
    for (int64_t i = 0; i < io.grad_out.rows; ++i) {
      const T g = io.grad_out.data[i];
      for (int64_t j = 0; j < io.in[0].cols; ++j) {
        if (io.grad_in[0]) io.grad_in[0].at(i, j) += g * io.in[1].at(i, j);
        if (io.grad_in[1]) io.grad_in[1].at(i, j) += g * io.in[0].at(i, j);
      }
    }
  }
};

// in: a [rows, d]. out: [rows, 1]. The derivative at 0 is 0.
struct Rms {
  static constexpr const char* name = "rms";

  Shape shape(std::span<const Shape> in) const { return {in[0].rows, in[0].height, 1}; }

  template <class T>
  static T value(const View<const T>& a, int64_t i) {
    T sum = T(0);
    for (int64_t j = 0; j < a.cols; ++j) sum += a.row(i)[j] * a.row(i)[j];
    return real_part(sum) == 0 ? T(0) : std::sqrt(sum / T(static_cast<double>(a.cols)));
  }
  template <class T>
  void forward(const Forward<T>& io) const {
    for (int64_t i = 0; i < io.out.rows; ++i) io.out.data[i] = value(io.in[0], i);
  }
  template <class T>
  void backward(const Backward<T>& io) const {
    if (!io.grad_in[0]) return;
    for (int64_t i = 0; i < io.grad_out.rows; ++i) {
      const T rms = value(io.in[0], i);
      if (real_part(rms) == 0) continue;
      const T factor = io.grad_out.data[i] / (rms * T(static_cast<double>(io.in[0].cols)));
      for (int64_t j = 0; j < io.in[0].cols; ++j) {
        io.grad_in[0].row(i)[j] += factor * io.in[0].row(i)[j];
      }
    }
  }
};

}  // namespace addnorm::nodes
