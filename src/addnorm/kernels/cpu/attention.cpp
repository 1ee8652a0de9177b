// Attention by blocks of queries and keys. Forward: the running maximum and sum of a softmax (Milakov and
// Gimelshein, arXiv 1805.02867; blocks as in FlashAttention, Dao et al., arXiv 2205.14135). Backward:
// scores are computed again from q, k and the saved log-sum-exp.
#include <algorithm>
#include <cmath>
#include <limits>

#include "addnorm/base/error.h"
#include "addnorm/kernels/cpu/targets.h"
#include "addnorm/kernels/kernels.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "addnorm/kernels/cpu/attention.cpp"
#include "hwy/foreach_target.h"
// After foreach_target.h.
#include "addnorm/kernels/cpu/simd-inl.h"
#include "addnorm/kernels/cpu/tile-inl.h"
#include "hwy/highway.h"

// Not per instruction set: blocks and the division of the scratch.
#ifndef ADDNORM_KERNELS_ATTENTION_ONCE
#define ADDNORM_KERNELS_ATTENTION_ONCE
namespace addnorm::kernels {

inline constexpr Index kQueryBlock = 64;
inline constexpr Index kKeyBlock = 128;
inline constexpr Index kMostLanes = 16;  // of any instruction set

inline Index round_up(Index value, Index unit) { return (value + unit - 1) / unit * unit; }

// What is contiguous in scratch. Transposed blocks are [head_dim, kKeyBlock] for each block of keys;
// the others have rows of `width` floats, head_dim rounded up, the rest 0.
struct AttentionScratch {
  Index width, key_blocks;
  float* key_bias;           // [keys]: 0, or -inf for masked keys and padding
  float* key_places;         // [keys]: positions
  float* distance_bias;      // [2*span + 1 (+ lanes)]: the t5 bias of one head by distance
  float* distance_sums;      // its gradient
  float* keys_transposed;    // times scale
  float* values_transposed;  // backward
  float *keys, *values;      // rows; keys in the backward, values in the forward pass
  float *key_gradients, *value_gradients;    // rows
  float *scores, *score_gradients;           // [kQueryBlock, kKeyBlock]
  float *queries, *out_gradients, *results;  // [kQueryBlock, width]; results: out or dq
  float *maxima, *totals;                    // [kQueryBlock]; backward: lse and <out, dout>
  Index floats;

  AttentionScratch(const AttentionSpec& spec, bool backward, float* start) {
    width = round_up(spec.head_dim, kMostLanes);
    key_blocks = (spec.keys + kKeyBlock - 1) / kKeyBlock;
    const Index padded = key_blocks * kKeyBlock;
    const Index distances = spec.table != nullptr ? 2 * spec.span + 1 + kMostLanes : 0;
    floats = 0;
    const auto take = [&](Index count) {
      float* const place = start == nullptr ? nullptr : start + floats;
      floats += round_up(count, kMostLanes);
      return place;
    };
    const Index back = backward ? 1 : 0;
    key_bias = take(padded);
    key_places = take(padded);
    distance_bias = take(distances);
    distance_sums = take(back * distances);
    keys_transposed = take(padded * spec.head_dim);
    values_transposed = take(back * padded * spec.head_dim);
    keys = take(back * padded * width);
    values = take((1 - back) * padded * width);
    key_gradients = take(back * padded * width);
    value_gradients = take(back * padded * width);
    scores = take(kQueryBlock * kKeyBlock);
    score_gradients = take(back * kQueryBlock * kKeyBlock);
    queries = take(back * kQueryBlock * width);
    out_gradients = take(back * kQueryBlock * width);
    results = take(kQueryBlock * width);
    maxima = take(kQueryBlock);
    totals = take(kQueryBlock);
  }
};

}  // namespace addnorm::kernels
#endif

