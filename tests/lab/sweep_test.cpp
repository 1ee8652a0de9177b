#include "addnorm/lab/sweep.h"

#include <gtest/gtest.h>

#include <chrono>
#include <cmath>
#include <csignal>
#include <fstream>
#include <thread>

#include "addnorm/base/files.h"
#include "addnorm/base/text.h"
#include "addnorm/lab/child.h"
#include "fake_program.h"
#include "support/temporary.h"

namespace addnorm::lab {
namespace {

class SweepRun : public ::testing::Test {
 protected:
  SweepPlan plan(const std::vector<std::string>& wirings, int seeds, int64_t steps = 40) {
    SweepPlan plan;
    plan.specification = "spec.toml";
    plan.seeds = seeds;
    for (const std::string& wiring : wirings) {
      PlannedCell cell;
      cell.cell.settings = {{"model.wiring", wiring}, {"train.steps", std::to_string(steps)}};
      cell.record.keys = {{"wiring", wiring}, {"layers", 6.0}, {"lr", 0.005}, {"warmup", 0.0}};
      cell.folder = wiring;
      cell.steps = steps;
      plan.cells.push_back(cell);
    }
    return plan;
  }

  SweepEnd run(const SweepPlan& what, std::optional<double> budget = {}, int workers = 2,
               const std::atomic<int>* stop = nullptr) {
    SweepOptions options;
    options.program = program_;
    options.folder = folder_.path() / "sweep";
    options.workers = workers;
    options.budget = budget;
    options.stop = stop;
    options.grace = 5;
    options.tick = [this](const Progress& progress) {
      most_active_ = std::max(most_active_, progress.active.size());
    };
    options.message = [this](const std::string& line) { messages_ += line + "\n"; };
    return run_sweep(what, options);
  }

  std::vector<std::string> calls() {
    return split(trim(read_file(folder_.path() / "calls")), '\n');
  }
  SweepResult record() {
    const auto file = folder_.path() / "sweep" / "sweep.json";
    return parse_sweep(read_file(file), file.string());
  }

