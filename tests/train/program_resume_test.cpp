// What `resume`, `eval` and their neighbours say of a run that is not as it was: another text, another
// catalogue, missing files, a schedule at its end.
#include <fmt/format.h>

#include "addnorm/base/files.h"
#include "addnorm/checkpoint/safetensors.h"
#include "program.h"

namespace addnorm::train {
namespace {

using program::holds;
using program::Place;
using program::Result;
using program::slurp;
using program::spit;
using program::state_of;
using program::words;
namespace fs = std::filesystem;

void half(const Place& place, const std::string& from, const std::string& to) {
  fs::copy(place / from, place / to, fs::copy_options::recursive);
  fs::remove_all(place / to / "checkpoints/000010");
}

std::string replaced(std::string text, const std::string& from, const std::string& to) {
  const size_t at = text.find(from);
  if (at == std::string::npos) throw std::runtime_error("no " + from + " in " + text);
  return text.replace(at, from.size(), to);
}

TEST(ChangedTextTraining, IsRefusedUnlessItIsMeant) {
  const Place place;
  ASSERT_EQ(place.run({"train", "spec.toml", "--run", "r"}).code, 0);
  const auto expected = state_of(place / "r");
  for (const char* run : {"same", "moved", "changed", "meant", "named", "old"}) {
    half(place, "r", run);
  }
  const std::string before = slurp(place / "text.txt");
  const auto texts = nlohmann::json::parse(slurp(place / "r/env.json")).at("texts");
  EXPECT_EQ(texts.at(0).at("bytes"), before.size());
  EXPECT_EQ(texts.at(0).at("sha256"), sha256(before));

  Result result = place.run({"resume", "same"});
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_FALSE(holds(result.err, "warning")) << result.err;
  EXPECT_TRUE(state_of(place / "same") == expected);
  // The same text under another name is the same text.
  fs::copy(place / "text.txt", place / "elsewhere.txt");
  result = place.run({"resume", "moved", "--data.source", "elsewhere.txt"});
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_FALSE(holds(result.err, "SHA-256")) << result.err;

  // One byte, the same size and time stamp.
  std::string after = before;
  after[before.size() / 2] = 'Q';
  const auto time = fs::last_write_time(place / "text.txt");
  spit(place / "text.txt", after);
  fs::last_write_time(place / "text.txt", time);
  const std::string metrics = slurp(place / "changed/metrics.jsonl");
  result = place.run({"resume", "changed"});
  EXPECT_EQ(result.code, 2) << result.err;
  for (const std::string& part : {std::string("text.txt"), std::to_string(before.size()) + " bytes",
                                  sha256(before).substr(0, 16), sha256(after).substr(0, 16),
                                  std::string("addnorm resume changed --new-text")}) {
    EXPECT_TRUE(holds(result.err, part)) << part << "\n" << result.err;
  }
  EXPECT_EQ(slurp(place / "changed/metrics.jsonl"), metrics);  // nothing was touched
  result = place.run({"resume", "changed", "--steps", "12", "--extend", "rewarm"});
  EXPECT_TRUE(holds(result.err, "addnorm resume changed --new-text --steps 12 --extend rewarm"))
      << result.err;

  result = place.run({"resume", "meant", "--new-text"});
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_TRUE(holds(result.err, "warning")) << result.err;
  EXPECT_TRUE(holds(slurp(place / "meant/metrics.jsonl"), "resumed: expected the text"));
  EXPECT_EQ(nlohmann::json::parse(slurp(place / "meant/env.json")).at("texts").at(0).at("sha256"),
            sha256(after));
  // Another text by name is a choice, too.
  spit(place / "other.txt", words(500));
  result = place.run({"resume", "named", "--data.source", "other.txt"});
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_TRUE(holds(result.err, "data.source: ")) << result.err;
  EXPECT_TRUE(holds(result.err, "SHA-256")) << result.err;

  // A run of a version that kept no record.
  auto env = nlohmann::ordered_json::parse(slurp(place / "old/env.json"));
  env.erase("texts");
  spit(place / "old/env.json", env.dump());
  result = place.run({"resume", "old"});
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_TRUE(holds(result.err, "no record of its text")) << result.err;
  EXPECT_TRUE(nlohmann::json::parse(slurp(place / "old/env.json")).contains("texts"));
}

TEST(ChangedTextTraining, AFileMoreInAFolderIsSeen) {
  const Place place;
  fs::create_directory(place / "texts");
  fs::copy(place / "text.txt", place / "texts/a.txt");
  ASSERT_EQ(place.run({"train", "spec.toml", "--run", "r", "--data.source", "texts"}).code, 0);
  fs::remove_all(place / "r/checkpoints/000010");
  spit(place / "texts/b.txt", "more");
  const Result result = place.run({"resume", "r"});
  EXPECT_EQ(result.code, 2) << result.err;
  EXPECT_TRUE(holds(result.err, "b.txt")) << result.err;
  EXPECT_TRUE(holds(result.err, "which had no such file")) << result.err;
}

constexpr const char* entry = "[mine]\nyear: 2025\ntitle: Mine\nformula: ";

// W7: a run of a wiring of one's own, and the entry of that name changes.
TEST(CatalogueTraining, W7TheRunsFormulaCounts) {
  const Place place;
  spit(place / "first.txt", entry + std::string("x = x + f(norm(x)); out = norm(x)\n"));
  spit(place / "second.txt", entry + std::string("x = norm(x + f(x))\n"));
  const Result train = place.run(
      {"train", "spec.toml", "--run", "r", "--model.wiring", "mine", "--catalogue", "first.txt"});
  ASSERT_EQ(train.code, 0) << train.err;
  const std::string loss = place.run({"eval", "r", "--catalogue", "first.txt"}).out;
  half(place, "r", "first");
  half(place, "r", "second");
  const auto said_by = [&](const std::vector<std::string>& arguments) {
    const Result result = place.run(arguments);
    EXPECT_EQ(result.code, 0) << arguments[0] << result.err;
    return result.all();
  };
  for (const char* verb : {"eval", "generate", "inspect", "report"}) {
    const std::string same = said_by({verb, "r", "--catalogue", "first.txt"});
    EXPECT_FALSE(holds(same, "the formula written here is used")) << verb << same;
    const std::string other = said_by({verb, "r", "--catalogue", "second.txt"});
    EXPECT_TRUE(holds(other, "\"mine\" is a catalogue entry that now differs")) << verb << other;
    const std::string none = said_by({verb, "r"});
    EXPECT_TRUE(holds(none, "\"mine\" is not in the catalogue")) << verb << none;
  }
  EXPECT_TRUE(holds(slurp(place / "r/report.html"), "is not in the catalogue"));
  EXPECT_EQ(place.run({"eval", "r", "--catalogue", "second.txt"}).out, loss);
  EXPECT_TRUE(
      holds(said_by({"compare", "r", "first", "--catalogue", "second.txt"}), "now differs"));
  EXPECT_FALSE(holds(said_by({"resume", "first", "--catalogue", "first.txt"}), "warning"));
  EXPECT_TRUE(holds(said_by({"resume", "second", "--catalogue", "second.txt"}), "now differs"));
  EXPECT_TRUE(state_of(place / "first") == state_of(place / "r"));
  EXPECT_TRUE(state_of(place / "second") == state_of(place / "r"));
}

TEST(CatalogueTraining, SweepsPassItOn) {
  const Place place;
  spit(place / "my wirings.txt", entry + std::string("x = x + f(norm(x)); out = norm(x)\n"));
  const std::vector<std::string> command = {
      "sweep", "spec.toml", "--wiring", "mine", "--wiring",    "x = norm(x + f(x))",
      "--run", "s",         "--seeds",  "1",    "--catalogue", "my wirings.txt"};
  EXPECT_EQ(place.run({"sweep", "spec.toml", "--wiring", "mine", "--run", "none"}).code, 2);
  Result result = place.run(command);
  ASSERT_EQ(result.code, 0) << result.err;
  auto sweep = nlohmann::json::parse(slurp(place / "s/sweep.json"));
  for (const auto& cell : sweep.at("cells")) {
    EXPECT_NE(cell.at("seeds").at(0).at("outcome"), "failed") << result.err;
    EXPECT_EQ(cell.at("seeds").at(0).at("steps"), 10);
  }
  // Advice that starts a run of the user's own wiring names the file.
  EXPECT_TRUE(holds(result.out, "--model.wiring mine")) << result.out;
  EXPECT_TRUE(holds(result.out, "--catalogue 'my wirings.txt'")) << result.out;
  // A stopped run goes on with it.
  const std::string run = sweep.at("cells").at(0).at("seeds").at(0).at("run");
  fs::remove_all(place / "s" / run / "checkpoints/000010");
  sweep.at("cells").at(0).at("seeds") = nlohmann::json::array();
  spit(place / "s/sweep.json", sweep.dump());
  result = place.run(command);
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_TRUE(holds(result.err, "going on from step")) << result.err;
  EXPECT_FALSE(holds(slurp((place / "s" / run).string() + ".log"), "not in the catalogue"));
}

TEST(SourcesTraining, AResumedRunKeepsThem) {
  const Place place;
  ASSERT_EQ(place
                .run({"train", "spec.toml", "--run", "r", "--train.clip", "0.25", "--model.wiring",
                      "deepnorm"})
                .code,
            0);
  const std::string before = slurp(place / "r/spec.toml");
  for (const char* line : {"\nclip = 0.25  # flag\n", "\nbatch = 2  # file\n", "  # wiring\n",
                           "\nmomentum = 0.9  # default\n"}) {
    EXPECT_TRUE(holds(before, line)) << line << before;
  }
  fs::remove_all(place / "r/checkpoints/000010");
  const Result result = place.run({"resume", "r", "--train.lr", "0.02"});
  ASSERT_EQ(result.code, 0) << result.err;
  EXPECT_EQ(slurp(place / "r/spec.toml"),
            replaced(before, "\nlr = 0.01  # file\n", "\nlr = 0.02  # flag\n"));
}

TEST(ExtendTraining, KeepAtTheEndOfAScheduleIsSaid) {
  const Place place;
  ASSERT_EQ(place.run({"train", "spec.toml", "--run", "falling"}).code, 0);
  ASSERT_EQ(place.run({"train", "spec.toml", "--run", "flat", "--train.schedule", "constant"}).code,
            0);
  const auto suggested = [&](const std::string& run) {
    const Result asked = place.run({"resume", run, "--steps", "12"});
    EXPECT_EQ(asked.code, 2);
    return asked.err.substr(asked.err.rfind("--extend"));
  };
  EXPECT_EQ(suggested("falling"), "--extend stretch\n");
  EXPECT_EQ(suggested("flat"), "--extend keep\n");
  for (const char* how : {"stretch", "rewarm"}) {
    fs::copy(place / "falling", place / how, fs::copy_options::recursive);
    const Result result = place.run({"resume", how, "--steps", "1.2e1", "--extend", how});
    EXPECT_EQ(result.code, 0) << result.err;
    EXPECT_FALSE(holds(result.err, "warning [--extend]")) << result.err;
  }
  const Result flat = place.run({"resume", "flat", "--steps", "12", "--extend", "keep"});
  EXPECT_FALSE(holds(flat.err, "warning [--extend]")) << flat.err;
  const Result keep = place.run({"resume", "falling", "--steps", "12", "--extend", "keep"});
  EXPECT_EQ(keep.code, 0) << keep.err;
  EXPECT_TRUE(holds(keep.err, "warning [--extend]")) << keep.err;
  for (const char* part : {"at the rate 0", "rewarm", "stretch"}) {
    EXPECT_TRUE(holds(keep.err, part)) << part << keep.err;
  }
}

// Every file of a run that may be lost: which one, and what to do.
TEST(LostFilesTraining, AreNamedWithAWayOn) {
  const Place place;
  ASSERT_EQ(place.run({"train", "spec.toml", "--run", "r"}).code, 0);
  half(place, "r", "h");
  const auto without = [&](const std::string& file, const std::vector<std::string>& arguments) {
    fs::remove_all(place / "w");
    fs::copy(place / "h", place / "w", fs::copy_options::recursive);
    fs::remove(place / "w" / file);
    return place.run(arguments);
  };
  for (const char* file :
       {"env.json", "tokenizer.json", "checkpoints/000005/optimizer.safetensors",
        "checkpoints/000005/model.safetensors", "checkpoints/000005/state.json"}) {
    const Result result = without(file, {"resume", "w"});
    EXPECT_EQ(result.code, 2) << file;
    EXPECT_TRUE(holds(result.err, std::string("[w/") + file + "]")) << result.err;
    EXPECT_TRUE(holds(result.err, "got none")) << result.err;
    EXPECT_TRUE(holds(result.err, "put ")) << result.err;
    EXPECT_FALSE(holds(result.err, "permissions")) << result.err;
  }
  EXPECT_TRUE(holds(without("env.json", {"inspect", "w"}).out, "env.json is missing"));
  for (const char* damaged : {"[]", "7", "{\"sessions\":{}}", "{"}) {
    spit(place / "w/env.json", damaged);
    const Result resumed = place.run({"resume", "w"});
    EXPECT_EQ(resumed.code, 2) << damaged << "\n" << resumed.all();
    EXPECT_TRUE(holds(resumed.err, "env.json] expected")) << resumed.err;
  }
  spit(place / "w/env.json", "{}");  // the way that the message names
  EXPECT_EQ(place.run({"resume", "w"}).code, 0);
  EXPECT_TRUE(state_of(place / "w").model == state_of(place / "r").model);

  const Result metrics = without("metrics.jsonl", {"resume", "w"});
  EXPECT_EQ(metrics.code, 0) << metrics.err;
  EXPECT_TRUE(holds(metrics.err, "warning [w/metrics.jsonl]")) << metrics.err;
  for (const char* verb : {"inspect", "report"}) {
    const Result said = without("metrics.jsonl", {verb, "w"});
    EXPECT_EQ(said.code, 0) << said.err;
    EXPECT_TRUE(holds(said.all(), "missing")) << said.all();
  }
  EXPECT_TRUE(holds(slurp(place / "w/report.html"), "metrics.jsonl is missing"));
}

// A rate that draws no mask: the validation loss is a number all the same, in the run and in `eval`.
TEST(EncoderEvaluationTraining, IsNeverWithoutATarget) {
  const Place place;
  const Result result = place.run({"train", "spec.toml", "--run", "r", "--model.kind", "encoder",
                                   "--data.mask_rate", "1e-9", "--train.steps", "2"});
  ASSERT_EQ(result.code, 0) << result.err;
  const auto evals = tiny::metrics(place / "r", "eval");
  ASSERT_EQ(evals.size(), 1U);
  EXPECT_TRUE(evals[0].at("val_loss").is_number());
  EXPECT_EQ(evals[0].at("val_tokens"), 1);
  const Result eval = place.run({"eval", "r", "--json"});
  EXPECT_EQ(eval.code, 0) << eval.err;
  EXPECT_NEAR(nlohmann::json::parse(eval.out).at("loss").get<double>(),
              evals[0].at("val_loss").get<double>(), 1e-9);
}

// attn_scale may read t: the rate of the scores is another one at every update.
TEST(AttentionScaleTraining, ReadsTheUpdate) {
  const Place place;
  const auto losses = [&](const std::string& run, const std::string& scale) {
    const Result result = place.run({"train", "spec.toml", "--run", run, "--model.attn_scale",
                                     scale, "--init.default", "normal(1)", "--train.lr", "0"});
    EXPECT_EQ(result.code, 0) << result.err;
    std::vector<double> all;
    for (const auto& step : tiny::metrics(place / run, "step")) all.push_back(step.at("loss"));
    return all;
  };
  const auto moving = losses("moving", "min(t/5, 1)"), half = losses("half", "2/5"),
             whole = losses("whole", "1");
  EXPECT_EQ(moving.at(2), half.at(2));
  EXPECT_NE(moving.at(3), half.at(3));
  for (size_t step = 5; step <= 10; ++step) EXPECT_EQ(moving.at(step), whole.at(step)) << step;
}

// Factors per role may read t: the first three updates leave the queries alone, in a resumed run too.
TEST(RoleFactorsTraining, ReadTheUpdate) {
  const Place place;
  const auto train = [&](const std::string& run, const std::string& factor) {
    return place.run({"train", "spec.toml", "--run", run, "--train.checkpoint_every", "1",
                      "--train.lr_scale.q", factor});
  };
  ASSERT_EQ(train("r", "min(max(t - 3, 0), 1)").code, 0);
  const auto tensor = [&](int step, const std::string& name) {
    const auto file = checkpoint::SafetensorsFile::open(
        place / ("r/checkpoints/00000" + std::to_string(step)) / "model.safetensors");
    return file.read_double(file.at(name));
  };
  const std::string q = "blocks.0.attn.q.weight", k = "blocks.0.attn.k.weight";
  EXPECT_EQ(tensor(1, q), tensor(3, q));
  EXPECT_NE(tensor(3, q), tensor(4, q));
  EXPECT_NE(tensor(1, k), tensor(3, k));
  const auto whole = state_of(place / "r");
  for (int step = 3; step <= 10; ++step) {
    fs::remove_all(place / "r/checkpoints" / fmt::format("{:06}", step));
  }
  ASSERT_EQ(place.run({"resume", "r"}).code, 0);
  EXPECT_TRUE(state_of(place / "r") == whole);
  const Result negative = train("none", "2 - t");
  EXPECT_EQ(negative.code, 2);
  EXPECT_TRUE(holds(negative.err, "at t = infinity")) << negative.err;
}

}  // namespace
}  // namespace addnorm::train
