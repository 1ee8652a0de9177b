// A random order of 0..n-1 that needs no memory: the position of each element is a function of
// (seed, stream, n) alone. Swap-or-not shuffle of Hoang, Morris and Rogaway (CRYPTO 2012).
#pragma once

#include <cstdint>

#include "addnorm/base/random.h"

namespace addnorm::data {

class Shuffle {
 public:
  Shuffle(Random random, int64_t n);
  int64_t operator()(int64_t position) const;  // which element stands there, 0 ≤ position < n

 private:
  Random random_;
  int64_t n_;
  int rounds_;
};

}  // namespace addnorm::data
