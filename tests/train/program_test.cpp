// The verbs train, resume, eval and generate, as a user runs them: cases of cases.md by their ids.
#include "program.h"

#include <sys/mount.h>

#include <algorithm>

namespace addnorm::train {
namespace {

using program::holds;
using program::Place;
using program::Process;
using program::Result;
using program::slurp;
using program::spit;
using program::state_of;
using program::words;
namespace fs = std::filesystem;

TEST(ProgramTraining, FromATextAlone) {
  const Place place;
  const Result result =
      place.run({"train", "text.txt", "--train.steps", "2", "--model.layers", "1", "--model.width",
                 "16", "--model.heads", "2", "--model.context", "16", "--train.batch", "2"});
  ASSERT_EQ(result.code, 0) << result.err;
  EXPECT_TRUE(holds(result.out, "runs/text-1")) << result.out;
  EXPECT_TRUE(holds(result.err, "gradient norm")) << result.err;
  EXPECT_TRUE(holds(result.err, "warm-up of")) << result.err;
  for (const char* file : {"spec.toml", "env.json", "tokenizer.json", "metrics.jsonl"}) {
    EXPECT_TRUE(fs::exists(place / "runs/text-1" / file)) << file;
  }
  const auto env = nlohmann::json::parse(slurp(place / "runs/text-1/env.json"));
  for (const char* key : {"program", "threads", "seed", "instruction_set", "warmup_steps"}) {
    EXPECT_TRUE(env.contains(key)) << key;
  }
  EXPECT_EQ(place.run({"train", "text.txt", "--run", "runs/text-1"}).code, 2);
}

TEST(ProgramTraining, DryRunWritesNothing) {
  const Place place;
  const Result result = place.run({"train", "spec.toml", "--dry-run", "--train.warmup", "25%"});
  ASSERT_EQ(result.code, 0) << result.err;
  for (const char* part : {"parameters", "memory", "FLOPs", "unigram entropy", "warm-up of 3"}) {
    EXPECT_TRUE(holds(result.out, part)) << part << "\n" << result.out;
  }
  EXPECT_FALSE(fs::exists(place / "runs"));
}

TEST(ProgramTraining, ImpossibleSizesAreRefusedBeforeAllocation) {
  const Place place;
  const Result result = place.run({"train", "spec.toml", "--model.width", "1000000", "--run", "r"});
  EXPECT_EQ(result.code, 2) << result.err;
  EXPECT_TRUE(holds(result.err, "parameters")) << result.err;
  EXPECT_FALSE(fs::exists(place / "r"));
}

// S2: A straight, B interrupted and resumed, C killed during step 7 and resumed, D another thread
// count, E another learning rate.
TEST(ProgramTraining, S2AResumedRunIsTheSameRun) {
  const Place place;
  ASSERT_EQ(place.run({"train", "spec.toml", "--run", "a"}).code, 0);
  const auto expected = state_of(place / "a");
  EXPECT_EQ(tiny::metrics(place / "a", "step").size(), 11U);

  // B: however early the signal comes, the step is finished, saved, and the way on is said.
  {
    Process process(place.path(), {"train", "spec.toml", "--run", "b"});
    ASSERT_TRUE(process.wait_for(place / "b/metrics.jsonl", "\"step\":1,"));
    process.send(SIGINT);
    ASSERT_EQ(process.wait(), 0);
    const auto newest = checkpoint::newest_checkpoint(place / "b");
    ASSERT_TRUE(newest);
    const auto done = checkpoint::load_state(*newest).step;
    if (done < 10) {
      EXPECT_TRUE(holds(slurp(place / "stdout"), "addnorm resume b")) << slurp(place / "stdout");
      EXPECT_EQ(tiny::metrics(place / "b", "step").back().at("step"), done);
      ASSERT_EQ(place.run({"resume", "b"}).code, 0);
    }
    EXPECT_TRUE(state_of(place / "b") == expected);
  }
  // C: what a kill during step 7 leaves: the checkpoint of step 5, metrics up to 6 and a torn line.
  {
    fs::copy(place / "a", place / "c", fs::copy_options::recursive);
    fs::remove_all(place / "c/checkpoints/000010");
    std::string kept;
    std::istringstream lines(slurp(place / "a/metrics.jsonl"));
    for (std::string line; std::getline(lines, line);) {
      if (nlohmann::json::parse(line).at("step") <= 6) kept += line + "\n";
    }
    spit(place / "c/metrics.jsonl", kept + "{\"event\":\"step\",\"st");
    const Result result = place.run({"resume", "c"});
    ASSERT_EQ(result.code, 0) << result.err;
    EXPECT_FALSE(holds(result.err, "warning")) << result.err;
    EXPECT_TRUE(state_of(place / "c") == expected);
    EXPECT_TRUE(holds(slurp(place / "c/metrics.discarded.jsonl"), "\"step\":6"));
  }
  const auto half = [&](const std::string& name) {
    fs::copy(place / "a", place / name, fs::copy_options::recursive);
    fs::remove_all(place / name / "checkpoints/000010");
  };
  half("d");
  const Result other_threads = place.run({"resume", "d", "--train.threads", "2"});
  ASSERT_EQ(other_threads.code, 0) << other_threads.err;
  EXPECT_TRUE(holds(other_threads.err, "used 1 threads, this session uses 2")) << other_threads.err;
  EXPECT_EQ(nlohmann::json::parse(slurp(place / "d/env.json")).at("sessions").back().at("threads"),
            2);
  half("e");
  const Result other_rate = place.run({"resume", "e", "--train.lr", "0.02"});
  ASSERT_EQ(other_rate.code, 0) << other_rate.err;
  const size_t told = other_rate.err.find("train.lr: 0.02 (was 0.01)");
  EXPECT_NE(told, std::string::npos) << other_rate.err;
  EXPECT_LT(told, other_rate.err.find("step 6/10")) << other_rate.err;
  EXPECT_TRUE(holds(slurp(place / "e/spec.toml"), "lr = 0.02"));
  EXPECT_FALSE(state_of(place / "e") == expected);
}

// S3, section 7: 30 and more kills at random moments, and the run ends as if there had been none.
TEST(KillTraining, S3RandomKills) {
  const Place place;
  const std::vector<std::string> longer = {
      "--train.steps",      "240", "--train.checkpoint_every", "4",
      "--train.diag_every", "10",  "--train.eval_every",       "10"};
  auto train = std::vector<std::string>{"train", "spec.toml", "--run", "straight"};
  train.insert(train.end(), longer.begin(), longer.end());
  const auto seconds_of = [&](const std::vector<std::string>& arguments) {
    const auto begin = std::chrono::steady_clock::now();
    EXPECT_EQ(place.run(arguments).code, 0);
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  };
  const double start = seconds_of({"train", "spec.toml", "--run", "start", "--train.steps", "1"});
  const double whole = seconds_of(train);
  train[3] = "killed";
  const Random random(static_cast<uint64_t>(::getpid()), "kills");
  RecordProperty("seed", static_cast<int>(::getpid()));
  int kills = 0;
  int kills_with_checkpoint = 0;
  bool finished = false;
  // A session lives until some moment of its start or of the third of the run after it.
  for (uint64_t attempt = 0; attempt < 400 && !finished; ++attempt) {
    const bool exists = fs::exists(place / "killed/spec.toml");
    Process process(place.path(), exists ? std::vector<std::string>{"resume", "killed"} : train);
    const bool enough = kills >= 30;
    if (!enough) {
      const double life = 0.01 + random.uniform(attempt) * (start + whole / 3);
      std::this_thread::sleep_for(std::chrono::duration<double>(life));
      process.send(SIGKILL);
    }
    const int code = process.wait();
    if (code == 128 + SIGKILL) {
      ++kills;
      const auto newest = checkpoint::newest_checkpoint(place / "killed");
      if (newest) {
        ++kills_with_checkpoint;
        checkpoint::load_state(*newest);  // it always loads
      }
      continue;
    }
    // A kill between the last save and the end leaves nothing to go on with.
    const bool complete = code == 2 && holds(slurp(place / "stderr"), "has made all its 240 steps");
    ASSERT_TRUE(code == 0 || complete) << slurp(place / "stderr");
    // Finished before its kill: begin anew, so that the number of kills is reached.
    if (kills < 30) {
      EXPECT_TRUE(state_of(place / "killed") == state_of(place / "straight"));
      fs::remove_all(place / "killed");
    } else {
      finished = true;
    }
  }
  ASSERT_TRUE(finished);
  EXPECT_GE(kills, 30);
  EXPECT_GE(kills_with_checkpoint, 5);
  EXPECT_TRUE(state_of(place / "killed") == state_of(place / "straight"));
  EXPECT_TRUE(checkpoint::leftovers(place / "killed").empty());
}

// S3: the disk fills during a run.
TEST(ProgramFullDiskMemoryLimit, S3ExitsFourAndGoesOn) {
  const Place place;
  const fs::path disk = place / "disk";
  fs::create_directory(disk);
  ASSERT_EQ(::mount("tmpfs", disk.c_str(), "tmpfs", 0, "size=400k"), 0)
      << "this test needs the right to mount a tmpfs";
  const std::vector<std::string> sizes = {"--train.checkpoint_every", "1", "--model.width", "16"};
  auto arguments = std::vector<std::string>{"train", "spec.toml", "--run", "disk/run"};
  arguments.insert(arguments.end(), sizes.begin(), sizes.end());
  const Result result = place.run(arguments);
  EXPECT_EQ(result.code, 4) << result.all();
  EXPECT_TRUE(holds(result.err, "wanted ")) << result.err;
  EXPECT_TRUE(holds(result.err, "free ")) << result.err;
  EXPECT_TRUE(holds(result.err, "safetensors") || holds(result.err, "state.json") ||
              holds(result.err, "DONE") || holds(result.err, "metrics.jsonl"))
      << result.err;
  const auto newest = checkpoint::newest_checkpoint(disk / "run");
  EXPECT_TRUE(newest);
  if (newest) {
    EXPECT_GE(checkpoint::load_state(*newest).step, 1);
    EXPECT_EQ(::mount("tmpfs", disk.c_str(), "tmpfs", MS_REMOUNT, "size=8m"), 0);
    const Result resumed = place.run({"resume", "disk/run"});
    EXPECT_EQ(resumed.code, 0) << resumed.err;
    arguments[3] = "straight";
    EXPECT_EQ(place.run(arguments).code, 0);
    EXPECT_TRUE(state_of(disk / "run") == state_of(place / "straight"));
  }
  ::umount2(disk.c_str(), MNT_DETACH);
}

// S4: a finished run goes on only by an explicit choice; the table is what the optimizer uses.
TEST(ProgramTraining, S4ExtendingAFinishedRun) {
  const Place place;
  ASSERT_EQ(place.run({"train", "spec.toml", "--run", "r"}).code, 0);
  const Result plain = place.run({"resume", "r"});
  EXPECT_EQ(plain.code, 2);
  EXPECT_TRUE(holds(plain.err, "--steps")) << plain.err;
  const Result endless = place.run({"resume", "r", "--steps", "1e13", "--extend", "keep"});
  EXPECT_EQ(endless.code, 2) << endless.all();
  EXPECT_TRUE(holds(endless.err, "[--steps] expected at most 1e+12")) << endless.err;
  for (const auto& way : {std::vector<std::string>{"--steps", "20"}, {"--train.steps", "20"}}) {
    std::vector<std::string> arguments = {"resume", "r"};
    arguments.insert(arguments.end(), way.begin(), way.end());
    const Result asked = place.run(arguments);
    EXPECT_EQ(asked.code, 2) << asked.all();
    for (const char* part : {"keep", "rewarm", "stretch", "update 11", "update 15", "update 20"}) {
      EXPECT_TRUE(holds(asked.err, part)) << part << "\n" << asked.err;
    }
  }
  EXPECT_EQ(tiny::metrics(place / "r", "step").size(), 11U);
  model::TrainSection train;
  train.steps = 10;
  train.lr = 0.01;
  train.warmup = "2";
  for (const ExtendChoice& choice : extend_choices(train, {}, 10, 10)) {
    const std::string run = std::string("r-") + extend_name(choice.how);
    fs::copy(place / "r", place / run, fs::copy_options::recursive);
    const Result result =
        place.run({"resume", run, "--steps", "20", "--extend", extend_name(choice.how)});
    ASSERT_EQ(result.code, 0) << result.err;
    const auto steps = tiny::metrics(place / run, "step");
    ASSERT_EQ(steps.size(), 21U);
    EXPECT_EQ(steps[11].at("lr").get<double>(), choice.first_rate);
    EXPECT_EQ(steps[15].at("lr").get<double>(), choice.middle_rate);
    EXPECT_EQ(steps[20].at("lr").get<double>(), choice.last_rate);
  }
  // The choice is part of the run: interrupted within the added steps, it goes on the same way.
  fs::remove_all(place / "r-rewarm/checkpoints/000020");
  ASSERT_EQ(place.run({"resume", "r-rewarm"}).code, 0);
  EXPECT_EQ(tiny::metrics(place / "r-rewarm", "step").size(), 21U);
}

// S1: the resolved warm-up is printed and stored; one as long as the run is a warning.
TEST(ProgramTraining, S1WarmupIsResolved) {
  const Place place;
  Result result = place.run({"train", "spec.toml", "--run", "a", "--train.warmup", "15%"});
  ASSERT_EQ(result.code, 0) << result.err;
  EXPECT_TRUE(holds(result.err, "warm-up of 2 ")) << result.err;
  EXPECT_EQ(nlohmann::json::parse(slurp(place / "a/env.json")).at("warmup_steps"), 2);
  result = place.run({"train", "spec.toml", "--dry-run", "--train.warmup", "50"});
  EXPECT_EQ(result.code, 0);
  EXPECT_TRUE(holds(result.err, "warning")) << result.err;
  EXPECT_TRUE(holds(result.err, "0.002")) << result.err;  // 10/50 of 0.01
}

// C1: same seed and thread count, same bytes; other counts within 1e-5, and `compare` says why.
TEST(ProgramThreadsTraining, C1) {
  const Place place;
  std::map<int, double> losses;
  for (const int threads : {2, 1, 7}) {
    for (const char* twin : {"x", "y"}) {
      const std::string run = std::to_string(threads) + twin;
      const Result result =
          place.run({"train", "spec.toml", "--run", run, "--train.batch", "3", "--train.steps",
                     "20", "--train.threads", std::to_string(threads)});
      ASSERT_EQ(result.code, 0) << result.err;
    }
    const std::string name = std::to_string(threads);
    EXPECT_TRUE(state_of(place / (name + "x")) == state_of(place / (name + "y"))) << threads;
    EXPECT_EQ(nlohmann::json::parse(slurp(place / (name + "x/env.json"))).at("threads"), threads);
    losses[threads] = tiny::metrics(place / (name + "x"), "step").back().at("loss");
  }
  EXPECT_NEAR(losses[1] / losses[2], 1, 1e-5);
  EXPECT_NEAR(losses[7] / losses[2], 1, 1e-5);
  for (const char* other : {"1x", "7x"}) {
    const Result compared = place.run({"compare", "2x", other});
    ASSERT_EQ(compared.code, 0) << compared.err;
    const std::string why =
        std::string("threads differs (2 and ") + other[0] + "): a reason for differing bytes";
    EXPECT_TRUE(holds(compared.out, why)) << compared.out;
  }
  const Result twins = place.run({"compare", "2x", "2y"});
  EXPECT_TRUE(holds(twins.out, "the same in every digit over all 21")) << twins.out;
  EXPECT_FALSE(holds(twins.out, "differing bytes")) << twins.out;
}

// D9: the first record is the loss before any update.
TEST(ProgramTraining, D9FirstLoss) {
  const Place place;
  for (const auto& [run, rule] : std::vector<std::pair<std::string, std::string>>{
           {"flat", "zeros"}, {"steep", "normal(1)"}}) {
    const Result result =
        place.run({"train", "spec.toml", "--run", run, "--model.width", "64", "--model.vocab",
                   "257", "--model.tie_embeddings", "false", "--init.head", rule, "--train.steps",
                   "1", "--train.batch", "32", "--data.validation", "0"});
    ASSERT_EQ(result.code, 0) << result.err;
    const auto first = tiny::metrics(place / run, "step").at(0);
    EXPECT_EQ(first.at("step"), 0);
    if (run == "flat") {
      EXPECT_NEAR(first.at("loss").get<double>(), 5.5490761, 1e-5);
      EXPECT_FALSE(holds(result.err, "10 %")) << result.err;
    } else {
      EXPECT_GT(first.at("loss").get<double>(), 15);
      EXPECT_TRUE(holds(result.err, "ln 257 = 5.5491")) << result.err;
    }
  }
}

// C5: killed after step 5, the records 0..5 are there, every complete line is strict JSON.
TEST(KillTraining, C5MetricsSurvive) {
  const Place place;
  Process process(place.path(), {"train", "spec.toml", "--run", "r", "--train.steps", "100000",
                                 "--train.checkpoint_every", "0"});
  ASSERT_TRUE(process.wait_for(place / "r/metrics.jsonl", "\"step\":5,"));
  EXPECT_GE(tiny::metrics(place / "r", "step").size(), 5U);  // read while the run goes on
  process.send(SIGKILL);
  EXPECT_EQ(process.wait(), 128 + SIGKILL);
  std::string text = slurp(place / "r/metrics.jsonl");
  text.resize(text.rfind('\n') + 1);
  std::istringstream lines(text);
  int64_t next = 0;
  for (std::string line; std::getline(lines, line);) {
    const auto record = nlohmann::json::parse(line);
    if (record.at("event") == "step") {
      EXPECT_EQ(record.at("step"), next++);
    }
  }
  EXPECT_GE(next, 6);
  // No checkpoint was due: the run starts over and says so.
  Process again(place.path(), {"resume", "r"});
  EXPECT_TRUE(again.wait_for(place / "stderr", "the run starts over"));
  EXPECT_TRUE(again.wait_for(place / "r/metrics.discarded.jsonl", "\"step\":5,"));
}

// A second SIGINT ends the program at once; the run goes on from its last checkpoint.
TEST(KillTraining, SecondInterruptStopsAtOnce) {
  const Place place;
  Process process(place.path(), {"train", "spec.toml", "--run", "r", "--train.steps", "1000000",
                                 "--train.batch", "64", "--train.accumulate", "400"});
  ASSERT_TRUE(process.wait_for(place / "r/metrics.jsonl", "\"step\":0,"));
  process.send(SIGINT);
  std::this_thread::sleep_for(std::chrono::milliseconds(2));
  process.send(SIGINT);
  const int code = process.wait();
  EXPECT_TRUE(code == 130 || code == 0) << code;  // 0: the step was finished in between
}

TEST(ProgramTraining, OneProcessPerRun) {
  const Place place;
  Process process(place.path(), {"train", "spec.toml", "--run", "r", "--train.steps", "1000000"});
  ASSERT_TRUE(process.wait_for(place / "r/metrics.jsonl", "\"step\":6,"));
  fs::create_directory(place / "other");
  const Result second = program::run(place / "other", {"resume", (place / "r").string()});
  EXPECT_EQ(second.code, 2);
  EXPECT_TRUE(holds(second.err, "in use")) << second.err;
}

TEST(ProgramTraining, GenerateIsDeterministic) {
  const Place place;
  ASSERT_EQ(place.run({"train", "spec.toml", "--run", "r", "--data.tokenizer", "chars"}).code, 0);
  const std::vector<std::string> command = {"generate",        "r",  "--prompt", "the layer ",
                                            "--tokens",        "40", "--seed",   "7",
                                            "--train.threads", "1"};
  const Result first = place.run(command);
  ASSERT_EQ(first.code, 0) << first.err;
  EXPECT_EQ(first.out.rfind("the layer ", 0), 0U);
  EXPECT_EQ(first.out.size(), std::string("the layer ").size() + 40 + 1);
  EXPECT_EQ(place.run(command).out, first.out);
  auto other = command;
  other[7] = "8";
  EXPECT_NE(place.run(other).out, first.out);
  const Result likeliest = place.run({"generate", "r", "--tokens", "5", "--temperature", "0"});
  EXPECT_EQ(likeliest.code, 0) << likeliest.err;
  const Result unknown = place.run({"generate", "r", "--prompt", "Z"});
  EXPECT_EQ(unknown.code, 2) << unknown.err;
}

// The other two kinds: `eval` gives what the run's own evaluation gave.
TEST(ProgramTraining, EncodersAndPairs) {
  const Place place;
  std::string pairs;
  for (int i = 0; i < 60; ++i) pairs += words(4) + std::to_string(i) + "\t" + words(3) + "\n";
  std::replace(pairs.begin(), pairs.end(), '.', '!');
  spit(place / "pairs.tsv", pairs);
  const std::vector<std::string> sizes = {"--model.width",   "16", "--model.heads",   "2",
                                          "--model.context", "64", "--train.batch",   "4",
                                          "--train.steps",   "6",  "--train.threads", "1"};
  auto encoder = std::vector<std::string>{"train",        "text.txt", "--run",          "encoder",
                                          "--model.kind", "encoder",  "--model.layers", "1"};
  auto pair = std::vector<std::string>{"train",
                                       "pairs.tsv",
                                       "--run",
                                       "pair",
                                       "--model.kind",
                                       "encoder-decoder",
                                       "--model.encoder_layers",
                                       "1",
                                       "--model.decoder_layers",
                                       "1"};
  for (auto* command : {&encoder, &pair}) {
    command->insert(command->end(), sizes.begin(), sizes.end());
    const Result result = place.run(*command);
    ASSERT_EQ(result.code, 0) << result.err;
    const std::string run = command->at(3);
    const Result eval = place.run({"eval", run, "--json"});
    ASSERT_EQ(eval.code, 0) << eval.err;
    const auto json = nlohmann::json::parse(eval.out);
    const auto own = tiny::metrics(place / run, "eval").back();
    EXPECT_EQ(json.at("tokens"), own.at("val_tokens"));
    EXPECT_NEAR(json.at("loss").get<double>(), own.at("val_loss").get<double>(), 1e-9);
    EXPECT_EQ(json.at("bytes") == 0, run == "encoder");  // masked targets are a share of the text
  }
  EXPECT_EQ(place.run({"generate", "encoder"}).code, 2);
  EXPECT_EQ(place.run({"generate", "pair", "--prompt", "the norm", "--tokens", "9"}).code, 0);
  const auto layers = tiny::metrics(place / "pair", "diag").at(0).at("layers");
  EXPECT_EQ(layers.at(0).at("stack"), "encoder");
  EXPECT_EQ(layers.at(1).at("stack"), "decoder");
}

// W7: the run's own formula counts.
TEST(ProgramTraining, W7ChangedCatalogueEntryIsSaid) {
  const Place place;
  ASSERT_EQ(place.run({"train", "spec.toml", "--run", "r"}).code, 0);
  std::string spec = slurp(place / "r/spec.toml");
  const size_t at = spec.find("wiring_name = \"pre-ln\"");
  ASSERT_NE(at, std::string::npos) << spec;
  spec.replace(at, 22, "wiring_name = \"post-ln\"");
  spit(place / "r/spec.toml", spec);
  const Result result = place.run({"eval", "r"});
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_TRUE(holds(result.err, "the formula written here is used")) << result.err;
}

TEST(ProgramTraining, WrongInput) {
  const Place place;
  for (const auto& [arguments, part] :
       std::vector<std::pair<std::vector<std::string>, std::string>>{
           {{"resume", "nowhere"}, "the folder of a run"},
           {{"eval", "nowhere.toml"}, "nowhere.toml"},
           {{"train", "nowhere.txt"}, "nowhere.txt"},
           {{"generate", "nowhere"}, "the folder of a run"},
           {{"train", "spec.toml", "--weights", "text.txt"}, "text.txt"},
           {{"train", "spec.toml", "--model.context", "100000"}, "context"},
           {{"train", "spec.toml", "--model.vocab", "100"}, "vocab"}}) {
    const Result result = place.run(arguments);
    EXPECT_EQ(result.code, 2) << arguments[1] << "\n" << result.all();
    EXPECT_TRUE(holds(result.err, part)) << result.err;
  }
  EXPECT_FALSE(fs::exists(place / "runs"));
}

}  // namespace
}  // namespace addnorm::train
