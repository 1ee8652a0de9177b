#include "addnorm/data/shuffle.h"

#include <algorithm>
#include <bit>

#include "addnorm/base/error.h"

namespace addnorm::data {
namespace {

// The finalizer of SplitMix64 (Steele, Lea and Flood, OOPSLA 2014).
uint64_t mixed(uint64_t value) {
  value = (value ^ (value >> 30)) * 0xBF58476D1CE4E5B9;
  value = (value ^ (value >> 27)) * 0x94D049BB133111EB;
  return value ^ (value >> 31);
}

}  // namespace

// The paper proves about 6·log2(n) rounds; 24 more make small n uniform as well.
Shuffle::Shuffle(const Random& random, int64_t n)
    : n_(n), count_(24 + 6 * static_cast<int>(std::bit_width(static_cast<uint64_t>(n)))) {
  ADDNORM_ASSERT(n > 0);
  for (int i = 0; i < count_; ++i) {
    const auto index = 2 * static_cast<uint64_t>(i);
    rounds_[static_cast<size_t>(i)] = {
        static_cast<int64_t>(random.below(index, static_cast<uint64_t>(n))),
        random.bits(index + 1)};
  }
}

int64_t Shuffle::operator()(int64_t position) const {
  ADDNORM_ASSERT(position >= 0 && position < n_);
  int64_t x = position;
  for (int i = 0; i < count_; ++i) {
    const Round& round = rounds_[static_cast<size_t>(i)];
    const int64_t partner = round.key >= x ? round.key - x : round.key - x + n_;
    const auto pair = static_cast<uint64_t>(std::max(x, partner));
    if (mixed(round.secret + pair * 0x9E3779B97F4A7C15) >> 63) x = partner;
  }
  return x;
}

}  // namespace addnorm::data
