// The program's frame and the verb `wirings`: output, messages and exit codes.
#include <gtest/gtest.h>

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>

#include "addnorm/formula/catalogue.h"
#include "catalogue/program.h"

namespace {

using nlohmann::json;

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

class TemporaryFile {
 public:
  explicit TemporaryFile(const std::string& content)
      : path_(std::filesystem::temp_directory_path() /
              ("addnorm-catalogue-" + std::to_string(getpid()) + "-" + std::to_string(count_++))) {
    std::ofstream(path_) << content;
  }
  ~TemporaryFile() { std::filesystem::remove(path_); }
  std::string path() const { return path_.string(); }

 private:
  static inline int count_ = 0;
  std::filesystem::path path_;
};

TEST(Program, HelpAndVersion) {
  const Ran help = run_program("--help");
  EXPECT_EQ(help.code, 0);
  EXPECT_TRUE(contains(help.out, "wirings")) << help.out;
  EXPECT_TRUE(contains(help.out, "Example:"));
  const Ran verb = run_program("wirings --help");
  EXPECT_EQ(verb.code, 0);
  for (const char* part :
       {"--filter", "--catalogue", "--json", "--SECTION.KEY", "Example:", "addnorm wirings"}) {
    EXPECT_TRUE(contains(verb.out, part)) << part << "\n" << verb.out;
  }
  EXPECT_EQ(run_program("--version").out, "addnorm 0.1.0\n");
}

TEST(Program, WrongUsageIsExitCodeTwoWithTheNearestWord) {
  const Ran nothing = run_program("2>&1");
  EXPECT_EQ(nothing.code, 2);
  EXPECT_TRUE(contains(nothing.out, "Usage:"));
  const Ran verb = run_program("wirigns 2>&1");
  EXPECT_EQ(verb.code, 2);
  EXPECT_TRUE(contains(verb.out, "try addnorm wirings")) << verb.out;
  const Ran option = run_program("wirings --filtre x 2>&1");
  EXPECT_EQ(option.code, 2);
  EXPECT_TRUE(contains(option.out, "try --filter")) << option.out;
  for (const auto& [typed, meant] : std::vector<std::pair<std::string, std::string>>{
           {"resume r --stps 20", "try --steps"},
           {"resume r --steps 20 --extnd keep", "try --extend"},
           {"train my.txt --stps 5", "try --train.steps"},
           {"train my.txt --lr=0.1", "try --train.lr"},
           {"generate r --promt x", "try --prompt"},
           {"sweep my.txt --sees 2", "try --seeds"}}) {
    const Ran ran = run_program(typed + " 2>&1");
    EXPECT_EQ(ran.code, 2) << typed;
    EXPECT_TRUE(contains(ran.out, meant)) << typed << "\n" << ran.out;
  }
  EXPECT_EQ(run_program("--no-such-thing 2>&1").code, 2);
  EXPECT_EQ(run_program("wirings --filter 2>&1").code, 2);
  EXPECT_EQ(run_program("wirings show 2>&1").code, 2);
  EXPECT_EQ(run_program("wirings shwo pre-ln 2>&1").code, 2);
  EXPECT_EQ(run_program("wirings show pre-ln and more 2>&1").code, 2);
  EXPECT_EQ(run_program("wirings show pre-ln --model.layers 2>&1").code, 2);
  EXPECT_EQ(run_program("wirings --catalogue /no/such/file 2>&1").code, 2);
}

TEST(Program, AFullDiskIsExitCodeFour) {
  const Ran ran = run_program("wirings 2>&1 >/dev/full");
  EXPECT_EQ(ran.code, 4);
  EXPECT_TRUE(contains(ran.out, "standard output")) << ran.out;
  EXPECT_EQ(run_program("--help >/dev/full 2>/dev/null").code, 4);
}

// As under `| head`: nothing is said, and the verb ends as it would have.
TEST(Program, AReaderThatGoesAwayEndsItQuietly) {
  // The shell's status is that of the program, written to a file that outlives the pipe.
  const TemporaryFile code(""), said_aloud("");
  const std::string program = ADDNORM_PROGRAM;
  const std::string command = "( '" + program + "' wirings --json 2>" + said_aloud.path() +
                              "; echo $? >" + code.path() + " ) | true";
  // A program that is still writing when the reader is gone: 60 kB and more, beyond a pipe's buffer.
  ASSERT_EQ(std::system(command.c_str()), 0);
  int said = -1;
  std::ifstream(code.path()) >> said;
  EXPECT_EQ(said, 0);
  EXPECT_EQ(std::filesystem::file_size(said_aloud.path()), 0U);
}

TEST(Wirings, TheTableHasEveryNameAndAFilter) {
  const Ran all = run_program("wirings");
  EXPECT_EQ(all.code, 0);
  for (const auto& entry : addnorm::formula::Catalogue::builtin().entries()) {
    EXPECT_TRUE(contains(all.out, "\n" + entry.name + " ")) << entry.name;
  }
  const Ran some = run_program("wirings --filter QWEN");
  EXPECT_EQ(some.code, 0);
  EXPECT_TRUE(contains(some.out, "qk-norm"));
  EXPECT_FALSE(contains(some.out, "rezero"));
  EXPECT_EQ(run_program("wirings --filter no-such-text 2>/dev/null").out, "");
}

TEST(Wirings, JsonHoldsTheEntries) {
  const json all = json::parse(run_program("wirings --json").out);
  EXPECT_EQ(all.at("wirings").size(), addnorm::formula::Catalogue::builtin().entries().size());
  std::set<std::string> names;
  for (const json& entry : all["wirings"]) names.insert(entry.at("name").get<std::string>());
  EXPECT_TRUE(names.contains("deepnorm/decoder"));
}

TEST(Wirings, ShowTellsFormulaDrawingInitParametersAndClosedForms) {
  const Ran shown = run_program("wirings show deepnet");
  EXPECT_EQ(shown.code, 0);
  for (const char* part : {"x = norm((2*L)^(1/4)*x + f(x))", "║ attn  ║", "×(2*L)^(1/4)",
                           "xavier_normal((8*L)^(-1/4))", "skip-only gain per branch",
                           "Parameters per layer", "789760", "Findings"}) {
    EXPECT_TRUE(contains(shown.out, part)) << part << "\n" << shown.out;
  }
  const json sheet = json::parse(run_program("wirings show deepnorm --json --model.layers 12").out);
  EXPECT_EQ(sheet.at("name"), "deepnorm");
  const json& layers = sheet.at("parameters_per_layer");
  ASSERT_EQ(layers.size(), 1u);
  EXPECT_EQ(layers[0].at("layers"), "1-12");
  // 4 (256^2 + 256), 2*256*1024 + 1024 + 256, 2 norms of 2*256
  EXPECT_EQ(layers[0].at("parts").at("attn"), 263168);
  EXPECT_EQ(layers[0].at("parts").at("ffn"), 525568);
  EXPECT_EQ(layers[0].at("parts").at("norm"), 1024);
  EXPECT_TRUE(contains(sheet.at("drawing").get<std::string>(), "(+)"));
}

TEST(Wirings, LayersThatDifferAreListedApart) {
  const json sheet = json::parse(run_program("wirings show keel --json").out);
  const json& layers = sheet.at("parameters_per_layer");
  ASSERT_EQ(layers.size(), 2u);
  EXPECT_EQ(layers[0].at("layers"), "1");
  EXPECT_EQ(layers[0].at("parts").at("norm"), 3 * 512);
  EXPECT_EQ(layers[1].at("layers"), "2-6");
  EXPECT_EQ(layers[1].at("parts").at("norm"), 4 * 512);
}

TEST(Wirings, EveryEntryCanBeShown) {
  for (const auto& entry : addnorm::formula::Catalogue::builtin().entries()) {
    const Ran shown = run_program("wirings show " + entry.name + " --json 2>&1");
    EXPECT_EQ(shown.code, 0) << entry.name << "\n" << shown.out;
    if (shown.code != 0) continue;
    const json sheet = json::parse(shown.out);
    EXPECT_FALSE(sheet.at("parameters_per_layer").empty()) << entry.name;
    EXPECT_FALSE(sheet.at("rules").empty()) << entry.name;
    for (const json& finding : sheet.at("findings"))
      EXPECT_NE(finding.at("level"), "error") << entry.name;
  }
}

TEST(Wirings, AFormulaOfOnesOwn) {
  const Ran shown = run_program("wirings show 'x = norm(2*x + norm(f(norm(x))))'");
  EXPECT_EQ(shown.code, 0);
  EXPECT_TRUE(contains(shown.out, "×2")) << shown.out;
  const Ran wrong = run_program("wirings show 'x = nrom(x + f(x))' 2>&1");
  EXPECT_EQ(wrong.code, 2);
  EXPECT_TRUE(contains(wrong.out, "norm")) << wrong.out;
  EXPECT_EQ(run_program("wirings show 'x = norm(x + f(x)' 2>&1").code, 2);
  const Ran let = run_program("wirings show 'mix-ln(fraction=1/2)'");
  EXPECT_EQ(let.code, 0);
  EXPECT_TRUE(contains(let.out, "with fraction = 0.5")) << let.out;
}

TEST(Wirings, AnUnknownNameIsExitCodeTwoWithTheNearest) {
  const Ran ran = run_program("wirings show pre-lm 2>&1");
  EXPECT_EQ(ran.code, 2);
  EXPECT_TRUE(contains(ran.out, "try pre-ln")) << ran.out;
  EXPECT_EQ(run_program("wirings show pre-lm 2>/dev/null").out, "");
}

TEST(Wirings, ACatalogueOfOnesOwn) {
  const TemporaryFile mine(
      "[twice]\nyear: 2026\naliases: doubled\nformula: x = norm(2*x + f(x))\n");
  const Ran listed = run_program("wirings --filter twice --catalogue " + mine.path());
  EXPECT_EQ(listed.code, 0);
  EXPECT_TRUE(contains(listed.out, "x = norm(2*x + f(x))"));
  const Ran shown = run_program("wirings show doubled --catalogue " + mine.path());
  EXPECT_EQ(shown.code, 0);
  EXPECT_TRUE(contains(shown.out, "twice (doubled)")) << shown.out;
  const TemporaryFile wrong("[a]\nformla: x = f(x)\n[b]\nformula: x = f(\n");
  const Ran told = run_program("wirings --catalogue " + wrong.path() + " 2>&1");
  EXPECT_EQ(told.code, 2);
  EXPECT_TRUE(contains(told.out, wrong.path() + ":2]")) << told.out;
  EXPECT_TRUE(contains(told.out, "try formula"));
  EXPECT_TRUE(contains(told.out, wrong.path() + ":4]")) << told.out;
}

}  // namespace
