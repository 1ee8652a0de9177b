// Shapes of values: every value is a matrix, its rows are the tokens of one side of the batch or one
// row that holds for all of them.
#pragma once

#include <cstdint>

namespace addnorm::nodes {

enum class Rows : uint8_t {
  fixed,   // `height` rows, whatever the batch: parameters and constants
  target,  // one row per token of the decoder, or of the only stack
  source,  // one row per token of the encoder beside a decoder
};

// A number is {fixed, 1, 1}, a vector {fixed, 1, d}, a number per token {target, _, 1}, a tensor
// {target, _, d}; a weight matrix is {fixed, out, in}.
struct Shape {
  Rows rows = Rows::fixed;
  int64_t height = 1;  // counts for `fixed` only
  int64_t cols = 1;

  bool operator==(const Shape&) const = default;
  bool per_token() const { return rows != Rows::fixed; }
};

// The shape of an elementwise result; rows and columns of size 1 are repeated.
inline Shape broadcast(const Shape& a, const Shape& b) {
  return {a.per_token() ? a.rows : b.rows, 1, a.cols > b.cols ? a.cols : b.cols};
}

}  // namespace addnorm::nodes
