#include "addnorm/lab/outcome.h"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>

namespace addnorm::lab {
namespace {

Metrics run(int steps, const std::function<double(int)>& loss) {
  Metrics metrics;
  for (int i = 0; i <= steps; ++i) {
    StepRecord record;
    record.step = i;
    record.loss = loss(i);
    if (i > 0) record.grad_norm = 1.0;
    metrics.steps.push_back(record);
  }
  return metrics;
}

constexpr double h1 = 3.0;

TEST(Outcome, mean_of_the_last_updates_leaves_step_0_out) {
  const Metrics metrics = run(30, [](int i) { return i == 0 ? 1000.0 : static_cast<double>(i); });
  EXPECT_DOUBLE_EQ(mean_loss(metrics.steps, 30), 20.5);
  EXPECT_DOUBLE_EQ(mean_loss(metrics.steps, 10), 5.5);
  EXPECT_TRUE(std::isnan(mean_loss({}, 0)));
}

TEST(Outcome, thresholds_of_the_rules) {
  const auto flat = [](double value) { return judge(run(200, [=](int) { return value; }), h1); };
  EXPECT_EQ(flat(h1 - 0.3001), Outcome::learned);
  EXPECT_EQ(flat(h1 - 0.2999), Outcome::undecided);
  EXPECT_EQ(flat(h1 - 0.1001), Outcome::undecided);
  EXPECT_EQ(flat(h1 - 0.0999), Outcome::stalled);
  EXPECT_EQ(flat(h1 + 0.4), Outcome::stalled);
  EXPECT_EQ(flat(h1 + 2), Outcome::stalled);  // high, but not above its value at a tenth: flat
}

TEST(Outcome, a_loss_that_still_moves_is_not_stalled) {
  const auto falling =
      run(200, [](int i) { return h1 + 0.3 - 0.0011 * i; });  // 0.11 in the second half
  EXPECT_EQ(judge(falling, h1), Outcome::undecided);
  const auto slower = run(200, [](int i) { return h1 + 0.2 - 0.0009 * i; });
  EXPECT_EQ(judge(slower, h1), Outcome::stalled);
}

TEST(Outcome, diverged) {
  const double inf = std::numeric_limits<double>::infinity();
  EXPECT_EQ(judge(run(200, [](int i) { return 2.5 + 0.01 * i; }), h1), Outcome::diverged);
  EXPECT_EQ(judge(run(7, [=](int i) { return i == 7 ? inf : 4.0; }), h1), Outcome::diverged);
  auto gradient = run(200, [](int) { return 2.0; });
  gradient.steps.back().grad_norm = std::nan("");
  EXPECT_EQ(judge(gradient, h1), Outcome::diverged);
  // One bad step that was skipped, long ago.
  EXPECT_EQ(judge(run(200, [=](int i) { return i == 50 ? inf : 2.0; }), h1), Outcome::learned);
}

TEST(Outcome, without_updates_or_entropy) {
  EXPECT_EQ(judge(Metrics{}, h1), Outcome::failed);
  EXPECT_EQ(judge(run(0, [](int) { return 5.0; }), h1), Outcome::failed);
  EXPECT_EQ(judge(run(200, [](int) { return 2.0; }), std::nullopt), Outcome::undecided);
}

TEST(Outcome, names_go_both_ways) {
  for (int i = 0; i < outcome_count; ++i) {
    const auto outcome = static_cast<Outcome>(i);
    EXPECT_EQ(outcome_from(outcome_name(outcome)), outcome);
  }
  EXPECT_EQ(outcome_from("fine"), std::nullopt);
}

}  // namespace
}  // namespace addnorm::lab
