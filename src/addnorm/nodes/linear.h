// y = x W^T + b.
#pragma once

#include "addnorm/nodes/io.h"

namespace addnorm::nodes {

// in: x [rows, in], weight [out, in], optional bias [out].
struct Linear {
  static constexpr const char* name = "linear";

  Shape shape(std::span<const Shape> in) const { return {in[0].rows, 1, in[1].height}; }

  template <class T>
  void forward(const Forward<T>& io) const {
    const auto& x = io.in[0];
    const auto& w = io.in[1];
    for (int64_t i = 0; i < io.out.rows; ++i) {
      for (int64_t o = 0; o < io.out.cols; ++o) {
        T sum = io.in.size() > 2 ? io.in[2].data[o] : T(0);
        for (int64_t j = 0; j < x.cols; ++j) sum += x.row(i)[j] * w.row(o)[j];
        io.out.row(i)[o] = sum;
      }
    }
  }

  template <class T>
  void backward(const Backward<T>& io) const {
    const auto& x = io.in[0];
    const auto& w = io.in[1];
    for (int64_t i = 0; i < io.grad_out.rows; ++i) {
      for (int64_t o = 0; o < io.grad_out.cols; ++o) {
        const T g = io.grad_out.row(i)[o];
        if (io.grad_in[0]) {
          for (int64_t j = 0; j < x.cols; ++j) io.grad_in[0].row(i)[j] += g * w.row(o)[j];
        }
        if (io.grad_in[1]) {
          for (int64_t j = 0; j < x.cols; ++j) io.grad_in[1].row(o)[j] += g * x.row(i)[j];
        }
        if (io.in.size() > 2 && io.grad_in[2]) io.grad_in[2].data[o] += g;
      }
    }
  }
};

}  // namespace addnorm::nodes
