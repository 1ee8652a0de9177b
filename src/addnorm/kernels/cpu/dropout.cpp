// Dropout by counter-based random numbers: base/random.h, several blocks at once.
#include <cmath>

#include "addnorm/base/error.h"
#include "addnorm/base/random.h"
#include "addnorm/kernels/cpu/targets.h"
#include "addnorm/kernels/kernels.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "addnorm/kernels/cpu/dropout.cpp"
#include "hwy/foreach_target.h"
// After foreach_target.h.
#include "addnorm/kernels/cpu/simd-inl.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace addnorm::kernels::HWY_NAMESPACE {

constexpr Index kBlocks = 64;  // of four words

// words[4*kBlocks]: the blocks first_block .. first_block + kBlocks - 1 of Philox 4x32-10.
void random_words(uint64_t seed, uint64_t stream, uint64_t first_block, uint32_t* words) {
#if HWY_TARGET == HWY_SCALAR
  const Random random(seed, stream);
  for (Index i = 0; i < kBlocks; ++i) {
    const auto block = random.block(first_block + static_cast<uint64_t>(i));
    for (size_t word = 0; word < 4; ++word) words[4 * i + static_cast<Index>(word)] = block[word];
  }
#else
  // One block per 64-bit lane, its words in the lower halves.
  const hn::ScalableTag<uint64_t> d;
  const hn::Repartition<uint32_t, decltype(d)> d32;
  const Index width = static_cast<Index>(hn::Lanes(d));
  const auto low_half = hn::Set(d, 0xFFFFFFFF);
  const auto product = [&](auto a, uint32_t factor) HWY_ATTR {
    return hn::MulEven(hn::BitCast(d32, a), hn::Set(d32, factor));
  };
  HWY_ALIGN uint64_t lane_words[4][hn::MaxLanes(d)];
  for (Index i = 0; i < kBlocks; i += width) {
    const auto index = hn::Iota(d, first_block + static_cast<uint64_t>(i));
    auto c0 = hn::And(index, low_half);
    auto c1 = hn::ShiftRight<32>(index);
    auto c2 = hn::Set(d, stream & 0xFFFFFFFF);
    auto c3 = hn::Set(d, stream >> 32);
    uint32_t key0 = static_cast<uint32_t>(seed);
    uint32_t key1 = static_cast<uint32_t>(seed >> 32);
    for (int round = 0; round < 10; ++round) {
      const auto product0 = product(c0, 0xD2511F53);
      const auto product1 = product(c2, 0xCD9E8D57);
      c0 = hn::Xor(hn::Xor(hn::ShiftRight<32>(product1), c1), hn::Set(d, key0));
      c2 = hn::Xor(hn::Xor(hn::ShiftRight<32>(product0), c3), hn::Set(d, key1));
      c1 = hn::And(product1, low_half);
      c3 = hn::And(product0, low_half);
      key0 += 0x9E3779B9;
      key1 += 0xBB67AE85;
    }
    hn::Store(c0, d, lane_words[0]);
    hn::Store(c1, d, lane_words[1]);
    hn::Store(c2, d, lane_words[2]);
    hn::Store(c3, d, lane_words[3]);
    for (Index lane = 0; lane < width; ++lane) {
      for (Index word = 0; word < 4; ++word) {
        words[4 * (i + lane) + word] = static_cast<uint32_t>(lane_words[word][lane]);
      }
    }
  }
#endif
}

void dropout_all(uint64_t seed, uint64_t stream, uint32_t threshold, float kept, uint64_t first,
                 Index count, const float* a, float* out, bool accumulate) {
  constexpr uint64_t kWords = 4 * kBlocks;
  uint32_t words[kWords];
  float factors[kWords];
  Index done = 0;
  while (done < count) {
    const uint64_t element = first + static_cast<uint64_t>(done);
    const uint64_t inside = element % kWords;
    random_words(seed, stream, (element - inside) / 4, words);
    for (uint64_t i = 0; i < kWords; ++i) factors[i] = words[i] >= threshold ? kept : 0.0F;
    const Index left = count - done;
    const Index here = static_cast<Index>(kWords - inside);
    const Index size = left < here ? left : here;
    const float* x = a + done;
    float* y = out + done;
    const float* factor = factors + inside;
    sweep(0, size, [&](auto io, Index i) HWY_ATTR {
      // A dropped element is 0 even if it was not finite.
      const auto by = io.load(factor + i);
      const auto value = hn::IfThenZeroElse(hn::Eq(by, zero()), hn::Mul(io.load(x + i), by));
      put(io, value, y + i, accumulate);
    });
    done += size;
  }
}

}  // namespace addnorm::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace addnorm::kernels {

HWY_EXPORT(dropout_all);

void dropout(uint64_t seed, uint64_t stream, float rate, uint64_t first, Index count,
             const float* a, float* out, bool accumulate) {
  ADDNORM_ASSERT(rate >= 0 && rate < 1);
  const auto threshold = static_cast<uint32_t>(std::lround(double{rate} * 4294967296.0));
  HWY_DYNAMIC_DISPATCH(dropout_all)
  (seed, stream, threshold, 1 / (1 - rate), first, count, a, out, accumulate);
}

}  // namespace addnorm::kernels
#endif
