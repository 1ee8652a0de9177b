// Counter-based random numbers (Philox 4x32-10, Salmon et al., SC 2011): a draw is a function of
// (seed, stream, index) alone, so order, thread count and resuming never change it.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

namespace addnorm {

class Random {
 public:
  Random(uint64_t seed, uint64_t stream) : seed_(seed), stream_(stream) {}
  // A stream named by text, e.g. a parameter's name.
  Random(uint64_t seed, std::string_view stream) : Random(seed, hash(stream)) {}

  // The 128 random bits at `index`.
  std::array<uint32_t, 4> block(uint64_t index) const;
  uint64_t bits(uint64_t index) const;
  double uniform(uint64_t index) const;              // [0, 1), 53 bits
  uint64_t below(uint64_t index, uint64_t n) const;  // 0..n-1, n > 0; bias below n / 2^64
  double normal(uint64_t index) const;               // mean 0, standard deviation 1 (Box-Muller)

  static uint64_t hash(std::string_view text);  // FNV-1a, 64 bits

 private:
  uint64_t seed_;
  uint64_t stream_;
};

}  // namespace addnorm
