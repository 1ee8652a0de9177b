// Elementwise functions of two values; rows and columns of size 1 repeat.
#pragma once

#include "addnorm/nodes/io.h"

namespace addnorm::nodes {

enum class BinaryKind : uint8_t { product, quotient, minimum, maximum };

// in: a, b. At a tie minimum and maximum are the first argument.
struct Binary {
  static constexpr const char* name = "binary";
  BinaryKind kind = BinaryKind::product;

  Shape shape(std::span<const Shape> in) const { return broadcast(in[0], in[1]); }

  template <class T>
  bool takes_first(const T& a, const T& b) const {
    return kind == BinaryKind::minimum ? real_part(a) <= real_part(b)
                                       : real_part(a) >= real_part(b);
  }

  template <class T>
  void forward(const Forward<T>& io) const {
    for (int64_t i = 0; i < io.out.rows; ++i) {
      for (int64_t j = 0; j < io.out.cols; ++j) {
        const T a = io.in[0].at(i, j), b = io.in[1].at(i, j);
        T& out = io.out.row(i)[j];
        if (kind == BinaryKind::product) {
          out = a * b;
        } else if (kind == BinaryKind::quotient) {
          out = a / b;
        } else {
          out = takes_first(a, b) ? a : b;
        }
      }
    }
  }

  template <class T>
  void backward(const Backward<T>& io) const {
    for (int64_t i = 0; i < io.grad_out.rows; ++i) {
      for (int64_t j = 0; j < io.grad_out.cols; ++j) {
        const T a = io.in[0].at(i, j), b = io.in[1].at(i, j), g = io.grad_out.row(i)[j];
        T to_a, to_b;
        if (kind == BinaryKind::product) {
          to_a = g * b;
          to_b = g * a;
        } else if (kind == BinaryKind::quotient) {
          to_a = g / b;
          to_b = -g * a / (b * b);
        } else {
          const bool first = takes_first(a, b);
          to_a = first ? g : T(0);
          to_b = first ? T(0) : g;
        }
        if (io.grad_in[0]) io.grad_in[0].at(i, j) += to_a;
        if (io.grad_in[1]) io.grad_in[1].at(i, j) += to_b;
      }
    }
  }
};

}  // namespace addnorm::nodes
