// The element types of safetensors and their conversion; the data may stand at any alignment, so
// every element is copied out before it is looked at.
#include "addnorm/base/error.h"
#include "addnorm/checkpoint/safetensors.h"
#include "addnorm/text/utf8.h"

#include <fmt/format.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

namespace addnorm::checkpoint {
namespace {

struct TypeFacts {
  const char* name;
  size_t size;
};
constexpr TypeFacts facts[] = {{"BOOL", 1}, {"U8", 1},   {"I8", 1},  {"I16", 2}, {"U16", 2},
                               {"F16", 2},  {"BF16", 2}, {"I32", 4}, {"U32", 4}, {"F32", 4},
                               {"I64", 8},  {"U64", 8},  {"F64", 8}};

// Distinct types for the bit patterns that have no type of the language.
struct Bool {
  uint8_t bits;
};
struct Half {
  uint16_t bits;
};
struct BrainFloat {
  uint16_t bits;
};

float value_of(Half half) {
  const uint32_t sign = uint32_t{half.bits & 0x8000u} << 16;
  const uint32_t exponent = half.bits >> 10 & 0x1f;
  const uint32_t fraction = half.bits & 0x3ff;
  if (exponent == 0) {  // zero or subnormal: fraction * 2^-24, exact
    const float magnitude = static_cast<float>(fraction) * 0x1p-24f;
    return sign != 0 ? -magnitude : magnitude;
  }
  const uint32_t wide = exponent == 0x1f ? 0xff : exponent + 112;
  return std::bit_cast<float>(sign | wide << 23 | fraction << 13);
}
float value_of(BrainFloat number) { return std::bit_cast<float>(uint32_t{number.bits} << 16); }
int value_of(Bool truth) { return truth.bits != 0; }
template <class T>
T value_of(T number) {
  return number;
}

// Calls visit(element) for every element in order.
template <class Stored, class Visit>
void for_each(std::span<const std::byte> bytes, const Visit& visit) {
  for (size_t at = 0; at + sizeof(Stored) <= bytes.size(); at += sizeof(Stored)) {
    Stored element;
    std::memcpy(&element, bytes.data() + at, sizeof element);
    visit(value_of(element));
  }
}

template <class Visit>
void for_each(ElementType type, std::span<const std::byte> bytes, const Visit& visit) {
  switch (type) {
    case ElementType::boolean:
      return for_each<Bool>(bytes, visit);
    case ElementType::u8:
      return for_each<uint8_t>(bytes, visit);
    case ElementType::i8:
      return for_each<int8_t>(bytes, visit);
    case ElementType::i16:
      return for_each<int16_t>(bytes, visit);
    case ElementType::u16:
      return for_each<uint16_t>(bytes, visit);
    case ElementType::f16:
      return for_each<Half>(bytes, visit);
    case ElementType::bf16:
      return for_each<BrainFloat>(bytes, visit);
    case ElementType::i32:
      return for_each<int32_t>(bytes, visit);
    case ElementType::u32:
      return for_each<uint32_t>(bytes, visit);
    case ElementType::f32:
      return for_each<float>(bytes, visit);
    case ElementType::i64:
      return for_each<int64_t>(bytes, visit);
    case ElementType::u64:
      return for_each<uint64_t>(bytes, visit);
    case ElementType::f64:
      return for_each<double>(bytes, visit);
  }
}

template <class Out>
void convert(ElementType type, std::span<const std::byte> bytes, Out* out) {
  for_each(type, bytes, [&out](auto value) { *out++ = static_cast<Out>(value); });
}

}  // namespace

const char* name(ElementType type) { return facts[static_cast<size_t>(type)].name; }

size_t size(ElementType type) { return facts[static_cast<size_t>(type)].size; }

bool is_floating(ElementType type) {
  return type == ElementType::f16 || type == ElementType::bf16 || type == ElementType::f32 ||
         type == ElementType::f64;
}

std::span<const std::byte> SafetensorsFile::bytes(const TensorInfo& tensor) const {
  return data_.subspan(tensor.begin, tensor.end - tensor.begin);
}

std::vector<double> SafetensorsFile::read_double(const TensorInfo& tensor) const {
  std::vector<double> values(static_cast<size_t>(tensor.count));
  read_double(tensor, values);
  return values;
}

void SafetensorsFile::read_double(const TensorInfo& tensor, std::span<double> out) const {
  ADDNORM_ASSERT(out.size() == static_cast<size_t>(tensor.count));
  convert(tensor.type, bytes(tensor), out.data());
}

void SafetensorsFile::read_float(const TensorInfo& tensor, std::span<float> out) const {
  ADDNORM_ASSERT(out.size() == static_cast<size_t>(tensor.count));
  convert(tensor.type, bytes(tensor), out.data());
}

std::vector<int64_t> SafetensorsFile::read_int64(const TensorInfo& tensor) const {
  if (is_floating(tensor.type)) {
    fail_input(name_, fmt::format("tensor {}: expected integers, got {}; try I64 or I32",
                                  text::quoted(tensor.name), checkpoint::name(tensor.type)));
  }
  std::vector<int64_t> values(static_cast<size_t>(tensor.count));
  size_t at = 0;
  for_each(tensor.type, bytes(tensor), [&](auto value) {
    if constexpr (std::is_same_v<decltype(value), uint64_t>) {
      if (value > static_cast<uint64_t>(INT64_MAX)) {
        fail_input(name_, fmt::format("tensor {}: expected values of at most 2^63 - 1, got {} as "
                                      "element {}",
                                      text::quoted(tensor.name), value, at));
      }
    }
    values[at++] = static_cast<int64_t>(value);
  });
  return values;
}

int64_t SafetensorsFile::count_nonfinite(const TensorInfo& tensor) const {
  int64_t count = 0;
  for_each(tensor.type, bytes(tensor), [&count](auto value) {
    if constexpr (std::is_floating_point_v<decltype(value)>) count += !std::isfinite(value);
  });
  return count;
}

}  // namespace addnorm::checkpoint
