// out = constant + w_1*a_1 + w_2*a_2 + ..., the residual add. Rows and columns of size 1 repeat.
#pragma once

#include <vector>

#include "addnorm/nodes/io.h"

namespace addnorm::nodes {

// in: any number of addends; none gives the number `constant` itself.
struct Sum {
  static constexpr const char* name = "sum";
  Scalar constant{0};
  std::vector<Scalar> weights;  // one per addend

  Shape shape(std::span<const Shape> in) const {
    Shape shape;
    for (const Shape& a : in) shape = broadcast(shape, a);
    return shape;
  }

  template <class T>
  void forward(const Forward<T>& io) const {
    for (int64_t i = 0; i < io.out.rows; ++i) {
      for (int64_t j = 0; j < io.out.cols; ++j) {
        T sum = T(constant.at(io.batch));
        for (size_t k = 0; k < weights.size(); ++k) {
          // The first addend is not added to a 0: x + 0*... must keep -0 and stay exact.
          const T term = T(weights[k].at(io.batch)) * io.in[k].at(i, j);
          sum = k == 0 && constant == Scalar{} ? term : sum + term;
        }
        io.out.row(i)[j] = sum;
      }
    }
  }
  template <class T>
  void backward(const Backward<T>& io) const {
    for (size_t k = 0; k < weights.size(); ++k) {
      if (!io.grad_in[k]) continue;
      const T weight = T(weights[k].at(io.batch));
      for (int64_t i = 0; i < io.grad_out.rows; ++i) {
        for (int64_t j = 0; j < io.grad_out.cols; ++j) {
          io.grad_in[k].at(i, j) += weight * io.grad_out.row(i)[j];
        }
      }
    }
  }
};

}  // namespace addnorm::nodes
