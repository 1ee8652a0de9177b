#include "addnorm/base/random.h"

#include <cmath>
#include <numbers>

namespace addnorm {

std::array<uint32_t, 4> Random::block(uint64_t index) const {
  std::array<uint32_t, 4> counter = {
      static_cast<uint32_t>(index), static_cast<uint32_t>(index >> 32),
      static_cast<uint32_t>(stream_), static_cast<uint32_t>(stream_ >> 32)};
  uint32_t key0 = static_cast<uint32_t>(seed_);
  uint32_t key1 = static_cast<uint32_t>(seed_ >> 32);
  for (int round = 0; round < 10; ++round) {
    const uint64_t product0 = uint64_t{0xD2511F53} * counter[0];
    const uint64_t product1 = uint64_t{0xCD9E8D57} * counter[2];
    counter = {
        static_cast<uint32_t>(product1 >> 32) ^ counter[1] ^ key0, static_cast<uint32_t>(product1),
        static_cast<uint32_t>(product0 >> 32) ^ counter[3] ^ key1, static_cast<uint32_t>(product0)};
    key0 += 0x9E3779B9;
    key1 += 0xBB67AE85;
  }
  return counter;
}

uint64_t Random::bits(uint64_t index) const {
  const auto words = block(index);
  return uint64_t{words[0]} << 32 | words[1];
}

double Random::uniform(uint64_t index) const {
  return static_cast<double>(bits(index) >> 11) * 0x1p-53;
}

uint64_t Random::below(uint64_t index, uint64_t n) const {
  return static_cast<uint64_t>((static_cast<unsigned __int128>(bits(index)) * n) >> 64);
}

double Random::normal(uint64_t index) const {
  const auto words = block(index);
  const uint64_t first = uint64_t{words[0]} << 32 | words[1];
  const uint64_t second = uint64_t{words[2]} << 32 | words[3];
  const double u = (static_cast<double>(first >> 11) + 1) * 0x1p-53;  // (0, 1]
  const double angle = 2 * std::numbers::pi * static_cast<double>(second >> 11) * 0x1p-53;
  return std::sqrt(-2 * std::log(u)) * std::cos(angle);
}

uint64_t Random::hash(std::string_view text) {
  uint64_t value = 0xCBF29CE484222325;
  for (const char c : text) value = (value ^ static_cast<unsigned char>(c)) * 0x100000001B3;
  return value;
}

}  // namespace addnorm
