// One number per head on the head outputs (NormFormer, Shleifer et al. 2110.09456).
#pragma once

#include "addnorm/nodes/io.h"

namespace addnorm::nodes {

// in: a [rows, heads*head_dim], scale [heads].
struct HeadScale {
  static constexpr const char* name = "head scale";
  int64_t head_dim = 1;

  Shape shape(std::span<const Shape> in) const { return in[0]; }

  template <class T>
  void forward(const Forward<T>& io) const {
    for (int64_t i = 0; i < io.out.rows; ++i) {
      for (int64_t j = 0; j < io.out.cols; ++j) {
        io.out.row(i)[j] = io.in[0].row(i)[j] * io.in[1].data[j / head_dim];
      }
    }
  }
  template <class T>
  void backward(const Backward<T>& io) const {
    for (int64_t i = 0; i < io.grad_out.rows; ++i) {
      for (int64_t j = 0; j < io.grad_out.cols; ++j) {
        const T g = io.grad_out.row(i)[j];
        if (io.grad_in[0]) io.grad_in[0].row(i)[j] += g * io.in[1].data[j / head_dim];
        if (io.grad_in[1]) io.grad_in[1].data[j / head_dim] += g * io.in[0].row(i)[j];
      }
    }
  }
};

}  // namespace addnorm::nodes
