// POSIX files; every descriptor is closed and every temporary file removed on the way out.
#include "addnorm/base/files.h"

#include "addnorm/base/error.h"
#include "addnorm/base/sha256.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <memory>
#include <utility>

namespace addnorm {
namespace {

// Kernels accept at most about 2 GiB per call; smaller pieces keep short reads and writes cheap.
constexpr size_t piece_bytes = size_t{1} << 26;

class Descriptor {
 public:
  explicit Descriptor(int number) : number_(number) {}
  ~Descriptor() {
    if (number_ >= 0) ::close(number_);
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  int get() const { return number_; }
  // POSIX leaves the state of the descriptor open after EINTR; on Linux it is closed, so there is
  // nothing to repeat.
  int close() { return ::close(std::exchange(number_, -1)); }

 private:
  int number_;
};

std::string reason(int code) { return std::strerror(code); }

const char* kind_of(mode_t mode) {
  if (S_ISDIR(mode)) return "a directory";
  if (S_ISFIFO(mode)) return "a FIFO";
  if (S_ISCHR(mode) || S_ISBLK(mode)) return "a device";
  if (S_ISSOCK(mode)) return "a socket";
  return "something else";
}

int open_retrying(const char* path, int flags, mode_t mode = 0) {
  int number = -1;
  do number = ::open(path, flags | O_CLOEXEC, mode);
  while (number < 0 && errno == EINTR);
  return number;
}

[[noreturn]] void fail_open(const fs::path& path, int code) {
  fail_input(path.string(), "expected a readable file, got: " + reason(code) +
                                "; try another path or its permissions");
}

[[noreturn]] void fail_kind(const fs::path& path, mode_t mode) {
  fail_input(path.string(),
             fmt::format("expected a regular file, got {}; try the path of a file", kind_of(mode)));
}

// Opens a regular file for reading. The kind is judged before the file is opened, because opening a
// device can have effects, and again after it, because the name may have changed hands; O_NONBLOCK
// keeps the second case from waiting for the writer of a FIFO.
struct stat open_regular(const fs::path& path, std::unique_ptr<Descriptor>& file) {
  struct stat info = {};
  if (::stat(path.c_str(), &info) != 0) fail_open(path, errno);
  if (!S_ISREG(info.st_mode)) fail_kind(path, info.st_mode);
  file = std::make_unique<Descriptor>(open_retrying(path.c_str(), O_RDONLY | O_NONBLOCK));
  if (file->get() < 0) fail_open(path, errno);
  if (::fstat(file->get(), &info) != 0) fail_open(path, errno);
  if (!S_ISREG(info.st_mode)) fail_kind(path, info.st_mode);
  return info;
}

// Reads up to `size` bytes; fewer only at the end of the file.
size_t read_piece(const fs::path& path, int file, char* data, size_t size) {
  size_t done = 0;
  while (done < size) {
    const ssize_t got = ::read(file, data + done, std::min(size - done, piece_bytes));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) fail_system(path.string(), "reading failed: " + reason(errno));
    if (got == 0) break;
    done += static_cast<size_t>(got);
  }
  return done;
}

bool is_short_of_space(int code) { return code == ENOSPC || code == EDQUOT || code == EFBIG; }

std::string free_bytes(const fs::path& folder) {
  struct statvfs info = {};
  if (::statvfs(folder.c_str(), &info) != 0) return "an unknown number of";
  return std::to_string(static_cast<uint64_t>(info.f_bavail) * info.f_frsize);
}

fs::path folder_of(const fs::path& path) {
  return path.has_parent_path() ? path.parent_path() : fs::path(".");
}

// The temporary file: removed unless it was renamed to its place.
class Pending {
 public:
  Pending(const fs::path& target, uint64_t expected)
      : target_(target), folder_(folder_of(target)), expected_(expected) {
    struct stat info = {};
    if (::stat(target.c_str(), &info) == 0 && !S_ISREG(info.st_mode)) {
      fail_input(target.string(), fmt::format("expected the name of a file to write, got {}; try "
                                              "another name",
                                              kind_of(info.st_mode)));
    }
    static std::atomic<unsigned> counter{0};
    const std::string stem = "." + target.filename().string() + ".tmp-";
    for (int attempt = 0; attempt < 1000; ++attempt) {
      temporary_ = folder_ / fmt::format("{}{}-{}", stem, ::getpid(), counter.fetch_add(1));
      file_ = std::make_unique<Descriptor>(
          open_retrying(temporary_.c_str(), O_WRONLY | O_CREAT | O_EXCL, 0666));
      if (file_->get() >= 0) return;
      if (errno != EEXIST) break;
    }
    const int code = errno;
    temporary_.clear();
    fail("creating the file", code);
  }

  ~Pending() {
    if (!temporary_.empty()) ::unlink(temporary_.c_str());
  }
  Pending(const Pending&) = delete;
  Pending& operator=(const Pending&) = delete;