HWY_BEFORE_NAMESPACE();
namespace addnorm::kernels::HWY_NAMESPACE {

inline constexpr float kMinusInfinity = -std::numeric_limits<float>::infinity();

// rows[count, width] = from[count, head_dim] with the given pitch, padded by 0.
HWY_INLINE void pack_rows(Index count, Index head_dim, Index width, const float* from, Index pitch,
                          float* rows) {
  for (Index row = 0; row < count; ++row) {
    const float* x = from + row * pitch;
    float* y = rows + row * width;
    sweep(0, head_dim, [&](auto io, Index i) HWY_ATTR { io.store(io.load(x + i), y + i); });
    for (Index i = head_dim; i < width; ++i) y[i] = 0;
  }
}

// blocks[block][head_dim][kKeyBlock] = factor * from, padded by 0.
HWY_INLINE void pack_transposed(Index count, Index head_dim, float factor, const float* from,
                                Index pitch, float* blocks) {
  for (Index first = 0; first < count; first += kKeyBlock) {
    const Index size = std::min(kKeyBlock, count - first);
    const Index padded = round_up(size, kMostLanes);
    float* block = blocks + first * head_dim;
    for (Index channel = 0; channel < head_dim; ++channel) {
      const float* x = from + first * pitch + channel;
      float* y = block + channel * kKeyBlock;
      for (Index i = 0; i < size; ++i) y[i] = x[i * pitch] * factor;
      for (Index i = size; i < padded; ++i) y[i] = 0;
    }
  }
}

// to[count, head_dim] (+)= factor * rows, from padded rows back to a pitch.
HWY_INLINE void unpack_rows(Index count, Index head_dim, Index width, float factor,
                            const float* rows, float* to, Index pitch, bool accumulate) {
  const auto by = set(factor);
  for (Index row = 0; row < count; ++row) {
    const float* x = rows + row * width;
    float* y = to + row * pitch;
    sweep(0, head_dim, [&](auto io, Index i) HWY_ATTR {
      put(io, hn::Mul(by, io.load(x + i)), y + i, accumulate);
    });
  }
}

// Scores of one head beyond the product of q and k: all that depends on distance, and the cap.
class Scores {
 public:
  Scores(const AttentionSpec& spec, const AttentionScratch& scratch)
      : spec_(spec), scratch_(scratch) {
    for (Index j = 0; j < scratch.key_blocks * kKeyBlock; ++j) {
      const bool real = j < spec.keys && (spec.key_mask == nullptr || spec.key_mask[j] != 0);
      scratch.key_bias[j] = real ? 0.0F : kMinusInfinity;
      scratch.key_places[j] = j < spec.keys ? static_cast<float>(key_position(j)) : 0.0F;
    }
    for (Index j = 1; j < spec.keys; ++j) {
      if (key_position(j) != key_position(0) + j) consecutive_ = false;
    }
  }

  void start_head(Index head) {
    slope_ = spec_.slopes != nullptr ? spec_.slopes[head] : 0.0F;
    if (spec_.table == nullptr) return;
    for (Index d = 0; d < 2 * spec_.span + 1; ++d) {
      scratch_.distance_bias[d] = spec_.table[spec_.buckets[d] * spec_.heads + head];
    }
    std::fill_n(scratch_.distance_bias + 2 * spec_.span + 1, kMostLanes, 0.0F);
  }

  // The products of q and k are the scores already.
  bool plain() const {
    return spec_.softcap <= 0 && spec_.slopes == nullptr && spec_.table == nullptr &&
           spec_.key_mask == nullptr;
  }

  // Keys of the block from `first` that query i sees, masked ones included.
  Index visible(Index i, Index first) const {
    const Index end = spec_.causal ? std::min(spec_.keys, i + 1) : spec_.keys;
    return std::clamp(end - first, Index{0}, kKeyBlock);
  }

  // Prepares row i of the block of keys from `first`.
  HWY_INLINE void start_row(Index i, Index first, Index seen) {
    first_ = first;
    const Index position = query_position(i);
    place_ = static_cast<float>(position);
    if (spec_.table == nullptr) return;
    if (consecutive_) {
      biases_ = scratch_.distance_bias + distance(position, first);
    } else {
      for (Index j = 0; j < seen; ++j) {
        gathered_[j] = scratch_.distance_bias[distance(position, first + j)];
      }
      biases_ = gathered_;
    }
  }

