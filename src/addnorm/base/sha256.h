// SHA-256 (FIPS 180-4) of bytes that come in pieces.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

namespace addnorm {

class Sha256 {
 public:
  void add(std::string_view bytes);
  std::string hex();  // 64 hexadecimal digits of all that was added; call it once

 private:
  void block(const unsigned char* data);  // 64 bytes

  std::array<uint32_t, 8> state_ = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                                    0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
  std::array<unsigned char, 64> rest_ = {};
  uint64_t size_ = 0;  // bytes so far
};

}  // namespace addnorm
