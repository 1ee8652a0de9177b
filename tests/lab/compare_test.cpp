#include "addnorm/lab/compare.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>

#include "addnorm/base/text.h"
#include "report/synthetic.h"
#include "support/temporary.h"

namespace addnorm::lab {
namespace {

class Comparing : public ::testing::Test {
 protected:
  std::filesystem::path specification(const std::string& name, int layers, const std::string& out,
                                      const std::string& wiring = "pre-ln") {
    const auto file = folder_.path() / name;
    std::ofstream(file) << fmt::format(
        "[model]\nkind = \"decoder\"\nlayers = {}\nwidth = 64\nheads = 4\nvocab = 256\ncontext = "
        "64\n"
        "wiring = \"{}\"\n[init]\nattn_out = \"{}\"\nffn_out = \"{}\"\n",
        layers, wiring, out, out);
    return file;
  }
  static std::string found(const std::vector<Difference>& list, const std::string& name) {
    for (const Difference& d : list) {
      if (d.name == name) return d.a + " -> " + d.b;
    }
    return "";
  }
  const formula::Catalogue& catalogue_ = formula::Catalogue::builtin();
  test::TemporaryFolder folder_;
};

// D2, first pair: the standard deviation is fixed.
TEST_F(Comparing, names_what_does_not_follow_the_depth) {
  const auto c = compare(specification("a.toml", 6, "normal(0.02)"),
                         specification("b.toml", 10, "normal(0.02)"), catalogue_);
  ASSERT_EQ(c.keys.size(), 1u);
  EXPECT_EQ(found(c.keys, "model.layers"), "6 -> 10");
  // Per layer 4*(64*64 + 64) + 2*64*256 + 256 + 64 + 2*2*64.
  const int64_t layer = 4 * (64 * 64 + 64) + 2 * 64 * 256 + 256 + 64 + 4 * 64;
  const int64_t rest = 256 * 64 + 64 * 64 + 2 * 64;
  EXPECT_EQ(found(c.follows, "parameters"),
            fmt::format("{} -> {}", rest + 6 * layer, rest + 10 * layer));
  EXPECT_EQ(found(c.follows, "branches"), "12 -> 20");
  EXPECT_EQ(found(c.follows, "init std of attn_out"), "");
  ASSERT_EQ(c.fixed.size(), 2u);
  EXPECT_NE(c.fixed[0].find("attn_out does not follow"), std::string::npos) << c.fixed[0];
  EXPECT_NE(c.fixed[0].find("normal(0.02/sqrt(2*L))"), std::string::npos) << c.fixed[0];
  EXPECT_NE(c.fixed[1].find("ffn_out"), std::string::npos);
}

// D2, second pair: 0.02/sqrt(12) and 0.02/sqrt(20).
TEST_F(Comparing, names_what_follows_the_depth) {
  const std::string rule = "normal(0.02/sqrt(2*L))";
  const auto c =
      compare(specification("a.toml", 6, rule), specification("b.toml", 10, rule), catalogue_);
  EXPECT_EQ(found(c.follows, "init std of attn_out"), "0.0057735 -> 0.00447214");
  EXPECT_EQ(found(c.follows, "init std of ffn_out"), "0.0057735 -> 0.00447214");
  EXPECT_EQ(found(c.follows, "init std of ffn_in"), "");
  EXPECT_TRUE(c.fixed.empty());
}

TEST_F(Comparing, factors_of_the_formula_follow_too) {
  const std::string rule = "normal(0.02)";
  const auto c = compare(specification("a.toml", 6, rule, "deepnorm"),
                         specification("b.toml", 12, rule, "deepnorm"), catalogue_);
  const auto factor = std::find_if(c.follows.begin(), c.follows.end(), [](const Difference& d) {
    return d.name.starts_with("formula: ");
  });
  ASSERT_NE(factor, c.follows.end());
  EXPECT_EQ(factor->a, "1.86121");
  EXPECT_EQ(factor->b, "2.21336");
}

TEST_F(Comparing, a_specification_with_itself) {
  const auto file = specification("a.toml", 6, "normal(0.02)");
  const auto c = compare(file, file, catalogue_);
  EXPECT_TRUE(c.keys.empty() && c.follows.empty() && c.fixed.empty() && c.curves.empty());
}

// C1: the thread count is named as the reason for differing bytes.
TEST_F(Comparing, runs) {
  const auto a = folder_.path() / "a", b = folder_.path() / "b";
  test::write_run(a, {.steps = 100, .stop_after = 100});
  test::write_run(b, {.steps = 100, .stop_after = 60, .level = 2.4});
  std::ofstream(a / "env.json") << R"({"threads":1,"host":{"cores":2}})";
  std::ofstream(b / "env.json") << R"({"threads":2,"host":{"cores":2}})";
  const auto c = compare(a, b, catalogue_);
  EXPECT_EQ(found(c.machine, "threads"), "1 -> 2");
  EXPECT_EQ(c.machine.size(), 1u);
  const std::string remarks = join(c.remarks, "\n");
  EXPECT_NE(remarks.find("threads differs (1 and 2): a reason for differing bytes"),
            std::string::npos)
      << remarks;
  EXPECT_NE(remarks.find("differ from update 1 on"), std::string::npos) << remarks;
  EXPECT_NE(remarks.find("did not end: 60 of 100"), std::string::npos) << remarks;
  EXPECT_FALSE(found(c.curves, "last validation loss").empty());
  // Where the number comes from changes no bytes.
  std::ofstream(a / "env.json") << R"({"threads":2,"threads_source":"train.threads"})";
  std::ofstream(b / "env.json") << R"({"threads":2,"threads_source":"affinity mask"})";
  const auto sources = compare(a, b, catalogue_);
  EXPECT_EQ(sources.machine.size(), 1u);
  EXPECT_EQ(join(sources.remarks, "\n").find("differing bytes"), std::string::npos);
  const auto same = compare(a, a, catalogue_);
  EXPECT_NE(join(same.remarks, "\n").find("the same in every digit over all 101"),
            std::string::npos);
}

TEST_F(Comparing, other_folders_are_refused) {
  const auto file = specification("a.toml", 6, "normal(0.02)");
  EXPECT_EQ(test::failure_of([&] { compare(file, folder_.path(), catalogue_); }).first,
            Failure::input);
}

}  // namespace
}  // namespace addnorm::lab
