#include "addnorm/report/report.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "addnorm/base/files.h"
#include "browser.h"
#include "support/temporary.h"
#include "synthetic.h"

namespace addnorm::report {
namespace {

using nlohmann::json;

const formula::Catalogue& catalogue() { return formula::Catalogue::builtin(); }

json data_of(const fs::path& folder) {
  return json::parse(report_data(folder, catalogue(), "0.1.0"));
}

// The path of the line that `description` names, "" where there is none.
std::string drawn_path(const std::string& dom, const std::string& description) {
  const size_t group = dom.find("aria-description=\"" + description);
  if (group == std::string::npos) return "";
  const size_t from = dom.find(" d=\"", group);
  return dom.substr(from + 4, dom.find('"', from + 4) - from - 4);
}

TEST(ReportData, sweep_has_every_run_and_cell) {
  test::TemporaryFolder folder;
  test::write_sweep(folder.path());
  const json data = data_of(folder.path());
  EXPECT_EQ(data["kind"], "sweep");
  EXPECT_EQ(data["cells"].size(), 6u);
  EXPECT_EQ(data["runs"].size(), 18u);
  EXPECT_EQ(data["columns"], json({"wiring", "layers", "warmup"}));
  EXPECT_EQ(data["cells"][0]["counts"]["stalled"], 3);
  EXPECT_FALSE(data["cells"][0]["advice"]["command"].get<std::string>().empty());
  EXPECT_EQ(data["cells"][5]["extras"], "init.v = xavier_normal((8*L)^(-1/4))");
  EXPECT_EQ(data["unigram"], 3.02);
  EXPECT_EQ(data["bigram"], 2.326);
  EXPECT_EQ(data["wirings"].size(), 3u);  // the same wiring is explained once
  EXPECT_EQ(data["specifications"].size(), 6u);
  EXPECT_TRUE(data["warnings"].empty());
  EXPECT_EQ(data["runs"][4]["loss"][60], nullptr);  // not finite, not filled in
  EXPECT_EQ(data["runs"][4]["loss"].size(), 201u);
  EXPECT_NE(data["answer"].get<std::string>().find("4 of 6 cells learned"), std::string::npos);
}

TEST(ReportData, partial_sweep_says_so) {
  test::TemporaryFolder folder;
  test::write_sweep(folder.path(), 2);
  const json data = data_of(folder.path());
  ASSERT_EQ(data["warnings"].size(), 1u);
  EXPECT_NE(data["warnings"][0].get<std::string>().find("12 of 18"), std::string::npos);
}

// C5: a killed run with a torn line.
TEST(ReportData, killed_run_says_that_it_did_not_end) {
  test::TemporaryFolder folder;
  test::write_run(folder.path(), {.stop_after = 57});
  const json data = data_of(folder.path());
  EXPECT_EQ(data["kind"], "run");
  EXPECT_EQ(data["runs"][0]["last"], 57);
  EXPECT_EQ(data["runs"][0]["ended"], false);
  EXPECT_EQ(data["warnings"].size(), 2u);
  EXPECT_NE(
      data["warnings"][0].get<std::string>().find("did not end: it stopped at update 57 of 200"),
      std::string::npos);
  EXPECT_NE(data["answer"].get<std::string>().find("has not ended"), std::string::npos);
}

TEST(ReportData, long_runs_are_thinned_and_keep_their_end) {
  test::TemporaryFolder folder;
  test::write_run(folder.path(),
                  {.steps = 9000, .stop_after = 9000, .gap = 4321, .diagnostics = false});
  const json data = data_of(folder.path());
  EXPECT_GT(data["thinned"], 1);
  EXPECT_LE(data["runs"][0]["steps"].size(), 2002u);
  EXPECT_EQ(data["runs"][0]["steps"].back(), 9000);
  const auto steps = data["runs"][0]["steps"].get<std::vector<int>>();
  EXPECT_NE(std::find(steps.begin(), steps.end(), 4321), steps.end());
}

TEST(ReportData, one_broken_run_costs_only_itself) {
  test::TemporaryFolder folder;
  test::write_sweep(folder.path());
  std::ofstream(folder.path() / "runs/cell-2/seed-1/metrics.jsonl") << "[]\n";
  const json data = data_of(folder.path());
  EXPECT_EQ(data["runs"].size(), 17u);
  EXPECT_EQ(data["warnings"].size(), 1u);
}

TEST(ReportData, other_folders_are_refused) {
  test::TemporaryFolder folder;
  EXPECT_EQ(test::failure_of([&] { data_of(folder.path()); }).first, Failure::input);
  EXPECT_EQ(test::failure_of([&] { data_of(folder.path() / "none"); }).first, Failure::input);
}

TEST(ReportPage, is_one_file_under_a_strict_policy) {
  const std::string html = page("a <title>", "{\"x\":\"</script><script>alert(1)</script>\"}");
  EXPECT_NE(html.find("default-src 'none'"), std::string::npos);
  EXPECT_EQ(html.find("script-src 'unsafe-inline'"), std::string::npos);
  EXPECT_EQ(html.find("alert(1)</script>"), std::string::npos);
  EXPECT_NE(html.find("a &lt;title&gt;"), std::string::npos);
  EXPECT_EQ(html.find(" src=\""), std::string::npos);
  for (const char* license : {"Mike Bostock", "Observable, Inc", "Mikola Lysenko"}) {
    EXPECT_NE(html.find(license), std::string::npos) << license;
  }
}

TEST(ReportBrowser, sweep_is_drawn_without_network_or_console) {
  test::TemporaryFolder folder;
  test::write_sweep(folder.path());
  const auto opened =
      test::open_in_browser(write_report(folder.path(), catalogue(), "0.1.0"), folder.path());
  ASSERT_TRUE(opened.ran) << "expected chromium-headless-shell, see `make setup`";
  EXPECT_EQ(opened.console, "");
  EXPECT_EQ(test::count_of(opened.dom, "aria-description=\"loss of "), 18);
  EXPECT_EQ(test::count_of(opened.dom, "aria-description=\"grad of "), 18);
  EXPECT_EQ(test::count_of(opened.dom, "aria-description=\"gradient by depth of "), 36);
  EXPECT_EQ(test::count_of(opened.dom, "aria-description=\"stream by depth of "), 36);
  EXPECT_EQ(test::count_of(opened.dom, "aria-description=\"gradient by depth and update, "), 6);
  EXPECT_EQ(test::count_of(opened.dom, "class=\"outcome stalled\">3<"), 2);
  EXPECT_EQ(test::count_of(opened.dom, "class=\"outcome learned\">3<"), 4);
  EXPECT_NE(opened.dom.find("unigram entropy 3.020"), std::string::npos);
  EXPECT_NE(opened.dom.find("bigram entropy 2.326"), std::string::npos);
  EXPECT_NE(opened.dom.find("training loss (nat per token)"), std::string::npos);
  // A gap: the path starts twice. 201 points, one missing; none made up.
  const std::string whole = drawn_path(opened.dom, "loss of post-ln, layers 6, warmup 100, seed 1");
  const std::string broken =
      drawn_path(opened.dom, "loss of post-ln, layers 6, warmup 100, seed 2");
  EXPECT_EQ(test::count_of(whole, "M"), 1) << whole.substr(0, 80);
  EXPECT_EQ(test::count_of(whole, "L"), 200);
  EXPECT_EQ(test::count_of(broken, "M"), 2);
  EXPECT_EQ(test::count_of(broken, "L"), 198);
  EXPECT_EQ(opened.dom.find("<b>of</b> data"), std::string::npos);  // text stays text
}

TEST(ReportBrowser, killed_run_without_diagnostics) {
  test::TemporaryFolder folder;
  test::write_run(folder.path(), {.stop_after = 57, .diagnostics = false});
  const auto opened =
      test::open_in_browser(write_report(folder.path(), catalogue(), "0.1.0"), folder.path());
  ASSERT_TRUE(opened.ran);
  EXPECT_EQ(opened.console, "");
  EXPECT_EQ(test::count_of(opened.dom, "aria-description=\"loss of "), 1);
  EXPECT_NE(opened.dom.find("did not end"), std::string::npos);
  EXPECT_NE(opened.dom.find("No diagnostics were recorded"), std::string::npos);
}

TEST(ReportBrowser, sweep_with_nothing_finished) {
  test::TemporaryFolder folder;
  test::write_sweep(folder.path(), 0);
  const auto opened =
      test::open_in_browser(write_report(folder.path(), catalogue(), "0.1.0"), folder.path());
  ASSERT_TRUE(opened.ran);
  EXPECT_EQ(opened.console, "");
  EXPECT_NE(opened.dom.find("0 of 18 runs"), std::string::npos);
}

}  // namespace
}  // namespace addnorm::report
