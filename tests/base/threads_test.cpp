// The pool: every worker runs once per call, barriers separate phases, errors
// come back, nothing hangs; quotas of containers are read as the kernel writes
// them.
#include "addnorm/base/threads.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <limits>
#include <numeric>
#include <stdexcept>
#include <string>
#include <vector>

#include "addnorm/base/cgroup.h"

namespace fs = std::filesystem;

namespace addnorm {
namespace {

class PoolThreads : public testing::TestWithParam<int> {};

TEST_P(PoolThreads, RunEveryWorkerOncePerCall) {
  ThreadPool pool(GetParam());
  ASSERT_EQ(pool.size(), GetParam());
  std::vector<int> calls(static_cast<size_t>(GetParam()), 0);
  const std::function<void(int)> work = [&](int thread) { ++calls[static_cast<size_t>(thread)]; };
  for (int round = 0; round < 200; ++round) pool.run(work);
  for (const int count : calls) EXPECT_EQ(count, 200);
}

// Each phase reads what the neighbour wrote in the phase before it.
TEST_P(PoolThreads, BarrierSeparatesPhases) {
  const int size = GetParam();
  ThreadPool pool(size);
  std::vector<int> values(static_cast<size_t>(size), 0);
  std::vector<int> next(static_cast<size_t>(size), 0);
  std::atomic<int> wrong{0};
  pool.run([&](int thread) {
    const auto own = static_cast<size_t>(thread);
    const auto neighbour = static_cast<size_t>((thread + 1) % size);
    for (int phase = 0; phase < 300; ++phase) {
      next[own] = values[neighbour] + 1;
      pool.barrier();
      values[own] = next[own];
      if (values[own] != phase + 1) ++wrong;
      pool.barrier();
    }
  });
  EXPECT_EQ(wrong.load(), 0);
  EXPECT_EQ(std::accumulate(values.begin(), values.end(), 0), 300 * size);
}

TEST_P(PoolThreads, LowestWorkersErrorWinsAndThePoolGoesOn) {
  const int size = GetParam();
  ThreadPool pool(size);
  for (int round = 0; round < 20; ++round) {
    try {
      pool.run([](int thread) { throw std::runtime_error(std::to_string(thread)); });
      FAIL() << "nothing was thrown";
    } catch (const std::runtime_error& error) {
      EXPECT_STREQ(error.what(), "0");
    }
    std::atomic<int> count{0};
    pool.run([&](int) { ++count; });
    EXPECT_EQ(count.load(), size);
  }
}

// A worker that fails between barriers must not leave the others waiting.
TEST_P(PoolThreads, ErrorReleasesTheBarrier) {
  const int size = GetParam();
  ThreadPool pool(size);
  for (int round = 0; round < 50; ++round) {
    const int guilty = round % size;
    try {
      pool.run([&](int thread) {
        for (int phase = 0; phase < 10; ++phase) {
          if (thread == guilty && phase == round % 10) throw std::runtime_error("guilty");
          pool.barrier();
        }
      });
      FAIL() << "nothing was thrown";
    } catch (const std::runtime_error& error) {
      EXPECT_STREQ(error.what(), "guilty");
    }
    std::atomic<int> phases{0};
    pool.run([&](int) {
      for (int phase = 0; phase < 5; ++phase) {
        pool.barrier();
        ++phases;
      }
    });
    EXPECT_EQ(phases.load(), 5 * size);
  }
}

// Half the smallest normal number is a denormal: the product must be zero in
// every worker; a denormal that is read must be zero too; and the caller's own
// mode must come back.
TEST_P(PoolThreads, WorkersFlushDenormals) {
  ThreadPool pool(GetParam());
  volatile float tiny = std::numeric_limits<float>::min();
  volatile float half = 0.5F;
  volatile float denormal = 1e-40F;
  volatile float large = 1e30F;
  std::atomic<int> kept{0};
  std::atomic<int> read{0};
  ASSERT_GT(tiny * half, 0.0F);
  ASSERT_GT(denormal * large, 0.0F);
  pool.run([&](int) {
    if (tiny * half != 0.0F) ++kept;
    if (denormal * large != 0.0F) ++read;
  });
#if defined(__x86_64__) || defined(__aarch64__)
  EXPECT_EQ(kept.load(), 0);
  EXPECT_EQ(read.load(), 0);
#endif
  EXPECT_GT(tiny * half, 0.0F);
  EXPECT_GT(denormal * large, 0.0F);
}

INSTANTIATE_TEST_SUITE_P(Sizes, PoolThreads, testing::Values(1, 2, 3, 7, 8));

TEST(AllowedCores, AreAtLeastOneAndNamed) {
  const CoreCount count = allowed_cores();
  EXPECT_GE(count.cores, 1);
  EXPECT_TRUE(count.source == "affinity mask" || count.source == "cgroup quota" ||
              count.source == "hardware")
      << count.source;
}

class CgroupQuota : public testing::Test {
 protected:
  void SetUp() override {
    root_ = fs::temp_directory_path() / ("addnorm-cgroup-" + std::to_string(::getpid()));
    fs::remove_all(root_);
    fs::create_directories(root_);
  }
  void TearDown() override { fs::remove_all(root_); }

  void write(const std::string& path, const std::string& text) {
    fs::create_directories((root_ / path).parent_path());
    std::ofstream(root_ / path) << text;
  }
  int quota() const { return cgroup_quota(root_ / "membership", root_ / "sys"); }

  fs::path root_;
};

TEST_F(CgroupQuota, VersionTwoTakesTheSmallestOnTheWayUp) {
  write("membership", "0::/outer/inner\n");
  EXPECT_EQ(quota(), 0);
  write("sys/outer/inner/cpu.max", "max 100000\n");
  EXPECT_EQ(quota(), 0);
  write("sys/outer/inner/cpu.max", "800000 100000\n");
  EXPECT_EQ(quota(), 8);
  write("sys/outer/cpu.max", "350000 100000\n");
  EXPECT_EQ(quota(), 3);
  write("sys/cpu.max", "50000 100000\n");
  EXPECT_EQ(quota(), 1);
}

TEST_F(CgroupQuota, VersionTwoInAContainerThatSeesOnlyItsRoot) {
  write("membership", "0::/\n");
  write("sys/cpu.max", "200000 100000\n");
  EXPECT_EQ(quota(), 2);
}

TEST_F(CgroupQuota, VersionOne) {
  write("membership", "7:memory:/m\n4:cpu,cpuacct:/docker/abc\n");
  write("sys/cpu,cpuacct/docker/abc/cpu.cfs_quota_us", "-1\n");
  write("sys/cpu,cpuacct/docker/abc/cpu.cfs_period_us", "100000\n");
  EXPECT_EQ(quota(), 0);
  write("sys/cpu,cpuacct/docker/abc/cpu.cfs_quota_us", "250000\n");
  EXPECT_EQ(quota(), 2);
  write("sys/memory/m/cpu.cfs_quota_us", "100000\n");
  write("sys/memory/m/cpu.cfs_period_us", "100000\n");
  EXPECT_EQ(quota(), 2);
}

TEST_F(CgroupQuota, NonsenseIsNoQuota) {
  EXPECT_EQ(quota(), 0);
  write("membership", "nonsense\n0:/\n\n0::/\n");
  write("sys/cpu.max", "lots of it\n");
  EXPECT_EQ(quota(), 0);
  write("sys/cpu.max", "100000 0\n");
  EXPECT_EQ(quota(), 0);
}

}  // namespace
}  // namespace addnorm
