// What the kernel tests share: random buffers, comparison in units of the largest wanted value,
// derivatives of slow double definitions by central differences, and a loop over instruction sets.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>
#include <limits>
#include <string>
#include <vector>

#include "addnorm/base/random.h"
#include "addnorm/kernels/kernels.h"

namespace addnorm::kernels {

using Buffer = std::vector<float>;
using Wide = std::vector<double>;

inline constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

inline Buffer random_buffer(Index size, uint64_t stream, double scale = 1, double shift = 0) {
  const Random random(7, stream);
  Buffer buffer(static_cast<size_t>(size));
  for (size_t i = 0; i < buffer.size(); ++i) {
    buffer[i] = static_cast<float>(scale * random.normal(i) + shift);
  }
  return buffer;
}

inline Buffer nan_buffer(Index size) { return Buffer(static_cast<size_t>(size), kNan); }
inline Wide widen(const Buffer& buffer) { return {buffer.begin(), buffer.end()}; }

// |got - want| <= tolerance * max(|want| over all, floor)
inline void expect_near(const Buffer& got, const Wide& want, double tolerance,
                        const std::string& what, double floor = 1e-3) {
  ASSERT_EQ(got.size(), want.size()) << what;
  double largest = floor;
  for (const double value : want) largest = std::max(largest, std::abs(value));
  for (size_t i = 0; i < got.size(); ++i) {
    ASSERT_NEAR(got[i], want[i], tolerance * largest) << what << " at " << i;
  }
}

// The gradient of `value` at x by central differences in double.
inline Wide differences(const std::function<double(const Wide&)>& value, const Wide& x,
                        double step = 1e-5) {
  Wide gradient(x.size());
  Wide moved = x;
  for (size_t i = 0; i < x.size(); ++i) {
    moved[i] = x[i] + step;
    const double above = value(moved);
    moved[i] = x[i] - step;
    const double below = value(moved);
    moved[i] = x[i];
    gradient[i] = (above - below) / (2 * step);
  }
  return gradient;
}

inline double inner(const Wide& a, const Buffer& b) {
  double total = 0;
  for (size_t i = 0; i < a.size(); ++i) total += a[i] * b[i];
  return total;
}

// A gradient output is asked for twice: overwriting NaN, and adding to what is there.
inline void check_gradient(Index size, const Wide& want, double tolerance, const std::string& what,
                           const std::function<void(float*, bool)>& call) {
  Buffer fresh = nan_buffer(size);
  call(fresh.data(), false);
  expect_near(fresh, want, tolerance, what + " overwritten");
  const Buffer before = random_buffer(size, 999);
  Buffer added = before;
  call(added.data(), true);
  Wide sum = want;
  for (size_t i = 0; i < sum.size(); ++i) sum[i] += before[i];
  expect_near(added, sum, tolerance, what + " accumulated", 1);
}

// Every test runs on every instruction set that this processor has.
class EverySet : public testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    force_instruction_set(GetParam());
    ASSERT_EQ(instruction_set(), GetParam());
  }
  void TearDown() override { force_instruction_set(""); }
};

#define ADDNORM_EVERY_SET(suite)                                               \
  INSTANTIATE_TEST_SUITE_P(Sets, suite, testing::ValuesIn(instruction_sets()), \
                           [](const auto& set) { return set.param; })

}  // namespace addnorm::kernels
