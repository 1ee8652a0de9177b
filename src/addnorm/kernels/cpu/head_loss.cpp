// The output head: logits of some rows at a time, their loss and gradient in the same buffer.
#include <algorithm>
#include <cmath>
#include <limits>

#include "addnorm/base/error.h"
#include "addnorm/kernels/cpu/targets.h"
#include "addnorm/kernels/kernels.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "addnorm/kernels/cpu/head_loss.cpp"
#include "hwy/foreach_target.h"
// After foreach_target.h.
#include "addnorm/kernels/cpu/simd-inl.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace addnorm::kernels::HWY_NAMESPACE {

// From x w^T to logits, in place.
void finish_logits_all(const HeadSpec& spec, Index rows, float* work) {
  const auto factor = set(spec.logit_scale);
  const auto cap = set(spec.softcap);
  const auto inverse_cap = set(1 / spec.softcap);
  const bool capped = spec.softcap > 0;
  if (spec.bias == nullptr && spec.logit_scale == 1 && !capped) return;
  for (Index row = 0; row < rows; ++row) {
    float* z = work + row * spec.vocab;
    sweep(0, spec.vocab, [&](auto io, Index i) HWY_ATTR {
      auto u = io.load(z + i);
      if (spec.bias != nullptr) u = hn::Add(u, io.load(spec.bias + i));
      u = hn::Mul(u, factor);
      if (capped) u = hn::Mul(cap, tanh(hn::Mul(u, inverse_cap)));
      io.store(u, z + i);
    });
  }
}

struct RowSums {
  float shift = 0;       // the largest logit
  double total = 0;      // sum of exp(logit - shift)
  double log_total = 0;  // log of the sum of exp(logit)
  double mean = 0;       // of the logits
};

HWY_INLINE RowSums row_sums(Index vocab, const float* z, bool want_mean) {
  const auto lowest = set(-std::numeric_limits<float>::infinity());
  auto largest = lowest;
  sweep(0, vocab, [&](auto io, Index i) HWY_ATTR {
    largest = hn::Max(largest, io.keep_or(io.load(z + i), lowest));
  });
  const float shift = max_of(largest);
  constexpr Index kBlock = 4096;
  double total = 0;
  double sum = 0;
  for (Index begin = 0; begin < vocab; begin += kBlock) {
    const Index size = std::min(kBlock, vocab - begin);
    total += sum_of(sum_terms(size, [&](auto io, Index i) HWY_ATTR {
      return io.keep(exp_nonpositive(hn::Sub(io.load(z + begin + i), set(shift))));
    }));
    if (want_mean) {
      sum += sum_of(
          sum_terms(size, [&](auto io, Index i) HWY_ATTR { return io.load(z + begin + i); }));
    }
  }
  return {shift, total, double{shift} + std::log(total), sum / static_cast<double>(vocab)};
}

// The gradient by the logits, then by x w^T + bias, in place of the logits. The probabilities are
// exp(logit - largest)/total: exp(logit - log_total) would carry the rounding of large logits.
HWY_INLINE void row_gradient(const HeadSpec& spec, const RowSums& sums, int32_t target, float* z,
                             float* dlogits) {
  const double weight = spec.row_weight;
  const auto shift = set(sums.shift);
  const auto factor =
      set(static_cast<float>(weight * (1 + 2 * spec.z_loss * sums.log_total) / sums.total));
  const auto even =
      set(static_cast<float>(-weight * spec.label_smoothing / static_cast<double>(spec.vocab)));
  const auto logit_scale = set(spec.logit_scale);
  const auto inverse_cap = set(spec.softcap > 0 ? 1 / spec.softcap : 0.0F);
  const float target_logit = z[target];
  sweep(0, spec.vocab, [&](auto io, Index i) HWY_ATTR {
    const auto logit = io.load(z + i);
    const auto dz = hn::MulAdd(exp_nonpositive(hn::Sub(logit, shift)), factor, even);
    if (dlogits != nullptr) io.store(dz, dlogits + i);
    const auto t = hn::Mul(logit, inverse_cap);
    io.store(hn::Mul(hn::Mul(dz, hn::NegMulAdd(t, t, set(1))), logit_scale), z + i);
  });
  const auto at_target = static_cast<float>(weight * (1 - double{spec.label_smoothing}));
  if (dlogits != nullptr) dlogits[target] -= at_target;
  const float t = spec.softcap > 0 ? target_logit / spec.softcap : 0.0F;
  z[target] -= at_target * (1 - t * t) * spec.logit_scale;
}

