// `addnorm sweep` with the real program as its children: what it records, what it survives, and that
// none of its children outlives it.
#include <sys/file.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "addnorm/base/text.h"
#include "train/program.h"

namespace addnorm::lab {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using train::program::holds;
using train::program::Process;
using train::program::Result;
using train::program::slurp;
using train::program::spit;

// Pids of the processes whose parent is `parent`.
std::vector<pid_t> children_of(pid_t parent) {
  std::vector<pid_t> pids;
  for (const auto& entry : fs::directory_iterator("/proc")) {
    const std::string name = entry.path().filename().string();
    if (name.find_first_not_of("0123456789") != std::string::npos) continue;
    const std::string stat = slurp(entry.path() / "stat");
    const size_t after = stat.rfind(')');  // of the program's name, which may hold anything
    if (after == std::string::npos) continue;
    std::istringstream rest(stat.substr(after + 1));
    std::string state;
    pid_t its_parent = 0;
    rest >> state >> its_parent;
    if (its_parent == parent && state != "Z") pids.push_back(std::stoi(name));
  }
  return pids;
}

bool lives(pid_t pid) {
  const std::string stat = slurp("/proc/" + std::to_string(pid) + "/stat");
  const size_t after = stat.rfind(')');
  return after != std::string::npos && stat.substr(after + 2, 1) != "Z";
}

class SweepProgramTraining : public ::testing::Test {
 protected:
  static std::vector<std::string> grid(const std::string& run, int steps) {
    return {"sweep",
            "spec.toml",
            "--wiring",
            "pre-ln",
            "--wiring",
            "post-ln",
            "--seeds",
            "2",
            "--train.steps",
            std::to_string(steps),
            "--train.checkpoint_every",
            "100",
            "--train.eval_every",
            "100",
            "--train.diag_every",
            "100",
            "--data.documents",
            "stream",
            "--run",
            run};
  }
  Result sweep(std::vector<std::string> arguments,
               const std::vector<std::string>& more = {}) const {
    arguments.insert(arguments.end(), more.begin(), more.end());
    return place_.run(arguments);
  }
  json record(const std::string& run) const {
    return json::parse(slurp(place_ / run / "sweep.json"));
  }
  // All that a sweep found, without times.
  static json timeless(json record) {
    for (json& cell : record["cells"]) {
      for (json& seed : cell["seeds"]) seed.erase("seconds");
    }
    return record;
  }
  // The command that the table advises for a cell, as a shell runs it in the same folder.
  Result advised(const Result& sweep, const std::string& cell, const std::string& more) const {
    for (const std::string& line : split(sweep.out, '\n')) {
      const size_t at = line.find(": addnorm train ");
      if (!line.starts_with(cell) || at == std::string::npos) continue;
      const std::string command = "cd '" + place_.path().string() +
                                  "' && exec '" ADDNORM_PROGRAM "'" + line.substr(at + 9) + more +
                                  " >advised.out 2>advised.err";
      const int status = std::system(command.c_str());
      return {WEXITSTATUS(status), slurp(place_ / "advised.out"), slurp(place_ / "advised.err")};
    }
    ADD_FAILURE() << "no advice for " << cell << "\n" << sweep.out;
    return {};
  }