  // The final scores of columns j.. of the row from the products of q and k; columns from `seen` on
  // are -inf. `slope` receives the derivative of the cap.
  HWY_INLINE Vector finish(Vector s, Index j, Index seen, Vector* slope) const {
    if (spec_.softcap > 0) {
      const auto t = tanh(hn::Mul(s, set(1 / spec_.softcap)));
      s = hn::Mul(t, set(spec_.softcap));
      if (slope != nullptr) *slope = hn::NegMulAdd(t, t, set(1));
    }
    if (spec_.slopes != nullptr) {
      const auto places = hn::LoadU(Floats(), scratch_.key_places + first_ + j);
      s = hn::NegMulAdd(set(slope_), hn::Abs(hn::Sub(places, set(place_))), s);
    }
    if (spec_.table != nullptr) s = hn::Add(s, hn::LoadU(Floats(), biases_ + j));
    s = hn::Add(s, hn::LoadU(Floats(), scratch_.key_bias + first_ + j));
    if (j + lanes() <= seen) return s;
    const auto real = hn::FirstN(Floats(), static_cast<size_t>(seen - j));
    return hn::IfThenElse(real, s, set(kMinusInfinity));
  }

  // Adds the gradients by the final scores of columns j.. of the row to the sums by distance; those
  // of columns that the row does not see are 0.
  HWY_INLINE void add_distances(Index i, Index j, Index seen, Vector gradients) const {
    const Index position = query_position(i);
    if (consecutive_) {
      float* sums = scratch_.distance_sums + distance(position, first_) + j;
      hn::StoreU(hn::Add(hn::LoadU(Floats(), sums), gradients), Floats(), sums);
      return;
    }
    HWY_ALIGN float buffer[hn::MaxLanes(Floats())];
    hn::Store(gradients, Floats(), buffer);
    for (Index column = j; column < std::min(seen, j + lanes()); ++column) {
      scratch_.distance_sums[distance(position, first_ + column)] += buffer[column - j];
    }
  }

 private:
  Index query_position(Index i) const {
    return spec_.query_positions != nullptr ? spec_.query_positions[i] : i;
  }
  Index key_position(Index j) const {
    return spec_.key_positions != nullptr ? spec_.key_positions[j] : j;
  }
  Index distance(Index position, Index j) const { return key_position(j) - position + spec_.span; }

