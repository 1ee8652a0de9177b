// Files are whole or absent, and nothing that is not a regular file is read or waited for.
#include "addnorm/base/files.h"

#include "addnorm/base/error.h"
#include "addnorm/base/sha256.h"
#include "support/temporary.h"

#include <gtest/gtest.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstring>
#include <fstream>

namespace addnorm {
namespace {

using test::failure_of;
using test::TemporaryFolder;

std::vector<std::string> names_in(const fs::path& folder) {
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(folder)) names.push_back(entry.path().filename());
  std::sort(names.begin(), names.end());
  return names;
}

TEST(Files, WritesAndReads) {
  TemporaryFolder folder;
  const fs::path path = folder.path() / "a.txt";
  std::string all;
  for (int i = 0; i < 256; ++i) all += static_cast<char>(i);
  for (const std::string& content :
       {std::string(), std::string("one"), all, std::string(300000, 'x')}) {
    write_file_atomic(path, content);
    EXPECT_EQ(read_file(path), content);
    EXPECT_EQ(MappedFile(path).text(), content);
    EXPECT_EQ(names_in(folder.path()), std::vector<std::string>{"a.txt"});
  }
  write_file_atomic(path, [](const Emit& emit) {
    for (const char* piece : {"one ", "", "two"}) {
      emit(std::as_bytes(std::span(piece, std::strlen(piece))));
    }
  });
  EXPECT_EQ(read_file(path), "one two");
}

TEST(Files, WorksInTheCurrentFolder) {
  TemporaryFolder folder;
  const fs::path before = fs::current_path();
  fs::current_path(folder.path());
  write_file_atomic("plain", "text");
  const std::string content = read_file("plain");
  fs::current_path(before);
  EXPECT_EQ(content, "text");
}

TEST(Files, KeepsTheOldContentWhenTheWriterFails) {
  TemporaryFolder folder;
  const fs::path path = folder.path() / "a.txt";
  write_file_atomic(path, "old");
  EXPECT_THROW(write_file_atomic(path,
                                 [](const Emit& emit) {
                                   emit(std::as_bytes(std::span("new", 3)));
                                   throw std::runtime_error("stop");
                                 }),
               std::runtime_error);
  EXPECT_EQ(read_file(path), "old");
  EXPECT_EQ(names_in(folder.path()), std::vector<std::string>{"a.txt"});
}

// A folder that may not be written is no matter of space. Root may write everywhere, so as nobody.
TEST(Files, MissingPermissionsAreCalledThat) {
  TemporaryFolder folder;
  fs::permissions(folder.path(), fs::perms::owner_read | fs::perms::owner_exec |
                                     fs::perms::others_read | fs::perms::others_exec);
  const bool root = ::geteuid() == 0;
  if (root) {
    ASSERT_EQ(::seteuid(65534), 0);
  }
  const auto [failure, message] =
      failure_of([&] { write_file_atomic(folder.path() / "file", "content"); });
  if (root) {
    ASSERT_EQ(::seteuid(0), 0);
  }
  EXPECT_EQ(failure, Failure::system);
  EXPECT_NE(message.find("the permissions of this one"), std::string::npos) << message;
  for (const char* wrong : {"space", "free", "bytes"}) {
    EXPECT_EQ(message.find(wrong), std::string::npos) << message;
  }
  fs::permissions(folder.path(), fs::perms::owner_all);
}

TEST(Files, NamesAMissingFile) {
  TemporaryFolder folder;
  const fs::path path = folder.path() / "none.txt";
  const auto check = [&](const auto& act) {
    const auto [failure, message] = failure_of(act);
    EXPECT_EQ(failure, Failure::input);
    EXPECT_NE(message.find(path.string()), std::string::npos) << message;
  };
  check([&] { read_file(path); });
  check([&] { MappedFile file(path); });
  check([&] { sha256_file(path); });
  const auto [failure, message] = failure_of([&] { write_file_atomic(path / "below", "x"); });
  EXPECT_EQ(failure, Failure::system);
  EXPECT_NE(message.find("below"), std::string::npos) << message;
}

TEST(Files, LimitsTheSize) {
  TemporaryFolder folder;
  const fs::path path = folder.path() / "a.txt";
  write_file_atomic(path, "12345");
  EXPECT_EQ(read_file(path, 5), "12345");
  EXPECT_EQ(failure_of([&] { read_file(path, 4); }).first, Failure::input);
  EXPECT_EQ(failure_of([&] { read_file("/proc/self/status", 4); }).first, Failure::input);
  EXPECT_GT(read_file("/proc/self/status").size(), 100u);  // its size is said to be 0
}

TEST(Files, RefusesWhatIsNotARegularFileAtOnce) {
  TemporaryFolder folder;
  const fs::path fifo = folder.path() / "fifo";
  ASSERT_EQ(::mkfifo(fifo.c_str(), 0600), 0);
  const std::vector<std::pair<fs::path, std::string>> cases = {
      {folder.path(), "a directory"}, {fifo, "a FIFO"}, {"/dev/zero", "a device"}};
  ::alarm(20);  // a reader that waits on the FIFO is ended by the signal
  for (const auto& [path, kind] : cases) {
    const auto check = [&, where = path, what = kind](const auto& act) {
      const auto [failure, message] = failure_of(act);
      EXPECT_EQ(failure, Failure::input);
      EXPECT_NE(message.find(where.string()), std::string::npos) << message;
      EXPECT_NE(message.find(what), std::string::npos) << message;
    };
    check([&, p = path] { read_file(p); });
    check([&, p = path] { MappedFile file(p); });
    check([&, p = path] { sha256_file(p); });
    check([&, p = path] { write_file_atomic(p, "x"); });
  }
  ::alarm(0);
  EXPECT_TRUE(fs::is_fifo(fifo));
}

TEST(Files, ReadsThroughSymbolicLinks) {
  TemporaryFolder folder;
  write_file_atomic(folder.path() / "a", "text");
  fs::create_symlink("a", folder.path() / "link");
  EXPECT_EQ(read_file(folder.path() / "link"), "text");
  fs::create_symlink("nothing", folder.path() / "broken");
  EXPECT_EQ(failure_of([&] { read_file(folder.path() / "broken"); }).first, Failure::input);
}

// Writes more than fits and checks that the old file stands and nothing else is left.
void expect_no_room(const fs::path& folder, size_t size, bool free_known) {
  const fs::path path = folder / "a.bin";
  const auto [failure, message] =
      failure_of([&] { write_file_atomic(path, std::string(size, 'y')); });
  EXPECT_EQ(failure, Failure::system);
  EXPECT_NE(message.find(path.string()), std::string::npos) << message;
  EXPECT_NE(message.find("wanted " + std::to_string(size) + " bytes"), std::string::npos)
      << message;
  const auto at = message.find("free ");
  ASSERT_NE(at, std::string::npos) << message;
  EXPECT_TRUE(std::isdigit(static_cast<unsigned char>(message[at + 5]))) << message;
  if (free_known) {
    EXPECT_LT(std::stoull(message.substr(at + 5)), size) << message;
  }
  EXPECT_EQ(read_file(path), "old");
  EXPECT_EQ(names_in(folder), std::vector<std::string>{"a.bin"});
}

TEST(Files, FileSizeLimitLeavesTheOldFile) {
  TemporaryFolder folder;
  write_file_atomic(folder.path() / "a.bin", "old");
  struct rlimit before = {};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &before), 0);
  const auto handler = std::signal(SIGXFSZ, SIG_IGN);
  struct rlimit small = before;
  small.rlim_cur = 100000;
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &small), 0);
  expect_no_room(folder.path(), 1000000, false);
  ::setrlimit(RLIMIT_FSIZE, &before);
  std::signal(SIGXFSZ, handler);
}

