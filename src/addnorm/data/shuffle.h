// A random order of 0..n-1 that takes no memory of its size: which element stands at a position is
// computed from (seed, stream, n). Swap-or-not shuffle of Hoang, Morris and Rogaway (CRYPTO 2012).
#pragma once

#include <array>
#include <cstdint>

#include "addnorm/base/random.h"

namespace addnorm::data {

class Shuffle {
 public:
  Shuffle(const Random& random, int64_t n);
  int64_t operator()(int64_t position) const;  // which element stands there, 0 ≤ position < n

 private:
  static constexpr int most_rounds = 24 + 6 * 63;
  struct Round {
    int64_t key;      // uniform in 0..n-1
    uint64_t secret;  // decides which pairs swap
  };
  int64_t n_;
  int count_;
  std::array<Round, most_rounds> rounds_;
};

}  // namespace addnorm::data
