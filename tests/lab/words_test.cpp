#include "addnorm/lab/words.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "addnorm/base/error.h"
#include "support/temporary.h"

namespace addnorm::lab {
namespace {

CellResult cell(const std::string& wiring, double layers, double warmup, Outcome outcome,
                double loss) {
  CellResult cell;
  cell.keys = {{"wiring", wiring}, {"layers", layers}, {"lr", 0.005}, {"warmup", warmup}};
  cell.settings = {{"model.wiring", wiring},
                   {"model.layers", value_text(layers)},
                   {"train.warmup", value_text(warmup)},
                   {"model.width", "64"}};
  for (int seed = 1; seed <= 3; ++seed) {
    cell.seeds.push_back(
        {seed, outcome, loss + 0.01 * seed, loss + 0.01 * seed, 200, 20.0, "runs/x/seed"});
  }
  return cell;
}

SweepResult sweep() {
  SweepResult result;
  result.specification = "my spec.toml";
  result.planned_seeds = 3;
  result.unigram_entropy = 3.02;
  result.cells = {
      cell("after", 6, 0, Outcome::stalled, 3.0), cell("after", 6, 100, Outcome::learned, 2.3),
      cell("before", 6, 0, Outcome::learned, 2.2), cell("after", 12, 100, Outcome::stalled, 3.0),
      cell("x = norm(2*x + f(x))", 12, 100, Outcome::learned, 2.25)};
  result.cells.back().keys.emplace_back("init.v", "xavier_normal((8*L)^(-1/4))");
  result.cells.back().settings.emplace_back("init.v", "xavier_normal((8*L)^(-1/4))");
  return result;
}

TEST(SweepWords, record_goes_to_json_and_back) {
  SweepResult result = sweep();
  result.cells[0].seeds[0].val_loss = missing;
  result.cells[0].min_lr = 5e-4;
  result.cells[0].seeds[1].train_loss = -std::numeric_limits<double>::infinity();
  const std::string text = sweep_json(result);
  const SweepResult back = parse_sweep(text, "sweep.json");
  EXPECT_EQ(sweep_json(back), text);
  EXPECT_NE(text.find("\"layers\": 6,"), std::string::npos) << text;
  EXPECT_EQ(value_text(*back.cells[4].find("init.v")), "xavier_normal((8*L)^(-1/4))");
  EXPECT_EQ(std::get<double>(*back.cells[4].find("layers")), 12);
  EXPECT_EQ(back.cells[4].settings, result.cells[4].settings);
  EXPECT_EQ(back.cells[0].min_lr, 5e-4);
  EXPECT_EQ(back.cells[0].keys.size(), 4u);
  EXPECT_TRUE(std::isnan(back.cells[0].seeds[0].val_loss));
  EXPECT_TRUE(std::isinf(back.cells[0].seeds[1].train_loss));
  for (const std::string& bad :
       {std::string("{"), std::string("{}"), std::string("[]"),
        std::string("{\"cells\":[{\"seeds\":[{}]}]}"), std::string(100000, '[')}) {
    EXPECT_EQ(test::failure_of([&] { parse_sweep(bad, "sweep.json"); }).first, Failure::input);
  }
}

TEST(SweepWords, spread_leaves_out_what_is_not_finite) {
  const Spread spread = spread_of({1, 3, missing, std::numeric_limits<double>::infinity()});
  EXPECT_EQ(spread.count, 2);
  EXPECT_DOUBLE_EQ(spread.mean, 2);
  EXPECT_DOUBLE_EQ(spread.sd, std::sqrt(2.0));
  EXPECT_EQ(spread_of({missing}).count, 0);
}

TEST(SweepWords, extras_with_one_value_stand_together) {
  SweepResult result = sweep();
  result.cells.back().keys.emplace_back("train.clip", 1.0);
  result.cells.back().keys.emplace_back("init.q", "xavier_normal((8*L)^(-1/4))");
  EXPECT_EQ(extras_text(result, result.cells.back()),
            "init.v, init.q = xavier_normal((8*L)^(-1/4)); train.clip = 1");
  EXPECT_EQ(extras_text(result, result.cells.front()), "");
}

TEST(SweepWords, labels_name_what_varies) {
  EXPECT_EQ(cell_label(sweep(), 0), "after, layers 6, warmup 0");
  EXPECT_EQ(varied_keys(sweep()), (std::vector<std::string>{"wiring", "layers", "warmup"}));
}

TEST(SweepWords, answer_counts_and_names_single_changes) {
  const std::string text = answer(sweep());
  EXPECT_NE(text.find("3 of 5 cells learned at every seed"), std::string::npos) << text;
  EXPECT_NE(text.find("after, layers 6, warmup 0 (stalled at 3 of 3 seeds)"), std::string::npos)
      << text;
  EXPECT_NE(text.find("in after, layers 6, warmup 0: warmup 100 instead of 0, or wiring before "
                      "instead of after"),
            std::string::npos)
      << text;
  EXPECT_NE(text.find("in after, layers 12, warmup 100: layers 6 instead of 12"), std::string::npos)
      << text;
  EXPECT_NE(text.find("wiring x = norm(2*x + f(x)) instead of after"), std::string::npos) << text;
}

TEST(SweepWords, mixed_seeds_are_counted_never_one_yes_or_no) {
  SweepResult result = sweep();
  result.cells[2].seeds[1].outcome = Outcome::diverged;
  EXPECT_NE(answer(result).find(
                "before, layers 6, warmup 0 (learned at 2 of 3 seeds, diverged at 1 of 3 seeds)"),
            std::string::npos)
      << answer(result);
}

TEST(SweepWords, advice_takes_the_smallest_change_that_learned_here) {
  const Advice first = advise(sweep(), 0);
  EXPECT_NE(first.text.find("warmup 100 instead of 0"), std::string::npos) << first.text;
  EXPECT_EQ(first.command,
            "addnorm train 'my spec.toml' --model.wiring after --model.layers 6 --train.warmup 100 "
            "--model.width 64 --train.seed 1");
  EXPECT_TRUE(advise(sweep(), 1).text.empty());
  // Another wiring at the same depth before another depth.
  EXPECT_NE(advise(sweep(), 3).command.find("--model.layers 12"), std::string::npos)
      << advise(sweep(), 3).command;
  EXPECT_NE(advise(sweep(), 3).command.find("--init.v"), std::string::npos);
}

TEST(SweepWords, advice_without_a_neighbour) {
  SweepResult result = sweep();
  result.cells = {cell("after", 6, 0, Outcome::stalled, 3.0)};
  EXPECT_NE(advise(result, 0).command.find("--train.warmup 50%"), std::string::npos);
  result.cells = {cell("after", 6, 10, Outcome::stalled, 3.0)};
  EXPECT_NE(advise(result, 0).command.find("--train.lr 0.0017"), std::string::npos)
      << advise(result, 0).command;
  result.cells[0].min_lr = 0.003;  // above the new rate
  EXPECT_NE(advise(result, 0).command.find("--train.lr 0.0017 --train.min_lr 0.001"),
            std::string::npos)
      << advise(result, 0).command;
  result.cells = {cell("after", 6, 10, Outcome::diverged, 9.0)};
  EXPECT_NE(advise(result, 0).command.find("--train.clip 1"), std::string::npos);
  result.cells = {cell("after", 6, 10, Outcome::undecided, 2.9)};
  EXPECT_NE(advise(result, 0).command.find("--train.steps 400"), std::string::npos);
  result.cells = {cell("after", 6, 10, Outcome::failed, 2.9)};
  EXPECT_NE(advise(result, 0).text.find("runs/x/seed.log"), std::string::npos);
  // The seed is one of those that failed.
  result.cells[0].seeds[0].outcome = Outcome::learned;
  EXPECT_TRUE(advise(result, 0).command.ends_with("--train.seed 2")) << advise(result, 0).command;
}

TEST(SweepWords, table_has_counts_losses_and_advice) {
  const std::string table = sweep_table(sweep());
  EXPECT_NE(table.find("all cells: lr 0.005"), std::string::npos) << table;
  EXPECT_NE(table.find("3.020"), std::string::npos) << table;
  EXPECT_NE(table.find("2.320 ± 0.010"), std::string::npos) << table;
  EXPECT_NE(table.find("[1] init.v = xavier_normal((8*L)^(-1/4))"), std::string::npos) << table;
  EXPECT_NE(table.find("addnorm train"), std::string::npos) << table;
}

TEST(SweepWords, an_empty_sweep_still_prints) {
  SweepResult result = sweep();
  for (CellResult& at : result.cells) at.seeds.clear();
  EXPECT_NE(sweep_table(result).find("0/3"), std::string::npos);
  EXPECT_NE(answer(result).find("no finished seed yet"), std::string::npos);
}

TEST(SweepWords, shell_quoting) {
  EXPECT_EQ(shell_quoted("a-b_c.toml"), "a-b_c.toml");
  EXPECT_EQ(shell_quoted("it's"), "'it'\\''s'");
  EXPECT_EQ(shell_quoted(""), "''");
}

}  // namespace
}  // namespace addnorm::lab
