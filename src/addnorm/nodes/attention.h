// Softmax attention with grouped key/value heads:
//   score = scale * q.k, softcap: c*tanh(score/c), then the position bias, then mask and softmax.
// A query whose keys are all masked gets 0; its gradient is 0.
#pragma once

#include <limits>
#include <vector>

#include "addnorm/nodes/io.h"

namespace addnorm::nodes {

// ALiBi (Press et al. 2108.12409): slope of head h = 1..H is 2^(-8h/P) with P = H if that is a power
// of two, else the largest one below H, and head P+i takes 2^(-4(2i-1)/P).
inline double alibi_slope(int64_t head, int64_t heads) {
  int64_t p = 1;
  while (p * 2 <= heads) p *= 2;
  if (head < p) return std::exp2(-8.0 * static_cast<double>(head + 1) / static_cast<double>(p));
  return std::exp2(-4.0 * static_cast<double>(2 * (head - p) + 1) / static_cast<double>(p));
}

// T5's bucket of a key at `distance` = query position - key position (Raffel et al. 1910.10683).
// Half of the buckets (bidirectional: of each side's half) are exact, the rest logarithmic up to
// `limit`. Integer powers decide the boundaries, so no rounded logarithm moves one.
inline int64_t t5_bucket(int64_t distance, bool bidirectional, int64_t buckets, int64_t limit) {
  int64_t offset = 0;
  if (bidirectional) {
    buckets /= 2;
    if (distance < 0) offset = buckets;
    distance = std::abs(distance);
  } else if (distance < 0) {
    distance = 0;
  }
  const int64_t exact = buckets / 2;
  if (distance < exact) return offset + distance;
  const double ratio = std::log(static_cast<double>(distance) / static_cast<double>(exact)) /
                       std::log(static_cast<double>(limit) / static_cast<double>(exact));
  // A distance exactly on a boundary must not fall below it by rounding.
  const auto step = static_cast<int64_t>(
      std::floor(ratio * static_cast<double>(buckets - exact) * (1 + 1e-12) + 1e-12));
  return offset + std::min(exact + step, buckets - 1);
}

// in: q [queries, heads*head_dim], k and v [keys, kv_heads*head_dim], with t5 a table [buckets, heads].
// out: [queries, heads*head_dim].
struct Attention {
  static constexpr const char* name = "attention";
  int64_t heads = 1;
  int64_t kv_heads = 1;
  int64_t head_dim = 1;
  Scalar scale{1};
  double softcap = 0;  // 0: none
  bool causal = true;
  bool alibi = false;
  int64_t buckets = 0;  // t5; 0: none
  int64_t distance = 0;
  Rows queries = Rows::target;
  Rows keys = Rows::target;

  Shape shape(std::span<const Shape> in) const { return in[0]; }

  int64_t query_length(const BatchView& b) const {
    return queries == Rows::source ? b.source_length : b.length;
  }
  int64_t key_length(const BatchView& b) const {
    return keys == Rows::source ? b.source_length : b.length;
  }
  const uint8_t* key_mask(const BatchView& b) const {
    return keys == Rows::source ? b.source_mask : b.mask;
  }
  const int32_t* positions(const BatchView& b, Rows rows) const {
    return rows == Rows::source ? b.source_positions : b.positions;
  }

  template <class T>
  void forward(const Forward<T>& io) const {
    std::vector<T> weights(static_cast<size_t>(key_length(io.batch)));
    std::vector<T> slopes(weights.size());
    for_each_row(io.batch, [&](int64_t query, int64_t first_key, int64_t head, int64_t i) {
      T* out = io.out.row(query) + head * head_dim;
      std::fill(out, out + head_dim, T(0));
      if (!softmax(io.batch, io.in, query, first_key, head, i, weights, slopes)) return;
      for (size_t u = 0; u < weights.size(); ++u) {
        const T* v = key_row(io.in[2], first_key + static_cast<int64_t>(u), head);
        for (int64_t c = 0; c < head_dim; ++c) out[c] += weights[u] * v[c];
      }
    });
  }

