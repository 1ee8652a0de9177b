#include "addnorm/lab/grid.h"

#include <gtest/gtest.h>

#include "addnorm/base/error.h"
#include "support/temporary.h"

namespace addnorm::lab {
namespace {

using Strings = std::vector<std::string>;

TEST(Grid, values_split_at_commas_outside_brackets_and_quotes) {
  EXPECT_EQ(split_values("0,100", "w"), (Strings{"0", "100"}));
  EXPECT_EQ(split_values(" clip(x, 0, 1) , [\"q\", \"k\"],'a,b'", "w"),
            (Strings{"clip(x, 0, 1)", "[\"q\", \"k\"]", "a,b"}));
  for (const char* bad : {"", "1,,2", "1,", "(1,2", "1)", "'a,b"}) {
    EXPECT_EQ(test::failure_of([&] { split_values(bad, "--train.lr"); }).first, Failure::input)
        << bad;
  }
}

TEST(Grid, all_combinations_and_formulas_stay_whole) {
  GridRequest request;
  request.wirings = {"post-ln", "a, b = x, x; x = norm(a + f(b))"};
  request.axes = {{"train.warmup", "0,100"}, {"train.clip", "0"}};
  const auto cells = make_grid(request);
  ASSERT_EQ(cells.size(), 4u);
  EXPECT_EQ(cells[0].settings,
            (Settings{{"model.wiring", "post-ln"}, {"train.warmup", "0"}, {"train.clip", "0"}}));
  EXPECT_EQ(*cells[3].find("model.wiring"), "a, b = x, x; x = norm(a + f(b))");
  EXPECT_EQ(*cells[3].find("train.warmup"), "100");
}

TEST(Grid, further_cells) {
  GridRequest request;
  request.wirings = {"post-ln"};
  request.axes = {{"train.warmup", "0,100"}, {"train.lr", "5e-3"}};
  request.cells = {
      "model.layers=12  init.v=xavier_normal((8 * L)^(-1/4)) wiring='x = norm(2*x + f(x))'",
      "wiring=x=norm(x+f(x)) train.lr=1"};
  const auto cells = make_grid(request);
  ASSERT_EQ(cells.size(), 4u);
  EXPECT_EQ(cells[2].settings, (Settings{{"model.wiring", "x = norm(2*x + f(x))"},
                                         {"model.layers", "12"},
                                         {"init.v", "xavier_normal((8 * L)^(-1/4))"},
                                         {"train.lr", "5e-3"}}));
  EXPECT_EQ(*cells[3].find("model.wiring"), "x=norm(x+f(x))");
  EXPECT_EQ(*cells[3].find("train.lr"), "1");
  EXPECT_EQ(cells[3].find("train.warmup"), nullptr);
}

TEST(Grid, cells_alone_need_no_wiring_flag) {
  GridRequest request;
  request.axes = {{"train.steps", "10"}};
  request.cells = {"wiring=a", "wiring=b"};
  EXPECT_EQ(make_grid(request).size(), 2u);
  EXPECT_EQ(make_grid(GridRequest{}).size(), 1u);  // the specification itself
}

TEST(Grid, mistakes_are_named) {
  const auto message = [](const GridRequest& request) {
    const auto [kind, text] = test::failure_of([&] { make_grid(request); });
    EXPECT_EQ(kind, Failure::input) << text;
    return text;
  };
  EXPECT_NE(message({{}, {}, {"wiring=x = norm(x + f(x))"}}).find("quotes"), std::string::npos);
  EXPECT_NE(message({{}, {}, {"layers 12"}}).find("layers"), std::string::npos);
  EXPECT_NE(message({{}, {}, {"wiring=a model.wiring=b"}}).find("twice"), std::string::npos);
  EXPECT_NE(message({{}, {}, {" "}}).find("at least one"), std::string::npos);
  EXPECT_NE(message({{"a", "a"}, {}, {}}).find("twice"), std::string::npos);
  EXPECT_NE(message({{}, {{"train.lr", "1"}, {"train.lr", "2"}}, {}}).find("train.lr"),
            std::string::npos);
}

}  // namespace
}  // namespace addnorm::lab
