// Files that are either whole or absent: written to a temporary name, fsynced, renamed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <span>
#include <string>
#include <string_view>

namespace addnorm {

namespace fs = std::filesystem;

// Errors of all functions name the file; a full disk also the bytes wanted and the bytes free
// (Failure::system). A missing or unreadable input file is Failure::input.

// The whole file. Refuses directories, FIFOs and devices without waiting for them. `limit`: larger
// files are an error.
std::string read_file(const fs::path& path, uint64_t limit = UINT64_MAX);

// Both replace an existing regular file (anything else at `path` is refused) and leave it as it was
// when they fail. The temporary file stands beside it as ".NAME.tmp-*"; only a killed process leaves
// one behind.
void write_file_atomic(const fs::path& path, std::string_view content);
// The writer calls `emit` as often as it likes with consecutive pieces. `expected` is the size in
// bytes where the caller knows it, for the message of a full disk.
using Emit = std::function<void(std::span<const std::byte>)>;
void write_file_atomic(const fs::path& path, const std::function<void(const Emit&)>& writer,
                       uint64_t expected = 0);

void sync_folder(const fs::path& folder);  // makes renames in it durable

// What to try after a failed call: permissions where those were missing, space where that was short,
// else `otherwise`.
std::string remedy(int error_number, const std::string& otherwise);

std::string sha256(std::string_view bytes);  // 64 hexadecimal digits
std::string sha256_file(const fs::path& path);

// Read-only memory map of a regular file; empty files are legal. Another program that shortens the
// file while it is mapped ends this one (SIGBUS), so files are replaced by renaming, never cut.
class MappedFile {
 public:
  explicit MappedFile(const fs::path& path);
  ~MappedFile();
  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&& other) noexcept;
  std::string_view text() const { return {data_, size_}; }
  std::span<const std::byte> bytes() const {
    return {reinterpret_cast<const std::byte*>(data_), size_};
  }

 private:
  const char* data_ = nullptr;
  size_t size_ = 0;
};

}  // namespace addnorm