  const AttentionSpec& spec_;
  const AttentionScratch& scratch_;
  bool consecutive_ = true;
  Index first_ = 0;
  float slope_ = 0;
  float place_ = 0;
  const float* biases_ = nullptr;
  float gathered_[kKeyBlock + kMostLanes] = {};
};

// One block of queries of one head over all keys that it sees.
HWY_INLINE void forward_block(const AttentionSpec& spec, const AttentionScratch& scratch,
                              Scores& score, Index first_row, Index rows, const float* q,
                              Index q_pitch, float* out, Index out_pitch, float* lse) {
  const Index width = lanes();
  const Index out_vectors = round_up(spec.head_dim, width) / width;
  for (Index i = 0; i < rows; ++i) {
    scratch.maxima[i] = kMinusInfinity;
    scratch.totals[i] = 0;
  }
  for (Index block = 0; block < scratch.key_blocks; ++block) {
    const Index first = block * kKeyBlock;
    if (block > 0 && score.visible(first_row + rows - 1, first) == 0) break;
    const float* transposed = scratch.keys_transposed + first * spec.head_dim;
    for (Index tile = 0; tile < rows; tile += kTileRows) {
      const Index size = std::min(kTileRows, rows - tile);
      // The last row of the tile sees most.
      const Index depth = score.visible(first_row + tile + size - 1, first);
      const Index vectors = round_up(depth, width) / width;
      float* scores = scratch.scores + tile * kKeyBlock;
      multiply_tile(size, vectors, spec.head_dim, q + tile * q_pitch, q_pitch, 1, transposed,
                    kKeyBlock, scores, kKeyBlock, false);
      for (Index r = 0; r < size; ++r) {
        const Index i = tile + r;
        const Index seen = score.visible(first_row + i, first);
        float* row = scores + r * kKeyBlock;
        score.start_row(first_row + i, first, seen);
        auto largest = set(kMinusInfinity);
        // Whole vectors of plain scores stay as the product left them.
        const Index whole = score.plain() ? seen / width * width : 0;
        for (Index j = 0; j < whole; j += width) {
          largest = hn::Max(largest, hn::LoadU(Floats(), row + j));
        }
        for (Index j = whole; j < seen; j += width) {
          const auto s = score.finish(hn::LoadU(Floats(), row + j), j, seen, nullptr);
          hn::StoreU(s, Floats(), row + j);
          largest = hn::Max(largest, s);
        }
        const float before = scratch.maxima[i];
        const float now = std::max(before, max_of(largest));
        const float shift = now == kMinusInfinity ? 0.0F : now;
        const float fade = block == 0 ? 0.0F : std::exp(before - shift);
        auto total = zero();
        for (Index j = 0; j < seen; j += width) {
          const auto p = exp_nonpositive(hn::Sub(hn::LoadU(Floats(), row + j), set(shift)));
          hn::StoreU(p, Floats(), row + j);
          total = hn::Add(total, p);
        }
        for (Index j = round_up(seen, width); j < vectors * width; j += width) {
          hn::StoreU(zero(), Floats(), row + j);
        }
        scratch.maxima[i] = now;
        scratch.totals[i] = scratch.totals[i] * fade + sum_of(total);
        if (block > 0 && fade != 1) {
          float* result = scratch.results + i * scratch.width;
          for (Index v = 0; v < out_vectors * width; v += width) {
            hn::StoreU(hn::Mul(set(fade), hn::LoadU(Floats(), result + v)), Floats(), result + v);
          }
        }
      }
      multiply_tile(size, out_vectors, depth, scores, kKeyBlock, 1,
                    scratch.values + first * scratch.width, scratch.width,
                    scratch.results + tile * scratch.width, scratch.width, block > 0);
    }
  }
  for (Index i = 0; i < rows; ++i) {
    // A NaN among the scores is in the total, not in the maximum.
    const float total = scratch.totals[i];
    const bool empty = total == 0;
    lse[i * spec.heads] =
        empty ? std::numeric_limits<float>::infinity() : scratch.maxima[i] + std::log(total);
    if (empty) {
      std::fill_n(out + i * out_pitch, spec.head_dim, 0.0F);
    } else {
      unpack_rows(1, spec.head_dim, scratch.width, 1 / total, scratch.results + i * scratch.width,
                  out + i * out_pitch, out_pitch, false);
    }
  }
}

void attention_all(const AttentionSpec& spec, Index kv_begin, Index kv_end, const float* q,
                   Index q_pitch, const float* k, Index k_pitch, const float* v, Index v_pitch,
                   float* out, Index out_pitch, float* lse, float* scratch_floats) {
  const AttentionScratch scratch(spec, false, scratch_floats);
  const Index e = spec.head_dim;
  const Index group = spec.heads / spec.kv_heads;
  Scores score(spec, scratch);
  for (Index kv = kv_begin; kv < kv_end; ++kv) {
    pack_transposed(spec.keys, e, spec.scale, k + kv * e, k_pitch, scratch.keys_transposed);
    pack_rows(spec.keys, e, scratch.width, v + kv * e, v_pitch, scratch.values);
    for (Index head = kv * group; head < (kv + 1) * group; ++head) {
      score.start_head(head);
      for (Index first = 0; first < spec.queries; first += kQueryBlock) {
        const Index rows = std::min(kQueryBlock, spec.queries - first);
        forward_block(spec, scratch, score, first, rows, q + first * q_pitch + head * e, q_pitch,
                      out + first * out_pitch + head * e, out_pitch,
                      lse + first * spec.heads + head);
      }
    }
  }
}

// One block of queries of one head: adds to the key and value gradients of its key head and leaves the
// block's query gradient in results.
HWY_INLINE void backward_block(const AttentionSpec& spec, const AttentionScratch& scratch,
                               Scores& score, Index first_row, Index rows, bool table_gradient) {
  const Index width = lanes();
  const Index vectors_e = round_up(spec.head_dim, width) / width;
  if (spec.keys == 0) std::fill_n(scratch.results, rows * scratch.width, 0.0F);
  for (Index block = 0; block < scratch.key_blocks; ++block) {
    const Index first = block * kKeyBlock;
    if (block > 0 && score.visible(first_row + rows - 1, first) == 0) break;
    const Index most = score.visible(first_row + rows - 1, first);
    const Index block_columns = round_up(most, width);
    const float* keys_transposed = scratch.keys_transposed + first * spec.head_dim;
    const float* values_transposed = scratch.values_transposed + first * spec.head_dim;
    for (Index tile = 0; tile < rows; tile += kTileRows) {
      const Index size = std::min(kTileRows, rows - tile);
      const Index depth = score.visible(first_row + tile + size - 1, first);
      const Index vectors = round_up(depth, width) / width;
      float* scores = scratch.scores + tile * kKeyBlock;
      float* gradients = scratch.score_gradients + tile * kKeyBlock;
      multiply_tile(size, vectors, spec.head_dim, scratch.queries + tile * scratch.width,
                    scratch.width, 1, keys_transposed, kKeyBlock, scores, kKeyBlock, false);
      multiply_tile(size, vectors, spec.head_dim, scratch.out_gradients + tile * scratch.width,
                    scratch.width, 1, values_transposed, kKeyBlock, gradients, kKeyBlock, false);
      for (Index r = 0; r < size; ++r) {
        const Index i = tile + r;
        const Index seen = score.visible(first_row + i, first);
        float* row = scores + r * kKeyBlock;
        float* gradient = gradients + r * kKeyBlock;
        score.start_row(first_row + i, first, seen);
        const auto shift = set(scratch.maxima[i]);
        const auto along = set(scratch.totals[i]);
        const bool capped = spec.softcap > 0;
        for (Index j = 0; j < seen; j += width) {
          auto slope = set(1);
          const auto s = score.finish(hn::LoadU(Floats(), row + j), j, seen, &slope);
          const auto p = exp_nonpositive(hn::Sub(s, shift));
          auto ds = hn::Mul(p, hn::Sub(hn::LoadU(Floats(), gradient + j), along));
          hn::StoreU(p, Floats(), row + j);
          if (table_gradient) score.add_distances(first_row + i, j, seen, ds);
          if (capped) ds = hn::Mul(ds, slope);
          hn::StoreU(ds, Floats(), gradient + j);
        }
        for (Index j = round_up(seen, width); j < block_columns; j += width) {
          hn::StoreU(zero(), Floats(), row + j);
          hn::StoreU(zero(), Floats(), gradient + j);
        }
      }
      multiply_tile(size, vectors_e, depth, gradients, kKeyBlock, 1,
                    scratch.keys + first * scratch.width, scratch.width,
                    scratch.results + tile * scratch.width, scratch.width, block > 0);
    }
    for (Index tile = 0; tile < most; tile += kTileRows) {
      const Index size = std::min(kTileRows, most - tile);
      // Earlier queries do not see these keys.
      const Index start = spec.causal ? std::max(Index{0}, first + tile - first_row) : 0;
      if (start >= rows) break;
      const Index key = first + tile;
      multiply_tile(size, vectors_e, rows - start, scratch.scores + start * kKeyBlock + tile, 1,
                    kKeyBlock, scratch.out_gradients + start * scratch.width, scratch.width,
                    scratch.value_gradients + key * scratch.width, scratch.width, true);
      multiply_tile(size, vectors_e, rows - start,
                    scratch.score_gradients + start * kKeyBlock + tile, 1, kKeyBlock,
                    scratch.queries + start * scratch.width, scratch.width,
                    scratch.key_gradients + key * scratch.width, scratch.width, true);
    }
  }
}

void attention_backward_all(const AttentionSpec& spec, Index kv_begin, Index kv_end, const float* q,
                            Index q_pitch, const float* k, Index k_pitch, const float* v,
                            Index v_pitch, const float* out, Index out_pitch, const float* lse,
                            const float* dout, const AttentionGradients& gradients,
                            float* scratch_floats) {
  const AttentionScratch scratch(spec, true, scratch_floats);
  const Index e = spec.head_dim;
  const Index width = scratch.width;
  const Index group = spec.heads / spec.kv_heads;
  const bool table_gradient = spec.table != nullptr && gradients.dtable != nullptr;
  Scores score(spec, scratch);
  for (Index kv = kv_begin; kv < kv_end; ++kv) {
    pack_transposed(spec.keys, e, spec.scale, k + kv * e, k_pitch, scratch.keys_transposed);
    pack_transposed(spec.keys, e, 1, v + kv * e, v_pitch, scratch.values_transposed);
    pack_rows(spec.keys, e, width, k + kv * e, k_pitch, scratch.keys);
    std::fill_n(scratch.key_gradients, spec.keys * width, 0.0F);
    std::fill_n(scratch.value_gradients, spec.keys * width, 0.0F);
    for (Index head = kv * group; head < (kv + 1) * group; ++head) {
      score.start_head(head);
      if (table_gradient) {
        std::fill_n(scratch.distance_sums, 2 * spec.span + 1 + kMostLanes, 0.0F);
      }
      for (Index first = 0; first < spec.queries; first += kQueryBlock) {
        const Index rows = std::min(kQueryBlock, spec.queries - first);
        const Index q_start = first * q_pitch + head * e;
        const Index out_start = first * out_pitch + head * e;
        pack_rows(rows, e, width, q + q_start, q_pitch, scratch.queries);
        pack_rows(rows, e, width, dout + out_start, out_pitch, scratch.out_gradients);
        for (Index i = 0; i < rows; ++i) {
          scratch.maxima[i] = lse[(first + i) * spec.heads + head];
          const float* y = out + out_start + i * out_pitch;
          const float* g = scratch.out_gradients + i * width;
          scratch.totals[i] = sum_of(sum_terms(e, [&](auto io, Index c) HWY_ATTR {
            return hn::Mul(io.load(y + c), io.load(g + c));
          }));
        }
        backward_block(spec, scratch, score, first, rows, table_gradient);
        unpack_rows(rows, e, width, spec.scale, scratch.results, gradients.dq + q_start, q_pitch,
                    gradients.accumulate_q);
      }
      if (!table_gradient) continue;
      for (Index d = 0; d < 2 * spec.span + 1; ++d) {
        gradients.dtable[spec.buckets[d] * spec.heads + head] += scratch.distance_sums[d];
      }
    }
    unpack_rows(spec.keys, e, width, spec.scale, scratch.key_gradients, gradients.dk + kv * e,
                k_pitch, gradients.accumulate_k);
    unpack_rows(spec.keys, e, width, 1, scratch.value_gradients, gradients.dv + kv * e, v_pitch,
                gradients.accumulate_v);
  }
}

}  // namespace addnorm::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace addnorm::kernels {

