// What `make install` leaves is enough for a project elsewhere: examples/block is configured with
// find_package(addnorm), compiled and run against a fresh prefix.
#include <gtest/gtest.h>
#include <sys/wait.h>

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <sstream>
#include <string>

#include "structure/source.h"

namespace structure {
namespace {

struct Outcome {
  int status = -1;
  std::string output;  // stdout and stderr
};

Outcome shell(const std::string& command) {
  Outcome outcome;
  FILE* pipe = popen((command + " 2>&1").c_str(), "r");
  if (!pipe) return outcome;
  char buffer[4096];
  for (size_t n; (n = fread(buffer, 1, sizeof buffer, pipe)) > 0;) outcome.output.append(buffer, n);
  const int status = pclose(pipe);
  outcome.status = WIFEXITED(status) ? WEXITSTATUS(status) : 128;
  return outcome;
}

std::string quoted(const fs::path& path) { return "'" + path.string() + "'"; }

class Install : public testing::Test {
 protected:
  void SetUp() override {
    std::string name = (fs::temp_directory_path() / "addnorm-install-XXXXXX").string();
    ASSERT_NE(mkdtemp(name.data()), nullptr);
    folder_ = name;
    prefix_ = folder_ / "a prefix";
    const Outcome outcome = shell(std::string(ADDNORM_CMAKE) + " --install " +
                                  quoted(ADDNORM_BUILD_DIR) + " --prefix " + quoted(prefix_));
    ASSERT_EQ(outcome.status, 0) << outcome.output;
  }
  void TearDown() override { fs::remove_all(folder_); }

  fs::path folder_;
  fs::path prefix_;
};

TEST_F(Install, PackageProgramAndHeadersAreThere) {
  EXPECT_TRUE(fs::exists(prefix_ / "bin/addnorm"));
  EXPECT_TRUE(fs::exists(prefix_ / "include/addnorm/base/error.h"));
  EXPECT_EQ(shell(quoted(prefix_ / "bin/addnorm") + " --help").status, 0);
  int configs = 0;
  for (const auto& entry : fs::recursive_directory_iterator(prefix_)) {
    if (entry.path().extension() != ".cmake") continue;
    ++configs;
    EXPECT_EQ(read_text(entry.path()).find(ADDNORM_SOURCE_DIR), std::string::npos)
        << entry.path() << " refers to the source tree";
  }
  EXPECT_EQ(configs, 4);
}

TEST_F(Install, ExampleBuildsAndTakesAGradient) {
  const fs::path build = folder_ / "build";
  const fs::path source = fs::path(ADDNORM_SOURCE_DIR) / "examples/block";
  const Outcome configured =
      shell(std::string(ADDNORM_CMAKE) + " -S " + quoted(source) + " -B " + quoted(build) +
            " -DCMAKE_BUILD_TYPE=Release -DCMAKE_PREFIX_PATH=" + quoted(prefix_) +
            " -DCMAKE_CXX_COMPILER=" + quoted(ADDNORM_CXX));
  ASSERT_EQ(configured.status, 0) << configured.output;
  const Outcome built = shell(std::string(ADDNORM_CMAKE) + " --build " + quoted(build));
  ASSERT_EQ(built.status, 0) << built.output;

  const Outcome run = shell(quoted(build / "block"));
  ASSERT_EQ(run.status, 0) << run.output;
  std::istringstream lines(run.output);
  std::string word;
  double loss = 0;
  lines >> word >> loss;
  EXPECT_EQ(word, "loss");
  EXPECT_NEAR(loss, std::log(11.0), 0.5) << "untrained, 11 tokens";
  int gradients = 0;
  double size = 0;
  for (std::string name; lines >> name >> word >> size; ++gradients) {
    EXPECT_EQ(word, "|gradient|");
    // The bias of the keys shifts all scores of a query alike: its gradient is 0.
    if (name.find("attn.k.bias") == std::string::npos) {
      EXPECT_GT(size, 0) << name;
    }
  }
  EXPECT_GT(gradients, 20) << run.output;

  const Outcome wrong = shell(quoted(build / "block") + " 'x = nrm(x + f(x))'");
  EXPECT_EQ(wrong.status, 2) << wrong.output;
  EXPECT_NE(wrong.output.find("norm"), std::string::npos) << wrong.output;
}

}  // namespace
}  // namespace structure
