// The numeric cases of cases.md through `addnorm train` and `addnorm eval`: accumulation, evaluation,
// clipping and non-finite numbers on models whose results are closed forms.
#include "addnorm/checkpoint/safetensors.h"
#include "addnorm/graph/lower.h"
#include "program.h"

namespace addnorm::train {
namespace {

using program::holds;
using program::Place;
using program::Result;
using program::spit;
namespace fs = std::filesystem;

// cases.md, conventions: the zero model and the two-loss model, as files.
void write_weights(const fs::path& file, const std::string& spec, const fs::path& folder,
                   const std::map<std::string, std::map<size_t, double>>& values) {
  spit(folder / "model.toml", spec);
  const auto& catalogue = formula::Catalogue::builtin();
  const auto specification = model::load(folder / "model.toml", {}, model::Needs::model, catalogue);
  const graph::Graph graph = graph::lower(model::shape(specification, catalogue));
  std::vector<std::vector<double>> tensors;
  std::vector<checkpoint::TensorOut> out;
  for (const graph::Parameter& parameter : graph.parameters) {
    const bool gain = parameter.role == graph::Role::norm;
    tensors.emplace_back(static_cast<size_t>(parameter.size()), gain ? 1.0 : 0.0);
    if (const auto found = values.find(parameter.name); found != values.end()) {
      for (const auto& [index, value] : found->second) tensors.back().at(index) = value;
    }
  }
  for (size_t i = 0; i < tensors.size(); ++i) {
    out.push_back({graph.parameters[i].name,
                   checkpoint::ElementType::f64,
                   graph.parameters[i].dims,
                   tensors[i].data(),
                   {}});
  }
  checkpoint::write_safetensors(file, out);
}

constexpr const char* zero_spec = R"([model]
kind = "decoder"
layers = 1
width = 4
heads = 1
ffn = 4
activation = "relu"
positions = "none"
norm = "layernorm"
norm_eps = 1e-12
tie_embeddings = false
vocab = 256
context = 128
wiring = "pre-ln"
[data]
source = ["a.txt"]
validation = 0
[train]
steps = 5
batch = 1
lr = 1e-3
threads = 1
)";

constexpr const char* docs_spec = R"([model]
kind = "decoder"
layers = 1
width = 2
heads = 1
ffn = 2
activation = "relu"
positions = "none"
norm = "rmsnorm"
norm_eps = 1e-12
tie_embeddings = false
vocab = 256
context = 128
wiring = "pre-ln"
[data]
source = ["docs.txt"]
documents = "lines"
validation = 0
[train]
steps = 1
batch = 2
lr = 1
schedule = "constant"
optimizer = "sgd"
clip = 0
threads = 1
)";

const std::map<std::string, std::map<size_t, double>> overflowing = {
    {"embed.tokens.weight", {{388, 1}, {389, 2}, {390, 3}, {391, 4}}},
    {"blocks.0.ffn.in.bias", {{0, 10}}},
    {"blocks.0.ffn.out.weight", {{0, 3.4e38}}}};

const std::map<std::string, std::map<size_t, double>> two_losses = {
    {"embed.tokens.weight", {{194, 1}, {197, 1}}},
    {"head.weight", {{194, 1.1029091}, {197, 2.6068742}}}};

