// The safetensors format: a strict reader that trusts nothing in a file, and a writer whose files the
// reader accepts and which are the same bytes for the same content.
//
// Layout: 8 bytes little-endian header length N, N bytes of JSON, the data. A file must obey ten rules
// (docs/safetensors.md); an error is one line with file, byte offset, tensor where known, and rule.
// Memory stays below 8 times the file's size + 16 MiB whatever the header claims.
#pragma once

#include "addnorm/base/files.h"

#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace addnorm::checkpoint {

enum class ElementType : uint8_t {
  boolean,
  u8,
  i8,
  i16,
  u16,
  f16,
  bf16,
  i32,
  u32,
  f32,
  i64,
  u64,
  f64
};
const char* name(ElementType type);  // "BOOL", "F32", ...
size_t size(ElementType type);       // bytes of one element
bool is_floating(ElementType type);

struct TensorInfo {
  std::string name;
  ElementType type = ElementType::f32;
  std::vector<int64_t> shape;  // empty: a single number
  int64_t count = 1;           // product of the shape
  uint64_t begin = 0;          // bytes, from the first data byte
  uint64_t end = 0;
  uint64_t header_offset = 0;  // of the entry, from the first byte of the file
};
std::string shape_text(const std::vector<int64_t>& shape);  // "[2,3]"

class SafetensorsFile {
 public:
  static SafetensorsFile open(const fs::path& path);
  // Reads `bytes`, which must outlive the result; `name` stands for the file in messages.
  static SafetensorsFile parse(std::string name, std::span<const std::byte> bytes);

  static constexpr uint64_t header_limit = 100'000'000;  // bytes

  const std::string& name() const { return name_; }
  const std::vector<TensorInfo>& tensors() const { return tensors_; }  // in the order of the header
  const TensorInfo* find(std::string_view tensor) const;               // null where there is none
  const TensorInfo& at(std::string_view tensor) const;  // Error with the nearest name
  std::map<std::string, std::string> metadata() const;  // read anew at each call
  uint64_t data_bytes() const { return data_.size(); }

  // The raw little-endian elements, at any alignment.
  std::span<const std::byte> bytes(const TensorInfo& tensor) const;
  // Every element type converts to double and float (rounded to nearest; true = 1). `out` must have
  // tensor.count elements.
  std::vector<double> read_double(const TensorInfo& tensor) const;
  void read_double(const TensorInfo& tensor, std::span<double> out) const;
  void read_float(const TensorInfo& tensor, std::span<float> out) const;
  // Integers and BOOL; other types and values above 2^63 - 1 are an Error.
  std::vector<int64_t> read_int64(const TensorInfo& tensor) const;
  int64_t count_nonfinite(const TensorInfo& tensor) const;  // 0 for integers

 private:
  SafetensorsFile() = default;
  void read_header(std::span<const std::byte> bytes);

  std::string name_;
  std::shared_ptr<const MappedFile> map_;
  std::vector<TensorInfo> tensors_;
  std::vector<uint32_t> by_name_;  // indices into tensors_, sorted by name
  std::string_view header_;
  size_t metadata_at_ = 0;  // offset of the object in header_, 0: none
  std::span<const std::byte> data_;
};

struct TensorOut {
  std::string name;
  ElementType type = ElementType::f32;
  std::vector<int64_t> shape;
  const void* data = nullptr;              // count elements, native layout; or, where null:
  std::function<void(const Emit&)> write;  // emits exactly count * size(type) bytes
};

// Writes atomically (base/files.h) and in a stream: nothing is copied. Tensors are laid out by element
// size, widest first, otherwise in the given order, and the data starts at a multiple of 8, so every
// tensor is aligned. Names must be distinct valid UTF-8 other than "__metadata__".
void write_safetensors(const fs::path& path, const std::vector<TensorOut>& tensors,
                       const std::map<std::string, std::string>& metadata = {});

}  // namespace addnorm::checkpoint