  train::program::Place place_;
};

TEST_F(SweepProgramTraining, WritesItsRecordAsTheDesignHasIt) {
  const Result ran = sweep(grid("sweep", 40), {"--train.warmup", "2"});
  ASSERT_EQ(ran.code, 0) << ran.err;
  EXPECT_TRUE(fs::exists(place_ / "sweep/report.html"));
  const json all = record("sweep");
  ASSERT_EQ(all.at("cells").size(), 2U);
  const double h1 = all.at("unigram_entropy");
  EXPECT_GT(h1, 1);
  std::vector<std::string> wirings;
  for (const json& cell : all.at("cells")) {
    wirings.push_back(cell.at("wiring"));
    EXPECT_EQ(cell.at("layers"), 1);
    EXPECT_EQ(cell.at("lr"), 0.01);
    EXPECT_EQ(cell.at("warmup"), 2);
    EXPECT_EQ(cell.at("train.steps"), 40);
    ASSERT_EQ(cell.at("seeds").size(), 2U);
    for (size_t i = 0; i < 2; ++i) {
      const json& seed = cell["seeds"][i];
      EXPECT_EQ(seed.size(), 7U);
      EXPECT_EQ(seed.at("seed"), i + 1);
      EXPECT_EQ(seed.at("steps"), 40);
      EXPECT_GT(seed.at("seconds"), 0);
      const fs::path run = place_ / "sweep" / seed.at("run").get<std::string>();
      double sum = 0;
      const auto steps = train::tiny::metrics(run, "step");
      ASSERT_EQ(steps.size(), 41U);
      for (size_t k = 21; k <= 40; ++k) sum += steps[k].at("loss").get<double>() / 20;
      EXPECT_NEAR(seed.at("train_loss").get<double>(), sum, 1e-9);
      EXPECT_EQ(seed.at("val_loss"), train::tiny::metrics(run, "eval").back().at("val_loss"));
      const std::string outcome = seed.at("outcome");
      EXPECT_EQ(outcome == "learned", sum <= h1 - 0.3) << outcome;
      EXPECT_TRUE(outcome == "learned" || outcome == "stalled" || outcome == "undecided");
      const json environment = json::parse(slurp(run / "env.json"));
      EXPECT_EQ(environment.at("seed"), i + 1);
      EXPECT_EQ(environment.at("threads"), 1);
    }
  }
  EXPECT_EQ(wirings, (std::vector<std::string>{"pre-ln", "post-ln"}));
  // Another seed is another run, the same seed of the other cell too.
  EXPECT_NE(all["cells"][0]["seeds"][0]["train_loss"], all["cells"][0]["seeds"][1]["train_loss"]);
  EXPECT_NE(all["cells"][0]["seeds"][0]["train_loss"], all["cells"][1]["seeds"][0]["train_loss"]);
}

TEST_F(SweepProgramTraining, KilledInTheMiddleItLeavesNoChildAndGoesOnToTheSameResults) {
  constexpr int steps = 7000;  // longer than the three kills take
  spit(place_ / "text.txt", train::program::words(4000));
  ASSERT_EQ(sweep(grid("whole", steps)).code, 0);
  for (int kill = 0; kill < 3; ++kill) {
    Process process(place_.path(), grid("broken", steps));
    ASSERT_TRUE(process.wait_for(place_ / "stderr", "runs at a time")) << slurp(place_ / "stderr");
    std::vector<pid_t> children;
    for (int i = 0; i < 2000 && children.empty(); ++i) {
      children = children_of(process.pid());
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
    ASSERT_FALSE(children.empty());
    std::this_thread::sleep_for(std::chrono::milliseconds(150 + 200 * kill));
    children = children_of(process.pid());
    process.send(SIGKILL);
    EXPECT_EQ(process.wait(), 128 + SIGKILL);
    const auto any_lives = [&] { return std::any_of(children.begin(), children.end(), lives); };
    for (int i = 0; i < 1000 && any_lives(); ++i) {
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
    EXPECT_FALSE(any_lives());
  }
  EXPECT_FALSE(record("broken").at("complete"));
  const Result rest = sweep(grid("broken", steps));
  ASSERT_EQ(rest.code, 0) << rest.err;
  EXPECT_TRUE(holds(rest.err, "going on from step")) << rest.err;
  EXPECT_TRUE(record("broken").at("complete"));
  EXPECT_EQ(timeless(record("broken")), timeless(record("whole")));
  for (const json& cell : record("whole").at("cells")) {
    for (const json& seed : cell.at("seeds")) {
      const std::string run = seed.at("run");
      EXPECT_TRUE(train::program::state_of(place_ / "broken" / run) ==
                  train::program::state_of(place_ / "whole" / run))
          << run;
    }
  }
  // Nothing is left to do.
  const Result again = sweep(grid("broken", steps));
  EXPECT_EQ(again.code, 0);
  EXPECT_TRUE(holds(again.err, "4 finished runs are kept")) << again.err;
}

TEST_F(SweepProgramTraining, ASpentBudgetLeavesEqualNumbersOfSeeds) {
  auto arguments = grid("sweep", 200);
  *(std::find(arguments.begin(), arguments.end(), "--seeds") + 1) = "500";
  const auto began = std::chrono::steady_clock::now();
  const Result ran = sweep(arguments, {"--budget", "3s"});
  EXPECT_LT(std::chrono::steady_clock::now() - began, std::chrono::seconds(40));
  ASSERT_EQ(ran.code, 0) << ran.err;
  EXPECT_TRUE(holds(ran.err, "the budget is spent")) << ran.err;
  EXPECT_TRUE(holds(ran.err, "--seeds 500 --run sweep")) << ran.err;
  const json all = record("sweep");
  EXPECT_FALSE(all.at("complete"));
  const auto first = all["cells"][0]["seeds"].size(), second = all["cells"][1]["seeds"].size();
  EXPECT_LE(std::max(first, second) - std::min(first, second), 1U) << first << " " << second;
  EXPECT_GE(std::max(first, second), 1U);
}

TEST_F(SweepProgramTraining, ARunThatFailsCostsOnlyItself) {
  spit(place_ / "short.txt", "abc");
  const Result ran = sweep(grid("sweep", 40), {"--cell", "wiring=peri-ln data.source=short.txt"});
  ASSERT_EQ(ran.code, 0) << ran.err;
  const json all = record("sweep");
  ASSERT_EQ(all.at("cells").size(), 3U);
  for (const json& cell : all.at("cells")) {
    ASSERT_EQ(cell.at("seeds").size(), 2U);
    for (const json& seed : cell.at("seeds")) {
      const bool failed = cell.at("wiring") == "peri-ln";
      EXPECT_EQ(seed.at("outcome") == "failed", failed) << seed.dump();
      EXPECT_EQ(seed.at("steps"), failed ? 0 : 40);
      EXPECT_EQ(seed.at("train_loss").is_null(), failed);
    }
  }
  EXPECT_TRUE(holds(ran.err, "seed 1: failed: error [")) << ran.err;
  EXPECT_TRUE(holds(ran.err, "got 3;")) << ran.err;
  // The command that is printed for it fails in the same way, in a run of its own.
  const Result alone = advised(ran, "peri-ln", " --run alone");
  EXPECT_EQ(alone.code, 2) << alone.err;
  EXPECT_TRUE(holds(alone.err, "got 3;")) << alone.err;
  // Tried again once the text is there; the others are kept.
  spit(place_ / "short.txt", train::program::words(400));
  const Result again = sweep(grid("sweep", 40), {"--cell", "wiring=peri-ln data.source=short.txt"});
  ASSERT_EQ(again.code, 0) << again.err;
  EXPECT_TRUE(holds(again.err, "4 finished runs are kept")) << again.err;
  for (const json& seed : record("sweep")["cells"][2].at("seeds")) EXPECT_EQ(seed.at("steps"), 40);
}

TEST_F(SweepProgramTraining, TheAdvisedCommandTrainsTheCellWithItsChange) {
  // Nothing can be learned at this rate: both cells get advice.
  const Result ran = sweep(grid("sweep", 40), {"--train.lr", "1e-9", "--model.width", "16",
                                               "--train.schedule", "constant"});
  ASSERT_EQ(ran.code, 0) << ran.err;
  const Result alone = advised(ran, "post-ln", " --run alone");
  ASSERT_EQ(alone.code, 0) << alone.err;
  const std::string spec = slurp(place_ / "alone/spec.toml");
  for (const char* line : {"width = 16", "wiring_name = \"post-ln\"", "schedule = \"constant\"",
                           "steps = 40", "seed = 1"}) {
    EXPECT_TRUE(holds(spec, line)) << line << "\n" << spec;
  }
}

}  // namespace
}  // namespace addnorm::lab