// N1 and N2, through the program.
TEST(ProgramTraining, N1NonFinite) {
  const Place place;
  spit(place / "zero.toml", zero_spec);
  spit(place / "a.txt", std::string(1000, 'a'));
  write_weights(place / "w.safetensors", zero_spec, place.path(), overflowing);
  const Result stop =
      place.run({"train", "zero.toml", "--weights", "w.safetensors", "--run", "stop"});
  EXPECT_EQ(stop.code, 3) << stop.err;
  for (const char* part : {"step 1", "sequence 0", "token 0", "blocks.0.ffn.out", "a.txt"}) {
    EXPECT_TRUE(holds(stop.err, part)) << part << "\n" << stop.err;
  }
  EXPECT_FALSE(checkpoint::newest_checkpoint(place / "stop"));
  const Result unclipped = place.run({"train", "zero.toml", "--weights", "w.safetensors", "--run",
                                      "unclipped", "--train.clip", "0"});
  EXPECT_EQ(unclipped.code, 3);
  EXPECT_TRUE(tiny::metrics(place / "unclipped", "step").at(1).at("grad_norm").is_string());

  const Result skip = place.run({"train", "zero.toml", "--weights", "w.safetensors", "--run",
                                 "skip", "--train.on_nonfinite", "skip"});
  EXPECT_EQ(skip.code, 0) << skip.err;  // five of five skipped, ten would stop
  const auto steps = tiny::metrics(place / "skip", "step");
  ASSERT_EQ(steps.size(), 6U);
  for (int64_t i = 1; i <= 5; ++i) {
    EXPECT_EQ(steps[static_cast<size_t>(i)].at("loss"), "NaN");
    EXPECT_EQ(steps[static_cast<size_t>(i)].at("skipped_steps"), i);
    EXPECT_EQ(steps[static_cast<size_t>(i)].at("nonfinite_steps"), i);
  }
  const auto saved =
      checkpoint::SafetensorsFile::open(place / "skip/checkpoints/000005/model.safetensors");
  const auto given = checkpoint::SafetensorsFile::open(place / "w.safetensors");
  for (const auto& tensor : saved.tensors()) {
    std::vector<float> a(static_cast<size_t>(tensor.count));
    std::vector<float> b(a.size());
    saved.read_float(tensor, a);
    given.read_float(given.at(tensor.name), b);
    EXPECT_EQ(a, b) << tensor.name;
  }
  const Result ten = place.run({"train", "zero.toml", "--weights", "w.safetensors", "--run", "ten",
                                "--train.on_nonfinite", "skip", "--train.steps", "30"});
  EXPECT_EQ(ten.code, 3);
  EXPECT_EQ(tiny::metrics(place / "ten", "step").back().at("step"), 10);

  auto infinite = overflowing;
  infinite["blocks.0.ffn.out.weight"][0] = std::numeric_limits<double>::infinity();
  write_weights(place / "inf.safetensors", zero_spec, place.path(), infinite);
  for (const char* verb : {"train", "eval"}) {
    std::vector<std::string> arguments = {verb, "zero.toml", "--weights", "inf.safetensors"};
    if (verb == std::string("eval")) arguments.insert(arguments.end(), {"--data", "a.txt"});
    const Result refused = place.run(arguments);
    EXPECT_EQ(refused.code, 3) << refused.err;
    EXPECT_TRUE(holds(refused.err, "blocks.0.ffn.out.weight")) << refused.err;
    EXPECT_TRUE(holds(refused.err, "index 0")) << refused.err;
  }
  EXPECT_FALSE(fs::exists(place / "runs"));

  const Result huge =
      place.run({"train", "spec.toml", "--run", "huge", "--train.lr", "1e30", "--train.steps", "5",
                 "--train.warmup", "0", "--train.checkpoint_every", "1"});
  EXPECT_EQ(huge.code, 3) << huge.err;
  for (const auto& checkpoint : checkpoint::checkpoints(place / "huge")) {
    for (const char* name : {"model.safetensors", "optimizer.safetensors"}) {
      const auto file = checkpoint::SafetensorsFile::open(checkpoint / name);
      for (const auto& tensor : file.tensors()) EXPECT_EQ(file.count_nonfinite(tensor), 0);
    }
  }
}

