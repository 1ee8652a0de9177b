// A signal may come at any instruction of a matrix product and must not hurt the run.
#include <gtest/gtest.h>
#include <sys/wait.h>

#include <cstdlib>
#include <fstream>
#include <string>

#include "support/temporary.h"

namespace addnorm {
namespace {

TEST(InterruptTraining, EndsCleanlyWheneverItComes) {
  const addnorm::test::TemporaryFolder folder;
  const std::string base = folder.path().string();
  std::ofstream text(base + "/text.txt");
  for (int i = 0; i < 3000; ++i) text << "line " << i * 7919 % 1000 << " of a text\n";
  text.close();
  for (int trial = 0; trial < 16; ++trial) {
    const std::string run = base + "/run" + std::to_string(trial);
    // setsid: background jobs of a shell without job control ignore SIGINT otherwise. The run has begun
    // once it has metrics.
    const std::string command =
        "setsid " ADDNORM_PROGRAM " train " + base + "/text.txt --run " + run +
        " --model.layers 2 --model.width 64 --model.heads 2 --model.context 64 --train.batch 8"
        " --train.threads 1 --train.steps 100000 >/dev/null 2>" +
        base +
        "/log & p=$!; "
        "for i in $(seq 600); do [ -s " +
        run + "/metrics.jsonl ] && break; sleep 0.05; done; sleep 0.0" + std::to_string(trial) +
        "; kill -INT $p; wait $p";
    const int status = std::system(("bash -c '" + command + "'").c_str());
    ASSERT_TRUE(WIFEXITED(status));
    EXPECT_EQ(WEXITSTATUS(status), 0) << "trial " << trial;
  }
}

}  // namespace
}  // namespace addnorm