HWY_EXPORT(attention_all);
HWY_EXPORT(attention_backward_all);

Index attention_scratch(const AttentionSpec& spec, bool backward) {
  return AttentionScratch(spec, backward, nullptr).floats;
}

void attention(const AttentionSpec& spec, Index kv_begin, Index kv_end, const float* q,
               Index q_pitch, const float* k, Index k_pitch, const float* v, Index v_pitch,
               float* out, Index out_pitch, float* lse, float* scratch) {
  ADDNORM_ASSERT(spec.heads % spec.kv_heads == 0);
  HWY_DYNAMIC_DISPATCH(attention_all)
  (spec, kv_begin, kv_end, q, q_pitch, k, k_pitch, v, v_pitch, out, out_pitch, lse, scratch);
}

void attention_backward(const AttentionSpec& spec, Index kv_begin, Index kv_end, const float* q,
                        Index q_pitch, const float* k, Index k_pitch, const float* v, Index v_pitch,
                        const float* out, Index out_pitch, const float* lse, const float* dout,
                        const AttentionGradients& gradients, float* scratch) {
  HWY_DYNAMIC_DISPATCH(attention_backward_all)
  (spec, kv_begin, kv_end, q, q_pitch, k, k_pitch, v, v_pitch, out, out_pitch, lse, dout, gradients,
   scratch);
}

}  // namespace addnorm::kernels
#endif