HeadLoss losses_all(const HeadSpec& spec, Index rows, const int32_t* targets, bool gradient,
                    float* work, float* dlogits) {
  HeadLoss result;
  for (Index row = 0; row < rows; ++row) {
    float* z = work + row * spec.vocab;
    float* copy = dlogits == nullptr ? nullptr : dlogits + row * spec.vocab;
    if (targets[row] == kIgnoredTarget) {
      if (!gradient) continue;
      fill(spec.vocab, 0, z);
      if (copy != nullptr) fill(spec.vocab, 0, copy);
      continue;
    }
    const RowSums sums = row_sums(spec.vocab, z, spec.label_smoothing != 0);
    const double smoothing = spec.label_smoothing;
    result.loss += (1 - smoothing) * (sums.log_total - double{z[targets[row]]}) +
                   double{spec.z_loss} * sums.log_total * sums.log_total;
    if (smoothing != 0) result.loss += smoothing * (sums.log_total - sums.mean);
    ++result.targets;
    if (gradient) row_gradient(spec, sums, targets[row], z, copy);
  }
  return result;
}

}  // namespace addnorm::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace addnorm::kernels {

HWY_EXPORT(finish_logits_all);
HWY_EXPORT(losses_all);

Index head_chunk_rows(Index vocab) {
  constexpr Index kFloats = Index{1} << 23;
  return std::clamp(kFloats / std::max(vocab, Index{1}), Index{32}, Index{256});
}

HeadLoss head_chunk(const HeadSpec& spec, Index rows, const float* x, const int32_t* targets,
                    bool gradient, float* work, float* logits, float* dlogits, float* dx,
                    bool accumulate_x) {
  linear(rows, spec.vocab, spec.width, x, spec.w, nullptr, work);
  HWY_DYNAMIC_DISPATCH(finish_logits_all)(spec, rows, work);
  if (logits != nullptr) std::copy_n(work, rows * spec.vocab, logits);
  if (targets == nullptr) return {};
  for (Index row = 0; row < rows; ++row) {
    ADDNORM_ASSERT(targets[row] == kIgnoredTarget ||
                   (targets[row] >= 0 && targets[row] < spec.vocab));
  }
  const HeadLoss result =
      HWY_DYNAMIC_DISPATCH(losses_all)(spec, rows, targets, gradient, work, dlogits);
  if (gradient && dx != nullptr) {
    linear_dx(rows, spec.vocab, spec.width, work, spec.w, dx, accumulate_x);
  }
  return result;
}

void head_weight_gradients(const HeadSpec& spec, Index rows, const float* x, const float* work,
                           Index v_begin, Index v_end, float* dw, float* dbias) {
  matmul(true, false, v_end - v_begin, spec.width, rows, work + v_begin, spec.vocab, x, spec.width,
         dw + v_begin * spec.width, spec.width, true);
  if (dbias == nullptr) return;
  for (Index row = 0; row < rows; ++row) {
    add(v_end - v_begin, work + row * spec.vocab + v_begin, dbias + v_begin);
  }
}

HeadLoss head_loss(const HeadSpec& spec, Index rows, const float* x, const int32_t* targets,
                   float* work, float* logits, float* dlogits, float* dx, bool accumulate_x,
                   float* dw, float* dbias) {
  const Index chunk = head_chunk_rows(spec.vocab);
  const auto from = [](float* start, Index offset) {
    return start == nullptr ? nullptr : start + offset;
  };
  HeadLoss result;
  for (Index row = 0; row < rows; row += chunk) {
    const Index size = std::min(chunk, rows - row);
    const float* rows_x = x + row * spec.width;
    const HeadLoss part =
        head_chunk(spec, size, rows_x, targets == nullptr ? nullptr : targets + row, dw != nullptr,
                   work, from(logits, row * spec.vocab), from(dlogits, row * spec.vocab),
                   from(dx, row * spec.width), accumulate_x);
    result.loss += part.loss;
    result.targets += part.targets;
    if (dw != nullptr && targets != nullptr) {
      head_weight_gradients(spec, size, rows_x, work, 0, spec.vocab, dw, dbias);
    }
  }
  return result;
}

}  // namespace addnorm::kernels
#endif
