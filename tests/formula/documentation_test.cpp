// docs/formula.md is held to the language: its programs are accepted, its errors are the real ones,
// and no function or option is missing.
#include <gtest/gtest.h>

#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "addnorm/base/error.h"
#include "addnorm/base/text.h"
#include "addnorm/formula/check.h"
#include "addnorm/formula/functions.h"

namespace addnorm::formula {
namespace {

std::string manual() {
  std::ifstream file(std::string(ADDNORM_SOURCE_DIR) + "/docs/formula.md");
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

// The fenced blocks of one kind.
std::vector<std::string> fenced(const std::string& kind) {
  std::vector<std::string> result;
  bool inside = false;
  for (const std::string& line : split(manual(), '\n')) {
    if (line == "```" + kind) {
      inside = true;
      result.emplace_back();
    } else if (line == "```") {
      inside = false;
    } else if (inside) {
      result.back() += line + "\n";
    }
  }
  return result;
}

Context four_layers() {
  Context context;
  context.layers = 4;
  return context;
}

TEST(FormulaManual, ProgramsAreAccepted) {
  const std::vector<std::string> programs = fenced("formula");
  EXPECT_GE(programs.size(), 5u);
  for (const std::string& program : programs) {
    EXPECT_EQ(lines_of(check(parse(program), four_layers())), "") << program;
  }
}

TEST(FormulaManual, ErrorsAreReal) {
  const std::vector<std::string> examples = fenced("formula-error");
  EXPECT_GE(examples.size(), 4u);
  for (const std::string& example : examples) {
    std::string program, expected;
    for (const std::string& line : split(trim(example), '\n')) {
      const bool finding = line.starts_with("error [") || line.starts_with("warning [");
      (finding ? expected : program) += line + "\n";
    }
    std::string got;
    try {
      got = lines_of(check(parse(program), four_layers()));
    } catch (const Error& error) {
      got = error.what();
    }
    EXPECT_EQ(got, trim(expected)) << program;
  }
}

TEST(FormulaManual, NamesEveryFunctionAndOption) {
  const std::string text = manual();
  for (const Function& function : functions()) {
    const bool named = text.find("`" + function.name + "`") != std::string::npos ||
                       text.find("`" + function.name + "(") != std::string::npos;
    EXPECT_TRUE(named) << function.name;
    for (const OptionRule& option : function.options) {
      EXPECT_NE(text.find("`" + option.name + "="), std::string::npos) << option.name;
    }
  }
}

}  // namespace
}  // namespace addnorm::formula
