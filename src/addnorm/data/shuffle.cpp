#include "addnorm/data/shuffle.h"

#include <algorithm>
#include <bit>

#include "addnorm/base/error.h"

namespace addnorm::data {

// The paper proves 6·log2(n) rounds; 24 more make small n uniform as well.
Shuffle::Shuffle(Random random, int64_t n)
    : random_(random),
      n_(n),
      rounds_(24 + 6 * static_cast<int>(std::bit_width(static_cast<uint64_t>(n)))) {
  ADDNORM_ASSERT(n > 0);
}

int64_t Shuffle::operator()(int64_t position) const {
  ADDNORM_ASSERT(position >= 0 && position < n_);
  int64_t x = position;
  for (int round = 0; round < rounds_; ++round) {
    const auto r = static_cast<uint64_t>(round);
    const auto key = static_cast<int64_t>(random_.below(r << 54, static_cast<uint64_t>(n_)));
    const int64_t partner = key >= x ? key - x : key - x + n_;
    const auto pair = static_cast<uint64_t>(std::max(x, partner));
    if (random_.bits((r << 54) + 1 + pair) >> 63) x = partner;
  }
  return x;
}

}  // namespace addnorm::data
