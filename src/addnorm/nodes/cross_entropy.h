// Sum of cross-entropies over the targets that count, divided by the number of targets of the whole
// optimizer step; with label smoothing e: (1-e)*cross-entropy + e*mean of -log p; with a z-loss:
// + z*(log Z)^2 per target.
#pragma once

#include <vector>

#include "addnorm/nodes/io.h"

namespace addnorm::nodes {

// in: logits [tokens, vocab]. out: [1], this part of the batch.
struct CrossEntropy {
  static constexpr const char* name = "cross-entropy";

  Shape shape(std::span<const Shape>) const { return {}; }

  template <class T>
  void forward(const Forward<T>& io) const {
    T loss = T(0);
    std::vector<T> p(static_cast<size_t>(io.in[0].cols));
    for (int64_t i = 0; i < io.in[0].rows; ++i) {
      const int32_t target = io.batch.targets[i];
      if (target == Batch::ignored) continue;
      const T* logits = io.in[0].row(i);
      const T log_z = softmax(logits, p);
      const T cross_entropy = log_z - logits[target];
      const double e = io.batch.label_smoothing;
      loss += T(1 - e) * cross_entropy + T(io.batch.z_loss) * log_z * log_z;
      if (e == 0) continue;
      T mean = T(0);
      for (size_t j = 0; j < p.size(); ++j) mean += log_z - logits[j];
      loss += T(e / static_cast<double>(p.size())) * mean;
    }
    io.out.data[0] = loss / T(io.batch.divisor);
  }

  template <class T>
  void backward(const Backward<T>& io) const {
    if (!io.grad_in[0]) return;
    std::vector<T> p(static_cast<size_t>(io.in[0].cols));
    const double e = io.batch.label_smoothing;
    for (int64_t i = 0; i < io.in[0].rows; ++i) {
      const int32_t target = io.batch.targets[i];
      if (target == Batch::ignored) continue;
      const T log_z = softmax(io.in[0].row(i), p);
      const T factor = io.grad_out.data[0] / T(io.batch.divisor);
      T* to = io.grad_in[0].row(i);
      for (size_t j = 0; j < p.size(); ++j) {
        const double wanted =
            (static_cast<int32_t>(j) == target ? 1 - e : 0) + e / static_cast<double>(p.size());
        to[j] += factor * (p[j] * (T(1) + T(2 * io.batch.z_loss) * log_z) - T(wanted));
      }
    }
  }

 private:
  template <class T>
  static T softmax(const T* logits, std::vector<T>& p) {
    double highest = real_part(logits[0]);
    for (size_t j = 1; j < p.size(); ++j) highest = std::max<double>(highest, real_part(logits[j]));
    T sum = T(0);
    for (size_t j = 0; j < p.size(); ++j) {
      p[j] = std::exp(logits[j] - T(highest));
      sum += p[j];
    }
    for (T& value : p) value /= sum;
    return T(highest) + std::log(sum);
  }
};

}  // namespace addnorm::nodes