// N4: the rows come by the data layer, the step's numbers are those of the case.
TEST(ProgramTraining, N4Accumulation) {
  const Place place;
  spit(place / "docs.toml", docs_spec);
  spit(place / "docs.txt", std::string(11, 'a') + "\n" + std::string(101, 'b') + "\n");
  write_weights(place / "w.safetensors", docs_spec, place.path(), two_losses);
  for (const auto& [run, batch, accumulate] :
       std::vector<std::tuple<std::string, std::string, std::string>>{{"one", "2", "1"},
                                                                      {"two", "1", "2"}}) {
    const Result result =
        place.run({"train", "docs.toml", "--weights", "w.safetensors", "--run", run,
                   "--train.batch", batch, "--train.accumulate", accumulate});
    ASSERT_EQ(result.code, 0) << result.err;
    EXPECT_NEAR(tiny::metrics(place / run, "step").at(1).at("loss").get<double>(), 240.0 / 110,
                1e-6);
    const auto file =
        checkpoint::SafetensorsFile::open(place / run / "checkpoints/000001/model.safetensors");
    const auto head = file.read_double(file.at("head.weight"));
    EXPECT_NEAR(head[194], 1.2291192, 1e-6);
    EXPECT_NEAR(head[197], 3.7185293, 1e-6);
  }
  // Three documents, accumulate 2: the epoch's last step has one micro-batch and its own divisor.
  spit(place / "docs.txt", std::string(11, 'a') + "\n" + std::string(101, 'b') + "\nccc\n");
  const Result three = place.run({"train", "docs.toml", "--weights", "w.safetensors", "--run",
                                  "three", "--train.batch", "1", "--train.accumulate", "2",
                                  "--train.steps", "2", "--train.lr", "0"});
  ASSERT_EQ(three.code, 0) << three.err;
  const auto steps = tiny::metrics(place / "three", "step");
  // lr 0: both steps see the given weights, so sums over both are those of the documents.
  const double tokens1 = steps[1].at("tokens");
  const double tokens2 = steps[2].at("tokens").get<double>() - tokens1;
  EXPECT_EQ(tokens1 + tokens2, 112);
  EXPECT_NEAR(
      steps[1].at("loss").get<double>() * tokens1 + steps[2].at("loss").get<double>() * tokens2,
      240 + 2 * std::log(256.0), 1e-3);
}

// N5: 20 before clipping, factor 0.05, all of the last hundred; unclipped: factor 1, nothing moves.
TEST(ProgramTraining, N5Clipping) {
  const Place place;
  spit(place / "zero.toml", zero_spec);
  spit(place / "a.txt", std::string(1000, 'a'));
  std::map<std::string, std::map<size_t, double>> values = {
      {"embed.tokens.weight", {{388, 1}, {389, 2}, {390, 3}, {391, 4}}}};
  for (size_t i = 0; i < 4; ++i) values["end.norm.1.weight"][i] = 10.0195887;
  write_weights(place / "w.safetensors", zero_spec, place.path(), values);
  for (const char* clip : {"1", "0"}) {
    const std::string run = std::string("clip") + clip;
    const Result result =
        place.run({"train", "zero.toml", "--weights", "w.safetensors", "--run", run, "--train.lr",
                   "0", "--train.clip", clip, "--train.steps", "100"});
    ASSERT_EQ(result.code, 0) << result.err;
    for (const auto& step : tiny::metrics(place / run, "step")) {
      if (step.at("step") == 0) continue;
      EXPECT_NEAR(step.at("grad_norm").get<double>(), 20, 1e-4);
      EXPECT_NEAR(step.at("clip").get<double>(), clip == std::string("1") ? 0.05 : 1, 1e-6);
      EXPECT_EQ(step.at("clipped"), clip == std::string("1") ? 1.0 : 0.0);
    }
  }
}

// N6: sum and count are printed and do not depend on the batch.
TEST(ProgramTraining, N6Evaluation) {
  const Place place;
  spit(place / "docs.toml", docs_spec);
  spit(place / "docs.txt",
       std::string(11, 'a') + "\n" + std::string(101, 'b') + "\n" + std::string(6, 'c') + "\n");
  write_weights(place / "w.safetensors", docs_spec, place.path(), two_losses);
  for (const char* batch : {"1", "2", "3"}) {
    const Result result = place.run({"eval", "docs.toml", "--weights", "w.safetensors", "--data",
                                     "docs.txt", "--train.batch", batch, "--json"});
    ASSERT_EQ(result.code, 0) << result.err;
    const auto json = nlohmann::json::parse(result.out);
    EXPECT_EQ(json.at("tokens"), 115);
    EXPECT_NEAR(json.at("sum").get<double>() / 267.7258872, 1, 1e-6);
    EXPECT_NEAR(json.at("loss").get<double>() / 2.3280512, 1, 1e-6);
    EXPECT_NEAR(json.at("perplexity").get<double>() / 10.2579313, 1, 3e-6);
  }
  const Result text = place.run({"eval", "docs.toml", "--weights", "w.safetensors", "--data",
                                 "docs.txt", "--train.batch", "2"});
  EXPECT_TRUE(holds(text.out, "over 115 tokens")) << text.out;
  EXPECT_TRUE(holds(text.out, "sum 267.72")) << text.out;
}

}  // namespace
}  // namespace addnorm::train
