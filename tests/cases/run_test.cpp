// `addnorm inspect RUN`: specification, checkpoints whole, damaged and unfinished, metrics.
#include <nlohmann/json.hpp>

#include "cases/support.h"

namespace addnorm::cases {
namespace {

class InspectRun : public testing::Test {
 protected:
  InspectRun() {
    std::string text;
    for (int i = 0; i < 400; ++i) text += i % 3 == 0 ? "the cat sat. " : "a mat is flat. ";
    const std::string corpus = bench_.write("corpus.txt", text);
    const std::string spec = bench_.write(
        "tiny.toml",
        "[model]\nkind = \"decoder\"\nlayers = 1\nwidth = 8\nheads = 2\nvocab = 256\ncontext = 16\n"
        "wiring = \"peri-ln\"\n[data]\nsource = [\"" +
            corpus + "\"]\n[train]\nsteps = 4\nbatch = 2\nlr = 1e-3\ncheckpoint_every = 2\n");
    run_ = bench_.path("run");
    const Ran trained = bench_.run({"train", spec, "--run", run_.string()});
    EXPECT_EQ(trained.code, 0) << trained.err;
  }
  nlohmann::json inspected() {
    const Ran ran = bench_.run({"inspect", run_.string(), "--json"});
    EXPECT_EQ(ran.code, 0) << ran.err;
    return nlohmann::json::parse(ran.out);
  }
  Bench bench_;
  fs::path run_;
};

TEST_F(InspectRun, ShowsWhatTheFolderHolds) {
  const auto json = inspected();
  EXPECT_EQ(json["specification"], read_file(run_ / "spec.toml"));
  EXPECT_EQ(json["norms"][0]["total"], 5);
  EXPECT_EQ(json["checkpoints"].size(), 2U);
  EXPECT_EQ(json["checkpoints"][0]["step"], 2);
  EXPECT_EQ(json["checkpoints"][1]["step"], 4);
  EXPECT_TRUE(json["leftovers"].empty());
  EXPECT_EQ(json["metrics"]["steps"], 4);
  EXPECT_EQ(json["metrics"]["tokens"], 4 * 2 * 16);
  EXPECT_GT(json["metrics"]["first_loss"], 3);
  EXPECT_TRUE(json["metrics"].contains("last_val_loss"));
  const Ran text = bench_.run({"inspect", run_.string()});
  EXPECT_TRUE(text.prints("wiring_name") && text.prints("peri-ln")) << text.out;
  EXPECT_TRUE(text.prints("000004: complete; step 4")) << text.out;
}

TEST_F(InspectRun, ListsDamagedAndUnfinishedCheckpointsAsWhatTheyAre) {
  fs::remove(run_ / "checkpoints/000002/DONE");
  std::ofstream(run_ / "checkpoints/000004/.model.safetensors.tmp-1a2b") << "half";
  fs::create_directories(run_ / "checkpoints/000006");
  auto json = inspected();
  EXPECT_EQ(json["checkpoints"].size(), 1U);
  ASSERT_EQ(json["leftovers"].size(), 3U);
  int without_done = 0, temporary = 0;
  for (const auto& left : json["leftovers"]) {
    without_done += left["what"] == "without DONE";
    temporary += left["what"] == "temporary";
  }
  EXPECT_EQ(without_done, 2);
  EXPECT_EQ(temporary, 1);
  // One byte of the weights turned.
  const fs::path weights = run_ / "checkpoints/000004/model.safetensors";
  std::string bytes = read_file(weights);
  bytes.back() = static_cast<char>(bytes.back() ^ 1);
  std::ofstream(weights, std::ios::binary) << bytes;
  json = inspected();
  EXPECT_TRUE(json["checkpoints"][0].contains("damaged")) << json["checkpoints"].dump();
}

TEST_F(InspectRun, AKilledRunsTornMetricsAndNonFiniteLossesAreShown) {
  std::ofstream metrics(run_ / "metrics.jsonl", std::ios::app);
  metrics
      << "{\"event\":\"step\",\"step\":5,\"loss\":\"NaN\",\"nonfinite_steps\":1}\n{\"event\":\"st";
  metrics.close();
  const auto json = inspected();
  EXPECT_EQ(json["metrics"]["last_loss"], "nan");
  EXPECT_EQ(json["metrics"]["nonfinite_steps"], 1);
  EXPECT_EQ(json["metrics"]["torn"], true);
}

TEST_F(InspectRun, AFolderWithoutASpecificationIsRefused) {
  fs::remove(run_ / "spec.toml");
  const Ran ran = bench_.run({"inspect", run_.string()});
  EXPECT_EQ(ran.code, 2);
  EXPECT_TRUE(ran.says("spec.toml")) << ran.err;
}

}  // namespace
}  // namespace addnorm::cases
