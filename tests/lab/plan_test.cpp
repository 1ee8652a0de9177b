// From the command line of a sweep to its cells and back: the command that a cell is given as advice
// trains that cell.
#include "addnorm/lab/plan.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>

#include "addnorm/base/files.h"
#include "addnorm/base/text.h"
#include "addnorm/lab/words.h"
#include "support/temporary.h"

namespace addnorm::lab {
namespace {

constexpr const char* spec_toml = R"([model]
kind = "decoder"
layers = 2
width = 16
heads = 2
context = 8
wiring = "pre-ln"
[data]
source = "TEXT"
[train]
steps = 10
lr = 0.01
min_lr = 0.005
schedule = "linear"
seed = 4
)";

class SweepPlanning : public ::testing::Test {
 protected:
  SweepPlanning() {
    file_ = folder_.path() / "my spec.toml";
    write(spec_toml);
    for (const char* name : {"text.txt", "it's.txt"}) {
      std::ofstream(folder_.path() / name) << "text";
    }
  }
  void write(std::string text) const {
    text.replace(text.find("TEXT"), 4, (folder_.path() / "text.txt").string());
    std::ofstream(file_) << text;
  }
  SweepPlan plan(const GridRequest& request) const {
    return plan_sweep(file_, make_grid(request), 3, formula::Catalogue::builtin());
  }
  static SweepResult result_of(const SweepPlan& plan, Outcome outcome) {
    SweepResult result;
    result.specification = plan.specification.string();
    for (const PlannedCell& cell : plan.cells) {
      result.cells.push_back(cell.record);
      result.cells.back().seeds = {{5, outcome, 3, 3, 10, 1, "runs/a/seed-5"}};
    }
    return parse_sweep(sweep_json(result), "sweep.json");
  }
  // The words of a command as a shell sees them.
  std::vector<std::string> words(const std::string& command) const {
    const auto out = (folder_.path() / "words").string();
    const std::string whole = "printf '%s\\0' " + command + " >" + shell_quoted(out);
    EXPECT_EQ(std::system(whole.c_str()), 0);
    std::vector<std::string> found = split(read_file(out), '\0');
    found.pop_back();
    return found;
  }
  static model::Specification load(const std::filesystem::path& file,
                                   const model::Overrides& overrides) {
    return model::load(file, overrides, model::Needs::training, formula::Catalogue::builtin());
  }
  // What the training verb would train: the resolved specification, without sources of values.
  static std::vector<std::string> trained(const model::Specification& specification) {
    std::vector<std::string> lines;
    for (const std::string& line : split(model::resolved_toml(specification), '\n')) {
      lines.push_back(trim(line.substr(0, line.rfind("  #"))));
    }
    return lines;
  }

