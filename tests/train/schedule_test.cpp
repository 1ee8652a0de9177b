// Schedules against the formulas of the design, and what extending a finished run does to them.
#include "addnorm/train/schedule.h"

#include <gtest/gtest.h>

#include <cmath>
#include <numbers>

#include "addnorm/base/error.h"

namespace addnorm::train {
namespace {

model::TrainSection section(const std::string& schedule, int64_t steps, const std::string& warmup) {
  model::TrainSection train;
  train.schedule = schedule;
  train.steps = steps;
  train.warmup = warmup;
  train.lr = 0.5;
  train.min_lr = 0.1;
  return train;
}

TEST(Schedule, WarmupIsTheSameForAllShapes) {
  for (const char* name : {"constant", "linear", "cosine", "inverse_sqrt", "wsd"}) {
    const Schedule schedule = make_schedule(section(name, 100, "10"));
    for (int64_t t = 1; t <= 10; ++t)
      EXPECT_EQ(schedule.rate(t), 0.5 * double(t) / 10) << name << t;
  }
}

TEST(Schedule, Constant) {
  const Schedule schedule = make_schedule(section("constant", 100, "10"));
  for (const int64_t t : {11, 50, 100}) EXPECT_EQ(schedule.rate(t), 0.5);
}

TEST(Schedule, Linear) {
  const Schedule schedule = make_schedule(section("linear", 100, "20"));
  EXPECT_DOUBLE_EQ(schedule.rate(21), 0.5 - 0.4 / 80);
  EXPECT_DOUBLE_EQ(schedule.rate(60), 0.3);
  EXPECT_DOUBLE_EQ(schedule.rate(100), 0.1);
}

TEST(Schedule, Cosine) {
  const Schedule schedule = make_schedule(section("cosine", 100, "0"));
  EXPECT_DOUBLE_EQ(schedule.rate(25), 0.1 + 0.4 * 0.5 * (1 + std::numbers::sqrt2 / 2));
  EXPECT_DOUBLE_EQ(schedule.rate(50), 0.3);
  EXPECT_DOUBLE_EQ(schedule.rate(100), 0.1);
}

TEST(Schedule, InverseSquareRoot) {
  const Schedule schedule = make_schedule(section("inverse_sqrt", 1000, "16"));
  EXPECT_DOUBLE_EQ(schedule.rate(64), 0.25);
  EXPECT_DOUBLE_EQ(schedule.rate(100), 0.2);
  EXPECT_EQ(schedule.rate(1000), 0.1);  // 0.063 without the floor
  EXPECT_DOUBLE_EQ(make_schedule(section("inverse_sqrt", 1000, "0")).rate(4), 0.25);
}

TEST(Schedule, WarmupStableDecay) {
  model::TrainSection train = section("wsd", 100, "10");
  train.decay_steps = "20%";
  const Schedule schedule = make_schedule(train);
  EXPECT_EQ(schedule.rate(11), 0.5);
  EXPECT_EQ(schedule.rate(80), 0.5);
  EXPECT_DOUBLE_EQ(schedule.rate(81), 0.5 - 0.4 / 20);
  EXPECT_DOUBLE_EQ(schedule.rate(90), 0.3);
  EXPECT_DOUBLE_EQ(schedule.rate(100), 0.1);
}

// S1: shares round up; a warm-up as long as the run or longer only ever climbs.
TEST(Schedule, S1SharesRoundUp) {
  EXPECT_EQ(make_schedule(section("cosine", 50, "5%")).warmup, 3);
  EXPECT_EQ(make_schedule(section("cosine", 100, "0.1%")).warmup, 1);
  const Schedule equal = make_schedule(section("cosine", 100, "100"));
  EXPECT_EQ(equal.rate(100), 0.5);
  const Schedule longer = make_schedule(section("cosine", 100, "500"));
  EXPECT_DOUBLE_EQ(longer.rate(100), 0.1);
}

// S4: first, middle and last rate of each choice are the ones the optimizer will use, bit for bit.
TEST(Schedule, S4ExtensionTable) {
  model::TrainSection train = section("linear", 100, "10%");
  train.min_lr = 0;
  const auto choices = extend_choices(train, {}, 100, 100);
  for (const ExtendChoice& choice : choices) {
    EXPECT_EQ(choice.first, 101);
    EXPECT_EQ(choice.middle, 150);
    EXPECT_EQ(choice.last, 200);
    const Rates rates(train, {{100, 100, choice.how}});
    EXPECT_EQ(rates.rate(101), choice.first_rate);
    EXPECT_EQ(rates.rate(150), choice.middle_rate);
    EXPECT_EQ(rates.rate(200), choice.last_rate);
    EXPECT_EQ(rates.rate(60), make_schedule(train).rate(60));  // what was, stays
  }
  EXPECT_EQ(choices[0].first_rate, 0);  // keep: the last rate
  EXPECT_EQ(choices[0].last_rate, 0);
  EXPECT_DOUBLE_EQ(choices[1].first_rate, 0.05);  // rewarm: 10 % of 100 again
  EXPECT_DOUBLE_EQ(choices[1].middle_rate, 0.5 * 50 / 90);
  EXPECT_DOUBLE_EQ(choices[1].last_rate, 0);
  EXPECT_DOUBLE_EQ(choices[2].first_rate, 0.5 * (1 - 81.0 / 180));  // stretch: 20 of 200 warm up
  EXPECT_DOUBLE_EQ(choices[2].last_rate, 0);
  const std::string table = extend_table(choices);
  for (const char* part : {"keep", "rewarm", "stretch", "update 101", "update 150", "update 200"}) {
    EXPECT_NE(table.find(part), std::string::npos) << table;
  }
}

TEST(Schedule, ExtensionsStack) {
  model::TrainSection train = section("linear", 100, "0");
  const Rates rates(train, {{100, 50, Extend::rewarm}, {150, 50, Extend::keep}});
  EXPECT_EQ(rates.rate(100), make_schedule(train).rate(100));
  EXPECT_DOUBLE_EQ(rates.rate(125), 0.3);
  EXPECT_DOUBLE_EQ(rates.rate(150), 0.1);
  EXPECT_EQ(rates.rate(151), rates.rate(150));
  EXPECT_EQ(rates.rate(200), rates.rate(150));
}

TEST(Schedule, UnknownNames) {
  EXPECT_THROW(make_schedule(section("cosin", 10, "0")), Error);
  EXPECT_THROW(parse_extend("more"), Error);
  EXPECT_EQ(parse_extend("stretch"), Extend::stretch);
}

}  // namespace
}  // namespace addnorm::train
