// A limit on the address space: whatever cannot be allocated, in our code, in oneDNN or as a thread's
// stack, ends with exit code 4 and one line that says what was wanted, never with an abort.
#include <sys/resource.h>
#include <unistd.h>

#include <fstream>
#include <new>

#include "addnorm/base/text.h"
#include "addnorm/kernels/kernels.h"
#include "cases/support.h"

namespace addnorm::cases {
namespace {

class ProgramMemoryLimit : public testing::Test {
 protected:
  ProgramMemoryLimit() {
    std::string text;
    const Random random(1, "text");
    for (uint64_t i = 0; i < 60000; ++i) text += static_cast<char>('a' + random.below(i, 26));
    const std::string corpus = bench_.write("corpus.txt", text);
    spec_ = bench_.write("spec.toml",
                         "[model]\nkind = \"decoder\"\nlayers = 3\nwidth = 256\nheads = 4\n"
                         "context = 128\nwiring = \"pre-ln\"\n[data]\nsource = [\"" +
                             corpus +
                             "\"]\n[train]\nsteps = 1\nbatch = 2\nlr = 1e-3\nthreads = 2\n"
                             "eval_tokens = 128\n");
  }
  Ran limited(const Arguments& arguments, int64_t kib) const {
    return bench_.run(arguments, "ulimit -c 0; ulimit -v " + std::to_string(kib) + "; exec ");
  }
  // The least limit, in KiB and to 1 MiB, under which the act succeeds.
  template <class Act>
  static int64_t least(const Act& act) {
    int64_t low = 0, high = int64_t{1} << 23;
    while (high - low > 1024) {
      const int64_t middle = (low + high) / 2;
      (act(middle) ? high : low) = middle;
    }
    return high;
  }
  Bench bench_;
  std::string spec_;
};

TEST_F(ProgramMemoryLimit, EveryLimitBelowTheNeedEndsWithExitCode4) {
  const int64_t starts = least([&](int64_t kib) { return limited({"--version"}, kib).code == 0; });
  const Arguments train = {"train", spec_, "--run", bench_.path("run").string()};
  const auto trains = [&](int64_t kib) {
    fs::remove_all(bench_.path("run"));
    return limited(train, kib);
  };
  const int64_t enough = least([&](int64_t kib) { return trains(kib).code == 0; });
  ASSERT_GT(enough, starts + 16 * 1024);
  ASSERT_LT(enough, int64_t{1} << 22);
  constexpr int limits = 20;
  int refused = 0, sized = 0;
  for (int i = 1; i <= limits; ++i) {
    const int64_t kib = starts + (enough - starts) * i / limits;
    const Ran ran = trains(kib);
    if (ran.code == 0) continue;
    EXPECT_EQ(ran.code, 4) << kib << " KiB: " << ran.err;
    ++refused;
    const auto lines = split(trim(ran.err), '\n');
    EXPECT_TRUE(lines.back().starts_with("error [memory] ") ||
                lines.back().starts_with("error [threads] "))
        << kib << " KiB: " << ran.err;
    EXPECT_TRUE(ran.says("; try ")) << ran.err;
    sized += ran.says(" MiB for ") || ran.says(" MiB of ") ? 1 : 0;
  }
  EXPECT_GT(refused, limits / 2);
  EXPECT_GT(sized, 0);  // the large ones are named with what they are for
}

// Of this process, in bytes.
rlim_t address_space() {
  std::ifstream file("/proc/self/statm");
  rlim_t pages = 0;
  file >> pages;
  return pages * static_cast<rlim_t>(::sysconf(_SC_PAGE_SIZE));
}

// How a matrix product, the process's first or a later one, ends where `more` bytes of address space may
// be taken: 0 done, 4 the error of too little memory, 128 + a signal.
int product_within(rlim_t more, int64_t size, bool first) {
  const pid_t child = ::fork();
  if (child == 0) {
    const rlimit none = {0, 0};
    ::setrlimit(RLIMIT_CORE, &none);
    const std::vector<float> a(static_cast<size_t>(size * size), 1.0F);
    std::vector<float> c = a;
    const auto multiply = [&](int64_t n) {
      kernels::matmul(true, false, n, n, n, a.data(), n, a.data(), n, c.data(), n, false);
    };
    if (!first) multiply(1);
    const rlim_t bytes = address_space() + more;
    const rlimit limit = {bytes, bytes};
    ::setrlimit(RLIMIT_AS, &limit);
    try {
      multiply(size);
      ::_exit(c[0] == static_cast<float>(size) ? 0 : 1);
    } catch (const Error& error) {
      const std::string text = error.what();
      const bool good = error.failure() == Failure::system && text.starts_with("error [memory] ") &&
                        text.find("matrix product") != std::string::npos;
      ::_exit(good ? 4 : 5);
    } catch (const std::bad_alloc&) {
      ::_exit(4);  // the program's own message for what has no other
    } catch (...) {
      ::_exit(6);
    }
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

TEST(ProductMemoryLimit, AProductWithoutRoomForItsWorkIsAnError) {
  for (const bool first : {true, false}) {
    int refused = 0, done = 0;
    for (const int64_t size : {16, 700, 2000}) {
      for (rlim_t more = 0; more <= rlim_t{1} << 28;
           more = more == 0 ? rlim_t{1} << 14 : 2 * more) {
        const int code = product_within(more, size, first);
        EXPECT_TRUE(code == 0 || code == 4)
            << code << " with " << more << " bytes, size " << size << (first ? ", first" : "");
        refused += code == 4;
        done += code == 0;
      }
    }
    EXPECT_GT(refused, 0) << first;
    EXPECT_GT(done, 0) << first;
  }
}

}  // namespace
}  // namespace addnorm::cases