  test::TemporaryFolder folder_;
  std::filesystem::path file_;
};

TEST_F(SweepPlanning, TheCommandOfTheAdviceTrainsTheCell) {
  GridRequest request;
  request.wirings = {"post-ln", "a = x; x = norm(2*a + f(x))"};
  request.axes = {{"train.warmup", "0,3"},
                  {"model.width", "32"},
                  {"data.source", "[\"" + (folder_.path() / "it's.txt").string() + "\"]"},
                  {"init.v", "\"normal(0.02/sqrt(2*L))\""},
                  {"train.seed", "5"}};
  request.cells = {"wiring=deepnorm model.layers=3 train.clip=0 init.default=xavier_normal(1)"};
  const SweepPlan planned = plan(request);
  ASSERT_EQ(planned.cells.size(), 5u);
  EXPECT_EQ(planned.first_seed, 5);
  for (const Outcome outcome :
       {Outcome::failed, Outcome::stalled, Outcome::diverged, Outcome::undecided}) {
    const SweepResult result = result_of(planned, outcome);
    for (size_t i = 0; i < result.cells.size(); ++i) {
      const auto command = words(advise(result, i).command);
      ASSERT_EQ(std::vector(command.begin(), command.begin() + 3),
                (std::vector<std::string>{"addnorm", "train", file_.string()}));
      model::Overrides overrides;
      for (size_t w = 3; w + 1 < command.size(); w += 2) {
        ASSERT_TRUE(command[w].starts_with("--")) << command[w];
        overrides.emplace_back(command[w].substr(2), command[w + 1]);
      }
      ASSERT_EQ(command.size() % 2, 1u);
      // The cell itself with the change of its advice.
      model::Overrides wanted = planned.cells[i].cell.settings;
      const bool cold = *result.cells[i].find("warmup") == Value(0.0);
      if (outcome == Outcome::failed) {
      } else if (cold) {
        wanted.emplace_back("train.warmup", "50%");
      } else if (outcome == Outcome::undecided) {
        wanted.emplace_back("train.steps", "20");
      } else {
        wanted.emplace_back("train.lr", "0.0033");
        wanted.emplace_back("train.min_lr", "0.0017");
        if (outcome == Outcome::diverged) wanted.emplace_back("train.clip", "1");
      }
      EXPECT_EQ(trained(load(file_, overrides)), trained(load(file_, wanted)))
          << advise(result, i).command;
    }
  }
}

TEST_F(SweepPlanning, APairKeepsItsDepthsAndWirings) {
  std::string text = spec_toml;
  text.replace(text.find("layers = 2"), 10, "encoder_layers = 2\ndecoder_layers = 3");
  text.replace(text.find("\"decoder\""), 9, "\"encoder-decoder\"");
  write(text);
  GridRequest request;
  request.axes = {{"model.encoder_wiring", "peri-ln"}, {"model.decoder_layers", "1,4"}};
  const SweepPlan planned = plan(request);
  const SweepResult result = result_of(planned, Outcome::failed);
  const auto command = words(advise(result, 1).command);
  model::Overrides overrides;
  for (size_t w = 3; w + 1 < command.size(); w += 2) {
    overrides.emplace_back(command[w].substr(2), command[w + 1]);
  }
  overrides.emplace_back("train.seed", "4");  // of the specification
  EXPECT_EQ(trained(load(file_, overrides)), trained(load(file_, planned.cells[1].cell.settings)));
  EXPECT_EQ(load(file_, overrides).model.decoder_layers, 4);
}

TEST_F(SweepPlanning, MistakesNameTheirCellOnTheirOwnLine) {
  const auto message = [&](const GridRequest& request) {
    const auto [kind, text] = test::failure_of([&] { plan(request); });
    EXPECT_EQ(kind, Failure::input) << text;
    for (const std::string& line : split(text, '\n')) {
      EXPECT_TRUE(line.starts_with("error [") && !line.ends_with("] ")) << text;
    }
    return text;
  };
  const std::string one = message({{"pre-ln", "pre-lm"}, {{"model.heads", "2,3"}}, {}});
  EXPECT_NE(one.find("error [cell model.wiring=pre-lm model.heads=2, --model.wiring"),
            std::string::npos)
      << one;
  EXPECT_NE(one.find("error [cell model.wiring=pre-ln model.heads=3, "), std::string::npos) << one;
  EXPECT_EQ(one.find("cell model.wiring=pre-ln model.heads=2"), std::string::npos) << one;
  const std::string text =
      message({{"pre-ln"}, {{"data.source", "/nowhere/a.txt,/etc/passwd"}}, {}});
  EXPECT_NE(text.find("error [cell model.wiring=pre-ln data.source=/nowhere/a.txt, "),
            std::string::npos)
      << text;
  // A mistake of all cells is said once.
  const std::string all = message({{"pre-ln", "post-ln"}, {{"model.widht", "3"}}, {}});
  EXPECT_EQ(split(all, '\n').size(), 1u) << all;
  EXPECT_TRUE(all.starts_with("error [--model.widht] expected")) << all;
}

TEST_F(SweepPlanning, CellsThatDifferInTheSeedAloneAreRefused) {
  GridRequest request;
  request.wirings = {"pre-ln"};
  request.axes = {{"train.seed", "1,2"}};
  const auto [kind, text] = test::failure_of([&] { plan(request); });
  EXPECT_EQ(kind, Failure::input);
  EXPECT_NE(text.find("--seeds"), std::string::npos) << text;
}

}  // namespace
}  // namespace addnorm::lab