// A tmpfs of one megabyte. Where mounting is not allowed, ADDNORM_SMALL_FOLDER may name a folder on a
// file system with less than 64 MB free; without either the limit test above has to do.
TEST(Files, FullDiskLeavesTheOldFile) {
  TemporaryFolder folder;
  fs::path small = folder.path();
  const bool mounted = ::mount("tmpfs", small.c_str(), "tmpfs", 0, "size=1m") == 0;
  if (!mounted) {
    const char* given = std::getenv("ADDNORM_SMALL_FOLDER");
    if (given == nullptr) {
      std::fprintf(stderr, "no right to mount a tmpfs: covered by FileSizeLimitLeavesTheOldFile\n");
      return;
    }
    small = fs::path(given) / "addnorm-full-disk";
    fs::create_directories(small);
  }
  struct statvfs info = {};
  ASSERT_EQ(::statvfs(small.c_str(), &info), 0);
  ASSERT_LT(info.f_bavail * info.f_frsize, 64u << 20);
  write_file_atomic(small / "a.bin", "old");
  expect_no_room(small, info.f_bavail * info.f_frsize + 1000000, true);
  if (mounted) {
    ASSERT_EQ(::umount(small.c_str()), 0);
  } else {
    fs::remove_all(small);
  }
}

TEST(Files, SyncFolder) {
  TemporaryFolder folder;
  sync_folder(folder.path());
  EXPECT_EQ(failure_of([&] { sync_folder(folder.path() / "none"); }).first, Failure::system);
}

TEST(Files, MapMoves) {
  TemporaryFolder folder;
  write_file_atomic(folder.path() / "a", "first");
  write_file_atomic(folder.path() / "b", "second");
  MappedFile a(folder.path() / "a");
  MappedFile b(folder.path() / "b");
  MappedFile c(std::move(a));
  EXPECT_EQ(c.text(), "first");
  c = std::move(b);
  EXPECT_EQ(c.text(), "second");
  EXPECT_EQ(c.bytes().size(), 6u);
}

// Vectors of FIPS 180-4 and its examples.
TEST(Sha256, KnownSums) {
  EXPECT_EQ(sha256(""), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  EXPECT_EQ(sha256("abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  EXPECT_EQ(sha256("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq"),
            "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
  EXPECT_EQ(sha256(std::string(1000000, 'a')),
            "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
}

TEST(Sha256, PiecesAndFilesAgree) {
  TemporaryFolder folder;
  std::string text;
  for (int i = 0; i < 400000; ++i) text += static_cast<char>(i * 7 + i / 251);
  for (const size_t size : {0, 1, 55, 56, 57, 63, 64, 65, 119, 120, 128, 1000, 262144, 400000}) {
    const std::string part = text.substr(0, size);
    write_file_atomic(folder.path() / "a", part);
    EXPECT_EQ(sha256_file(folder.path() / "a"), sha256(part)) << size;
    for (const size_t piece : {1, 13, 64, 100}) {
      if (size / piece > 10000) continue;
      Sha256 sum;
      for (size_t at = 0; at < size; at += piece) sum.add(std::string_view(part).substr(at, piece));
      EXPECT_EQ(sum.hex(), sha256(part)) << size << " by " << piece;
    }
  }
}

}  // namespace
}  // namespace addnorm