  void write(std::span<const std::byte> bytes) {
    size_t done = 0;
    while (done < bytes.size()) {
      const size_t size = std::min(bytes.size() - done, piece_bytes);
      const ssize_t put = ::write(file_->get(), bytes.data() + done, size);
      if (put < 0 && errno == EINTR) continue;
      wanted_ = written_ + (bytes.size() - done);
      if (put < 0) fail("writing", errno);
      if (put == 0) fail("writing", ENOSPC);
      done += static_cast<size_t>(put);
      written_ += static_cast<uint64_t>(put);
    }
  }

  void commit() {
    wanted_ = written_;
    int result = 0;
    do result = ::fsync(file_->get());
    while (result != 0 && errno == EINTR);
    if (result != 0) fail("making the file durable", errno);
    if (file_->close() != 0 && errno != EINTR) fail("closing the file", errno);
    if (::rename(temporary_.c_str(), target_.c_str()) != 0) fail("renaming the file", errno);
    temporary_.clear();
    sync_folder(folder_);
  }

 private:
  [[noreturn]] void fail(const char* action, int code) const {
    std::string message = fmt::format("{} failed: {}; ", action, reason(code));
    if (is_short_of_space(code)) {
      message += fmt::format("wanted {} bytes, free {} bytes in {}; ", std::max(expected_, wanted_),
                             free_bytes(folder_), folder_.string());
    }
    fail_system(target_.string(), message + remedy(code, "try another folder"));
  }

  fs::path target_;
  fs::path folder_;
  fs::path temporary_;
  uint64_t expected_ = 0;
  uint64_t written_ = 0;
  uint64_t wanted_ = 0;
  std::unique_ptr<Descriptor> file_;
};

}  // namespace

std::string remedy(int error_number, const std::string& otherwise) {
  if (is_short_of_space(error_number)) return "try another folder or free some space";
  if (error_number == EACCES || error_number == EPERM || error_number == EROFS) {
    return "try another folder, or the permissions of this one";
  }
  return otherwise;
}

std::string read_file(const fs::path& path, uint64_t limit) {
  std::unique_ptr<Descriptor> file;
  const struct stat info = open_regular(path, file);
  const uint64_t size = static_cast<uint64_t>(info.st_size);
  if (size > limit) {
    fail_input(path.string(), fmt::format("expected at most {} bytes, got {}", limit, size));
  }
  // Files of /proc say 0 bytes and still have content, so the end is where read says it is.
  std::string content;
  for (size_t piece = size + 1;; piece = size_t{1} << 16) {
    const size_t before = content.size();
    content.resize(before + piece);
    content.resize(before + read_piece(path, file->get(), content.data() + before, piece));
    if (content.size() > limit) {
      fail_input(path.string(), fmt::format("expected at most {} bytes, got more", limit));
    }
    if (content.size() < before + piece) return content;
  }
}

void write_file_atomic(const fs::path& path, std::string_view content) {
  write_file_atomic(
      path,
      [&](const Emit& emit) { emit(std::as_bytes(std::span(content.data(), content.size()))); },
      content.size());
}

void write_file_atomic(const fs::path& path, const std::function<void(const Emit&)>& writer,
                       uint64_t expected) {
  Pending pending(path, expected);
  writer([&pending](std::span<const std::byte> bytes) { pending.write(bytes); });
  pending.commit();
}

void sync_folder(const fs::path& folder) {
  const Descriptor file(open_retrying(folder.c_str(), O_RDONLY | O_DIRECTORY));
  if (file.get() < 0) fail_system(folder.string(), "opening the folder failed: " + reason(errno));
  int result = 0;
  do result = ::fsync(file.get());
  while (result != 0 && errno == EINTR);
  // Some file systems cannot fsync a folder and say EINVAL; there is nothing more to do then.
  if (result != 0 && errno != EINVAL) {
    fail_system(folder.string(), "making the folder durable failed: " + reason(errno));
  }
}

std::string sha256_file(const fs::path& path) {
  std::unique_ptr<Descriptor> file;
  open_regular(path, file);
  Sha256 sum;
  std::string buffer(size_t{1} << 18, '\0');
  for (size_t got = buffer.size(); got == buffer.size();) {
    got = read_piece(path, file->get(), buffer.data(), buffer.size());
    sum.add({buffer.data(), got});
  }
  return sum.hex();
}

MappedFile::MappedFile(const fs::path& path) {
  std::unique_ptr<Descriptor> file;
  const struct stat info = open_regular(path, file);
  if (info.st_size == 0) return;
  if (static_cast<uint64_t>(info.st_size) > SIZE_MAX)
    fail_system(path.string(), "too large to map");
  size_ = static_cast<size_t>(info.st_size);
  void* data = ::mmap(nullptr, size_, PROT_READ, MAP_PRIVATE, file->get(), 0);
  if (data == MAP_FAILED) {
    fail_system(path.string(), fmt::format("mapping {} bytes failed: {}", size_, reason(errno)));
  }
  data_ = static_cast<const char*>(data);
}

MappedFile::~MappedFile() {
  if (size_ > 0) ::munmap(const_cast<char*>(data_), size_);
}

MappedFile::MappedFile(MappedFile&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)), size_(std::exchange(other.size_, 0)) {}

MappedFile& MappedFile::operator=(MappedFile&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
  return *this;
}

}  // namespace addnorm
