// The value without its gradient (detach), and dropout.
#pragma once

#include "addnorm/base/random.h"
#include "addnorm/nodes/embedding.h"
#include "addnorm/nodes/io.h"

namespace addnorm::nodes {

struct Detach {
  static constexpr const char* name = "detach";

  Shape shape(std::span<const Shape> in) const { return in[0]; }

  // Keeps the real part, so that a complex step sees the value as a constant.
  template <class T>
  void forward(const Forward<T>& io) const {
    for (int64_t i = 0; i < io.out.size(); ++i) io.out.data[i] = T(real_part(io.in[0].data[i]));
  }
  template <class T>
  void backward(const Backward<T>&) const {}
};

// Kept values are divided by 1 - rate; only in training. Whether an element is kept depends on
// (seed, stream, place in the whole batch) alone.
struct Drop {
  static constexpr const char* name = "drop";
  double rate = 0;
  uint64_t stream = 0;  // of this node
  Rows rows = Rows::target;

  Shape shape(std::span<const Shape> in) const { return in[0]; }

  // 2^32 * rate; an element is kept where its random word reaches this.
  uint64_t threshold() const { return static_cast<uint64_t>(std::ldexp(rate, 32)); }
  int64_t first_element(const BatchView& batch, int64_t cols) const {
    return batch.first_sequence * (rows == Rows::source ? batch.source_length : batch.length) *
           cols;
  }

  template <class T>
  void forward(const Forward<T>& io) const {
    apply(io.batch, io.in[0].data, io.out, [](T& to, const T& value) { to = value; });
  }
  template <class T>
  void backward(const Backward<T>& io) const {
    if (!io.grad_in[0]) return;
    apply(io.batch, io.grad_out.data, io.grad_in[0], [](T& to, const T& value) { to += value; });
  }

 private:
  template <class T, class Store>
  void apply(const BatchView& batch, const T* from, const View<T>& to, Store store) const {
    const bool active = batch.training && rate > 0;
    const Random random(batch.dropout_seed, stream);
    const auto first = static_cast<uint64_t>(first_element(batch, to.cols));
    const T factor = T(1 / (1 - rate));
    std::array<uint32_t, 4> words{};
    for (uint64_t e = first; e < first + static_cast<uint64_t>(to.size()); ++e) {
      if (active && (e == first || e % 4 == 0)) words = random.block(e / 4);
      const T& value = from[e - first];
      if (!active) {
        store(to.data[e - first], value);
      } else {
        store(to.data[e - first], words[e % 4] >= threshold() ? value * factor : T(0));
      }
    }
  }
};

}  // namespace addnorm::nodes
