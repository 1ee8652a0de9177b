// What the loop says on the way: evaluations without targets, rates and times.
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <thread>

#include "addnorm/train/loop.h"
#include "support/temporary.h"
#include "tiny.h"

namespace addnorm::train {
namespace {

using test::TemporaryFolder;
using tiny::metrics;
using tiny::Trainer;

// Design section 4, for the validation part: nothing to judge is a loss of 0, and the log says so.
TEST(GuardTraining, AnEvaluationWithoutTargetsIsZero) {
  struct Blank : tiny::RandomSource {
    using RandomSource::RandomSource;
    void validation(int64_t index, nodes::Batch& to) override {
      RandomSource::validation(index, to);
      if (all || index == 0) {
        std::fill(to.targets.begin(), to.targets.end(), nodes::Batch::ignored);
      }
    }
    bool all = true;
  };
  for (const bool all : {true, false}) {
    TemporaryFolder run;
    Trainer trainer(tiny::shape(), tiny::settings(1));
    tiny::randomize(*trainer.engine, 1);
    Blank source(4, 2, 6, 11, 1);
    source.all = all;
    checkpoint::TrainState state;
    trainer.run(source, state, run.path());
    const auto eval = metrics(run.path(), "eval").at(0);
    EXPECT_EQ(eval.at("val_tokens"), all ? 0 : 12);
    const auto notes = metrics(run.path(), "note");
    if (all) {
      EXPECT_EQ(eval.at("val_loss"), 0.0);
      EXPECT_NE(notes.back().at("text").get<std::string>().find("no target"), std::string::npos);
    } else {  // weighted by targets: a batch without any changes nothing
      EXPECT_DOUBLE_EQ(eval.at("val_loss").get<double>(), eval.at("val_sum").get<double>() / 12);
      for (const auto& note : notes) {
        EXPECT_EQ(note.at("text").get<std::string>().find("no target"), std::string::npos);
      }
    }
  }
}

// What comes before the second step is start-up, and no measure of the rest.
TEST(RatesTraining, DoNotCountTheStart) {
  struct SlowStart : tiny::RandomSource {
    using RandomSource::RandomSource;
    void step(int64_t step, std::vector<nodes::Batch>& micro_batches) override {
      if (step == 1) std::this_thread::sleep_for(std::chrono::milliseconds(400));
      RandomSource::step(step, micro_batches);
    }
  };
  TemporaryFolder run;
  Trainer trainer(tiny::shape(), tiny::settings(6));
  tiny::randomize(*trainer.engine, 1);
  SlowStart source(4, 2, 6, 11, 1);
  checkpoint::TrainState state;
  trainer.run(source, state, run.path());
  ASSERT_EQ(trainer.notes.steps.size(), 6U);
  EXPECT_LT(trainer.notes.steps[0].steps_per_second, 2.6);  // all that is known then
  for (size_t i = 1; i < 6; ++i) {
    const StepReport& report = trainer.notes.steps[i];
    EXPECT_GT(report.steps_per_second, 10) << i;
    EXPECT_NEAR(report.tokens_per_second, 12 * report.steps_per_second,
                1e-6 * report.tokens_per_second);
    EXPECT_LT(report.seconds_left, 0.4) << i;
  }
  EXPECT_EQ(trainer.notes.steps[5].seconds_left, 0);
}

}  // namespace
}  // namespace addnorm::train