  test::TemporaryFolder folder_;
  fs::path program_ = test::make_fake_program(folder_.path());
  std::string messages_;
  size_t most_active_ = 0;
};

TEST_F(SweepRun, every_outcome_and_a_failure_that_costs_only_itself) {
  const auto end = run(plan({"good", "stuck", "boom", "crash"}, 2));
  EXPECT_EQ(calls().size(), 8u);
  EXPECT_TRUE(end.result.complete());
  EXPECT_EQ(end.result.unigram_entropy, 3.0);
  const SweepResult read = record();
  ASSERT_EQ(read.cells.size(), 4u);
  const std::vector<Outcome> expected = {Outcome::learned, Outcome::stalled, Outcome::diverged,
                                         Outcome::failed};
  for (size_t i = 0; i < 4; ++i) {
    ASSERT_EQ(read.cells[i].seeds.size(), 2u);
    EXPECT_TRUE(read.cells[i].all(expected[i])) << i;
    EXPECT_EQ(read.cells[i].seeds[0].seed, 1);
    EXPECT_EQ(read.cells[i].seeds[1].seed, 2);
  }
  EXPECT_EQ(read.cells[0].seeds[0].val_loss, 2.0);
  EXPECT_EQ(read.cells[0].seeds[0].steps, 40);
  EXPECT_EQ(read.cells[0].seeds[0].seconds, 40);
  EXPECT_TRUE(std::isnan(read.cells[3].seeds[0].val_loss));
  EXPECT_NE(messages_.find("expected space, got none"), std::string::npos) << messages_;
  EXPECT_TRUE(fs::exists(folder_.path() / "sweep" / read.cells[0].seeds[0].run / "metrics.jsonl"));
}

TEST_F(SweepRun, children_get_one_thread_their_seed_and_the_settings) {
  run(plan({"good"}, 1), {}, 1);
  const std::string call = calls().at(0);
  for (const char* part : {"train spec.toml", "--train.threads 1", "--train.seed 1",
                           "--model.wiring good", "--train.steps 40", "/sweep/runs/good/seed-1"}) {
    EXPECT_NE(call.find(part), std::string::npos) << call;
  }
}

TEST_F(SweepRun, a_seed_of_the_command_line_is_the_first_of_the_seeds) {
  SweepPlan what = plan({"good"}, 2);
  what.cells[0].cell.settings.emplace_back("train.seed", "7");
  what.first_seed = 7;
  run(what, {}, 1);
  for (int i = 0; i < 2; ++i) {
    const std::string call = calls().at(static_cast<size_t>(i));
    const size_t last = call.rfind("--train.seed ");  // the last of a key counts
    EXPECT_EQ(call.substr(last), "--train.seed " + std::to_string(7 + i)) << call;
  }
}

TEST_F(SweepRun, finished_runs_are_kept_failed_ones_tried_again_seeds_added) {
  run(plan({"good", "crash"}, 1));
  const auto end = run(plan({"good", "crash"}, 2));
  EXPECT_EQ(end.kept, 1);
  EXPECT_EQ(calls().size(), 2u + 3u);
  EXPECT_TRUE(record().complete());
  const auto third = run(plan({"good"}, 2));
  EXPECT_EQ(third.kept, 2);
  EXPECT_EQ(calls().size(), 5u);
}

TEST_F(SweepRun, a_spent_budget_leaves_equal_numbers_and_a_later_call_goes_on) {
  const auto what = plan({"good", "slow", "stuck"}, 50, 10);
  const auto started = std::chrono::steady_clock::now();
  const auto end = run(what, 2.0);
  EXPECT_LT(std::chrono::steady_clock::now() - started, std::chrono::seconds(6));
  EXPECT_TRUE(end.out_of_budget);
  size_t least = 1000, most = 0;
  for (const CellResult& cell : record().cells) {
    least = std::min(least, cell.seeds.size());
    most = std::max(most, cell.seeds.size());
  }
  EXPECT_GE(least, 1u);
  EXPECT_LE(most, least + 1);
  EXPECT_FALSE(record().complete());
  EXPECT_LE(most_active_, 2u);
  const size_t before = calls().size();
  const auto second = run(plan({"good", "slow", "stuck"}, static_cast<int>(most), 10));
  EXPECT_TRUE(record().complete());
  EXPECT_LE(calls().size() - before, 3u);
  EXPECT_EQ(second.interrupted, 0);
}

TEST_F(SweepRun, an_interrupt_stops_the_children_and_the_next_call_resumes_them) {
  std::atomic<int> stop = 0;
  std::thread user([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(700));
    stop = 1;
  });
  const auto end = run(plan({"slow", "good"}, 1, 60), {}, 2, &stop);
  user.join();
  EXPECT_TRUE(end.stopped);
  EXPECT_EQ(end.interrupted, 1);
  EXPECT_EQ(record().cells[0].seeds.size(), 0u);
  EXPECT_EQ(record().cells[1].seeds.size(), 1u);
  const int64_t reached = last_step(folder_.path() / "sweep/runs/slow/seed-1/metrics.jsonl");
  EXPECT_GT(reached, 0);
  EXPECT_LT(reached, 60);
  run(plan({"slow", "good"}, 1, 60));
  EXPECT_NE(calls().back().find("resume"), std::string::npos);
  const auto metrics = read_metrics(folder_.path() / "sweep/runs/slow/seed-1/metrics.jsonl");
  EXPECT_EQ(metrics.steps.size(), 61u);  // nothing was done twice
  EXPECT_TRUE(record().cells[0].all(Outcome::learned));
}

TEST_F(SweepRun, a_run_killed_without_a_checkpoint_starts_anew) {
  const auto run_folder = folder_.path() / "sweep/runs/good/seed-1";
  std::filesystem::create_directories(run_folder);
  std::ofstream(folder_.path() / "sweep/sweep.json") << sweep_json({});
  std::ofstream(run_folder / "metrics.jsonl")
      << "{\"event\":\"step\",\"step\":7,\"loss\":1}\n{\"ev";
  run(plan({"good"}, 1));
  EXPECT_TRUE(record().complete());
  EXPECT_EQ(read_metrics(run_folder / "metrics.jsonl").steps.size(), 41u);
}

TEST_F(SweepRun, folders_of_others_are_left_alone) {
  std::filesystem::create_directories(folder_.path() / "sweep");
  std::ofstream(folder_.path() / "sweep/thesis.tex") << "x";
  const auto [kind, message] = test::failure_of([&] { run(plan({"good"}, 1)); });
  EXPECT_EQ(kind, Failure::input);
  EXPECT_NE(message.find("--run"), std::string::npos);
}

TEST_F(SweepRun, two_sweeps_never_share_a_folder) {
  std::atomic<int> stop = 0;
  std::thread first([&] { run(plan({"slow"}, 1, 6000), {}, 1, &stop); });
  std::this_thread::sleep_for(std::chrono::milliseconds(400));
  SweepOptions options;
  options.program = program_;
  options.folder = folder_.path() / "sweep";
  const auto other = plan({"good"}, 1);
  EXPECT_EQ(test::failure_of([&] { run_sweep(other, options); }).first, Failure::input);
  stop = 1;
  first.join();
}

TEST_F(SweepRun, a_program_that_does_not_exist_fails_each_run) {
  program_ = folder_.path() / "nothing";
  const auto end = run(plan({"good"}, 2));
  EXPECT_TRUE(end.result.cells[0].all(Outcome::failed));
  EXPECT_EQ(end.result.cells[0].seeds.size(), 2u);
}

// How a child ends, within ten seconds.
std::optional<int> ended(Child& child) {
  for (int i = 0; i < 1000; ++i) {
    if (const auto code = child.poll()) return code;
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  return {};
}

TEST(ChildProgram, EndsWithTheThreadThatStartedIt) {
  const test::TemporaryFolder folder;
  std::optional<Child> child;
  std::thread starter([&] {
    child.emplace(std::vector<std::string>{"/bin/sleep", "600"}, folder.path() / "log");
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
    EXPECT_FALSE(child->poll());
  });
  starter.join();
  EXPECT_EQ(ended(*child), 128 + SIGTERM);
}

TEST(ChildProgram, HasItsOutputInOneFileAndSignalsAsAtTheirStart) {
  const test::TemporaryFolder folder;
  const auto log = folder.path() / "log";
  std::signal(SIGINT, SIG_IGN);
  Child child({"/bin/sh", "-c", "cat; echo out; echo err >&2; kill -INT $$; echo still here"}, log);
  std::signal(SIGINT, SIG_DFL);
  EXPECT_EQ(ended(child), 128 + SIGINT);
  EXPECT_EQ(read_file(log), "out\nerr\n");
}

TEST(ChildProgram, ThatCannotBeStartedIsAnErrorWithItsReason) {
  const test::TemporaryFolder folder;
  const auto start = [&](const std::string& program, const fs::path& log) {
    return test::failure_of([&] { Child({program}, log); });
  };
  const auto missing = start("/nowhere/program", folder.path() / "log");
  EXPECT_EQ(missing.first, Failure::system);
  EXPECT_NE(missing.second.find("No such file"), std::string::npos) << missing.second;
  EXPECT_NE(start("/etc/passwd", folder.path() / "log").second.find("Permission denied"),
            std::string::npos);
  EXPECT_EQ(start("/bin/true", folder.path() / "no" / "log").first, Failure::system);
}

}  // namespace
}  // namespace addnorm::lab
