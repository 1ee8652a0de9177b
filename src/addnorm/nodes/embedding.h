// Rows of tables by token or position, and the sinusoidal table of Vaswani et al. (1706.03762),
// interleaved: channel 2i is sin(p / 10000^(2i/d)), channel 2i + 1 the cosine.
#pragma once

#include "addnorm/nodes/io.h"

namespace addnorm::nodes {

inline int64_t token_rows(const BatchView& batch, Rows rows) {
  return batch.sequences * (rows == Rows::source ? batch.source_length : batch.length);
}

// in: table [vocab, d], or [context, d] read by position. out: [tokens, d]
struct Embedding {
  static constexpr const char* name = "embedding";
  Rows rows = Rows::target;
  bool by_position = false;

  Shape shape(std::span<const Shape> in) const { return {rows, 1, in[0].cols}; }

  const int32_t* ids(const BatchView& batch) const {
    if (by_position) return rows == Rows::source ? batch.source_positions : batch.positions;
    return rows == Rows::source ? batch.source : batch.tokens;
  }
  template <class T>
  void forward(const Forward<T>& io) const {
    for (int64_t i = 0; i < io.out.rows; ++i) {
      const T* from = io.in[0].row(ids(io.batch)[i]);
      std::copy(from, from + io.out.cols, io.out.row(i));
    }
  }
  template <class T>
  void backward(const Backward<T>& io) const {
    if (!io.grad_in[0]) return;
    for (int64_t i = 0; i < io.grad_out.rows; ++i) {
      T* to = io.grad_in[0].row(ids(io.batch)[i]);
      for (int64_t j = 0; j < io.grad_out.cols; ++j) to[j] += io.grad_out.row(i)[j];
    }
  }
};

// No input. out: [tokens, width]
struct SinusoidalPositions {
  static constexpr const char* name = "sinusoidal positions";
  Rows rows = Rows::target;
  int64_t width = 0;

  Shape shape(std::span<const Shape>) const { return {rows, 1, width}; }

  double value(int64_t position, int64_t channel) const {
    const int64_t even = channel - channel % 2;
    const double exponent = static_cast<double>(even) / static_cast<double>(width);
    const double angle = static_cast<double>(position) / std::pow(10000.0, exponent);
    return channel % 2 == 0 ? std::sin(angle) : std::cos(angle);
  }
  template <class T>
  void forward(const Forward<T>& io) const {
    const int32_t* positions =
        rows == Rows::source ? io.batch.source_positions : io.batch.positions;
    for (int64_t i = 0; i < io.out.rows; ++i) {
      for (int64_t j = 0; j < width; ++j) io.out.row(i)[j] = static_cast<T>(value(positions[i], j));
    }
  }
  template <class T>
  void backward(const Backward<T>&) const {}
};

}  // namespace addnorm::nodes