  template <class T>
  void backward(const Backward<T>& io) const {
    std::vector<T> weights(static_cast<size_t>(key_length(io.batch)));
    std::vector<T> slopes(weights.size()), grads(weights.size());
    const T factor = T(scale.at(io.batch));
    for_each_row(io.batch, [&](int64_t query, int64_t first_key, int64_t head, int64_t i) {
      if (!softmax(io.batch, io.in, query, first_key, head, i, weights, slopes)) return;
      const T* g = io.grad_out.row(query) + head * head_dim;
      T mean = T(0);
      for (size_t u = 0; u < weights.size(); ++u) {
        const T* v = key_row(io.in[2], first_key + static_cast<int64_t>(u), head);
        grads[u] = T(0);
        for (int64_t c = 0; c < head_dim; ++c) grads[u] += g[c] * v[c];
        mean += weights[u] * grads[u];
      }
      for (size_t u = 0; u < weights.size(); ++u) {
        const int64_t key = first_key + static_cast<int64_t>(u);
        const T d_score = weights[u] * (grads[u] - mean);  // after softcap and bias
        const T d_product = d_score * slopes[u] * factor;
        const int64_t shared = head / (heads / kv_heads) * head_dim;
        for (int64_t c = 0; c < head_dim; ++c) {
          if (io.grad_in[2]) io.grad_in[2].row(key)[shared + c] += weights[u] * g[c];
          if (io.grad_in[0]) {
            io.grad_in[0].row(query)[head * head_dim + c] +=
                d_product * io.in[1].row(key)[shared + c];
          }
          if (io.grad_in[1]) {
            io.grad_in[1].row(key)[shared + c] +=
                d_product * io.in[0].row(query)[head * head_dim + c];
          }
        }
        if (buckets > 0 && io.grad_in[3] && real_part(weights[u]) != 0) {
          io.grad_in[3].row(bucket(io.batch, query, key))[head] += d_score;
        }
      }
    });
  }

  int64_t bucket(const BatchView& batch, int64_t query, int64_t key) const {
    const int64_t apart = positions(batch, queries)[query] - positions(batch, keys)[key];
    return t5_bucket(apart, !causal, buckets, distance);
  }

 private:
  template <class T>
  const T* key_row(const View<const T>& view, int64_t key, int64_t head) const {
    return view.row(key) + head / (heads / kv_heads) * head_dim;
  }

  template <class Work>
  void for_each_row(const BatchView& batch, Work work) const {
    const int64_t tq = query_length(batch), tk = key_length(batch);
    for (int64_t b = 0; b < batch.sequences; ++b) {
      for (int64_t head = 0; head < heads; ++head) {
        for (int64_t i = 0; i < tq; ++i) work(b * tq + i, b * tk, head, i);
      }
    }
  }

  // Weights of one query over its keys and the slope of the softcap; false where all are masked.
  template <class T>
  bool softmax(const BatchView& batch, std::span<const View<const T>> in, int64_t query,
               int64_t first_key, int64_t head, int64_t i, std::vector<T>& weights,
               std::vector<T>& slopes) const {
    const auto allowed = [&](size_t u) {
      if (causal && static_cast<int64_t>(u) > i) return false;
      return key_mask(batch) == nullptr ||
             key_mask(batch)[first_key + static_cast<int64_t>(u)] != 0;
    };
    const T factor = T(scale.at(batch));
    const T* q = in[0].row(query) + head * head_dim;
    double highest = -std::numeric_limits<double>::infinity();
    bool any = false;
    for (size_t u = 0; u < weights.size(); ++u) {
      weights[u] = T(0);
      slopes[u] = T(1);
      if (!allowed(u)) continue;
      const int64_t key = first_key + static_cast<int64_t>(u);
      const T* k = key_row(in[1], key, head);
      T score = T(0);
      for (int64_t c = 0; c < head_dim; ++c) score += q[c] * k[c];
      score *= factor;
      if (softcap > 0) {
        const T bent = std::tanh(score / T(softcap));
        slopes[u] = T(1) - bent * bent;
        score = T(softcap) * bent;
      }
      if (alibi) {
        const int64_t apart = positions(batch, queries)[query] - positions(batch, keys)[key];
        score -= T(alibi_slope(head, heads) * static_cast<double>(std::abs(apart)));
      }
      if (buckets > 0) score += in[3].row(bucket(batch, query, key))[head];
      weights[u] = score;
      if (!any || real_part(score) > highest) highest = real_part(score);
      any = true;
    }
    if (!any) return false;
    T sum = T(0);
    for (size_t u = 0; u < weights.size(); ++u) {
      if (!allowed(u)) continue;
      weights[u] = std::exp(weights[u] - T(highest));
      sum += weights[u];
    }
    for (T& weight : weights) weight /= sum;
    return true;
  }
};

}  // namespace addnorm::nodes
