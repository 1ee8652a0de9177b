// Run folders and checkpoints: whole or absent, verified, and metrics that resume cleanly.
#include "addnorm/checkpoint/run_state.h"

#include <gtest/gtest.h>
#include <sys/mount.h>

#include <fstream>

#include "addnorm/base/error.h"
#include "addnorm/base/files.h"
#include "support/temporary.h"
#include "tiny.h"

namespace addnorm::checkpoint {
namespace {

using test::failure_of;
using test::TemporaryFolder;

struct Tensors {
  explicit Tensors(size_t count = 6) : w(count), m(count) {
    for (size_t i = 0; i < count; ++i) {
      w[i] = static_cast<float>(i) + 0.5F;
      m[i] = -static_cast<float>(i);
    }
  }
  std::vector<Tensor> model() { return {{"a.weight", {static_cast<int64_t>(w.size())}, w}}; }
  std::vector<Tensor> optimizer() { return {{"m:a.weight", {static_cast<int64_t>(m.size())}, m}}; }
  std::vector<float> w, m;
};

TrainState state_at(int64_t step) {
  TrainState state;
  state.step = step;
  state.updates = step - 1;
  state.skipped_steps = 1;
  state.nonfinite_steps = 2;
  state.skipped_in_row = 3;
  state.tokens = 12345678901;
  state.seconds = 0.1;
  state.clip_window = "0110";
  state.seed = 18446744073709551615ULL;
  state.threads = 2;
  state.instruction_set = "AVX2";
  state.program = "addnorm 0.1.0";
  return state;
}

void put(const fs::path& file, const std::string& text) {
  fs::create_directories(file.parent_path());
  std::ofstream(file, std::ios::binary) << text;
}

TEST(RunState, SavesAndLoads) {
  TemporaryFolder run;
  Tensors saved;
  const TrainState state = state_at(7);
  const auto folder = save_checkpoint(run.path(), state, saved.model(), saved.optimizer());
  EXPECT_EQ(folder.filename(), "000007");
  Tensors loaded;
  std::fill(loaded.w.begin(), loaded.w.end(), 0.0F);
  std::fill(loaded.m.begin(), loaded.m.end(), 0.0F);
  const auto moments = loaded.optimizer();
  const TrainState got = load_checkpoint(folder, loaded.model(), &moments);
  EXPECT_EQ(loaded.w, saved.w);
  EXPECT_EQ(loaded.m, saved.m);
  EXPECT_EQ(got.step, 7);
  EXPECT_EQ(got.updates, 6);
  EXPECT_EQ(got.skipped_steps, 1);
  EXPECT_EQ(got.nonfinite_steps, 2);
  EXPECT_EQ(got.skipped_in_row, 3);
  EXPECT_EQ(got.tokens, 12345678901);
  EXPECT_EQ(got.seconds, 0.1);
  EXPECT_EQ(got.clip_window, "0110");
  EXPECT_EQ(got.seed, 18446744073709551615ULL);
  EXPECT_EQ(got.threads, 2);
  EXPECT_EQ(got.instruction_set, "AVX2");
}

// S3: what has no DONE does not exist, is listed, and goes at the next save.
TEST(RunState, S3WithoutDoneItDoesNotExist) {
  TemporaryFolder run;
  EXPECT_FALSE(newest_checkpoint(run.path()));
  Tensors tensors;
  save_checkpoint(run.path(), state_at(5), tensors.model(), tensors.optimizer());
  put(run.path() / "checkpoints/000010/model.safetensors", "half");
  put(run.path() / "checkpoints/000010/.optimizer.safetensors.tmp-1-2", "");
  put(run.path() / "checkpoints/000005/.state.json.tmp-1-2", "x");
  put(run.path() / ".metrics.jsonl.tmp-9-9", "x");
  put(run.path() / ".report.html.tmp-9-9", "not ours");
  EXPECT_EQ(newest_checkpoint(run.path())->filename(), "000005");
  EXPECT_EQ(leftovers(run.path()).size(), 3U);
  save_checkpoint(run.path(), state_at(15), tensors.model(), tensors.optimizer());
  EXPECT_TRUE(leftovers(run.path()).empty());
  EXPECT_FALSE(fs::exists(run.path() / "checkpoints/000010"));
  EXPECT_TRUE(fs::exists(run.path() / ".report.html.tmp-9-9"));
  EXPECT_EQ(checkpoints(run.path()).size(), 2U);
}

TEST(RunState, OrderIsByNumber) {
  TemporaryFolder run;
  Tensors tensors;
  for (const int64_t step : {999999, 1000000, 20}) {
    save_checkpoint(run.path(), state_at(step), tensors.model(), tensors.optimizer());
  }
  EXPECT_EQ(newest_checkpoint(run.path())->filename(), "1000000");
}

TEST(RunState, DamageIsFound) {
  for (const char* file : {"model.safetensors", "optimizer.safetensors", "state.json"}) {
    TemporaryFolder run;
    Tensors tensors;
    const auto folder =
        save_checkpoint(run.path(), state_at(1), tensors.model(), tensors.optimizer());
    std::string text = read_file(folder / file);
    text[text.size() - 3] ^= 1;
    put(folder / file, text);
    const auto moments = tensors.optimizer();
    const auto [failure, message] =
        failure_of([&] { load_checkpoint(folder, tensors.model(), &moments); });
    EXPECT_EQ(failure, Failure::input) << file;
    EXPECT_NE(message.find(file), std::string::npos) << message;
    EXPECT_NE(message.find("damaged"), std::string::npos) << message;
  }
}

TEST(RunState, OtherTensorsAreListedAtOnce) {
  TemporaryFolder run;
  Tensors tensors;
  const auto folder =
      save_checkpoint(run.path(), state_at(1), tensors.model(), tensors.optimizer());
  std::vector<float> values(6);
  const std::vector<Tensor> other = {{"a.weights", {6}, values}, {"b", {2, 3}, values}};
  const auto [failure, message] = failure_of([&] { load_checkpoint(folder, other, nullptr); });
  EXPECT_EQ(failure, Failure::input);
  for (const char* part :
       {"a.weights [6]", "b [2,3]", "nearest name: a.weight", "no tensor a.weight"}) {
    EXPECT_NE(message.find(part), std::string::npos) << part << "\n" << message;
  }
}

TEST(RunState, ManyTensorsTooManyAreCountedAfterAThousand) {
  TemporaryFolder folder;
  const uint8_t byte = 1;
  std::vector<checkpoint::TensorOut> many;
  for (int i = 0; i < 3000; ++i) {
    many.push_back({"extra." + std::to_string(i), ElementType::u8, {1}, &byte, {}});
  }
  many.push_back({std::string(100000, 'n'), ElementType::u8, {1}, &byte, {}});
  write_safetensors(folder.path() / "w.safetensors", many);
  std::vector<float> to(4);
  const auto file = SafetensorsFile::open(folder.path() / "w.safetensors");
  const auto [failure, message] =
      failure_of([&] { read_tensors(file, {{"a.weight", {4}, to, {}}}); });
  EXPECT_EQ(failure, Failure::input);
  EXPECT_NE(message.find("got 2001 further tensors"), std::string::npos);
  EXPECT_LT(message.size(), 300000U);
}

// N1 (b): non-finite weights are refused at load, tensor and index named.
TEST(RunState, N1NonFiniteWeightsAreRefused) {
  TemporaryFolder folder;
  std::vector<double> values = {1, 2, 1e300, 4};
  write_safetensors(folder.path() / "w.safetensors",
                    {{"a.weight", ElementType::f64, {4}, values.data(), {}}});
  std::vector<float> to(4);
  const auto file = SafetensorsFile::open(folder.path() / "w.safetensors");
  const auto [failure, message] =
      failure_of([&] { read_tensors(file, {{"a.weight", {4}, to, {}}}); });
  EXPECT_EQ(failure, Failure::nonfinite);
  EXPECT_NE(message.find("a.weight: expected finite numbers, got inf at index 2"),
            std::string::npos)
      << message;
  std::vector<double> wide(4);
  read_tensors(file, {{"a.weight", {4}, {}, wide}});
  EXPECT_EQ(wide, values);
}

// S3: the disk fills while the second checkpoint is written.
TEST(FullDiskMemoryLimit, S3TheCheckpointBeforeStays) {
  TemporaryFolder folder;
  ASSERT_EQ(::mount("tmpfs", folder.path().c_str(), "tmpfs", 0, "size=1m"), 0)
      << "this test needs the right to mount a tmpfs";
  Tensors tensors(50000);  // 400 kB a checkpoint
  std::string message;
  std::optional<Failure> failure;
  try {
    save_checkpoint(folder.path(), state_at(1), tensors.model(), tensors.optimizer());
    save_checkpoint(folder.path(), state_at(2), tensors.model(), tensors.optimizer());
    std::tie(failure, message) = failure_of(
        [&] { save_checkpoint(folder.path(), state_at(3), tensors.model(), tensors.optimizer()); });
    EXPECT_EQ(failure, Failure::system);
    EXPECT_NE(message.find(".safetensors"), std::string::npos) << message;
    EXPECT_NE(message.find("wanted 2"), std::string::npos) << message;
    EXPECT_NE(message.find("free "), std::string::npos) << message;
    EXPECT_EQ(newest_checkpoint(folder.path())->filename(), "000002");
    EXPECT_TRUE(leftovers(folder.path()).empty());
    Tensors loaded(50000);
    std::fill(loaded.w.begin(), loaded.w.end(), 0.0F);
    load_checkpoint(*newest_checkpoint(folder.path()), loaded.model(), nullptr);
    EXPECT_EQ(loaded.w, tensors.w);
  } catch (const std::exception& error) {
    ADD_FAILURE() << error.what();
  }
  ::umount2(folder.path().c_str(), MNT_DETACH);
}

TEST(RunFolder, NeverOverwrites) {
  TemporaryFolder folder;
  const fs::path run = folder.path() / "mine";
  EXPECT_EQ(create_run(run, "x", {{"spec.toml", "a"}}), run);
  EXPECT_EQ(read_file(run / "spec.toml"), "a");
  const auto [failure, message] = failure_of([&] { create_run(run, "x", {{"spec.toml", "b"}}); });
  EXPECT_EQ(failure, Failure::input);
  EXPECT_NE(message.find("addnorm resume"), std::string::npos) << message;
  EXPECT_EQ(read_file(run / "spec.toml"), "a");
  fs::create_directory(folder.path() / "empty");
  EXPECT_EQ(failure_of([&] { create_run(folder.path() / "empty", "x", {}); }).first,
            Failure::input);
  create_run(folder.path() / "slash/", "x", {});
  EXPECT_TRUE(fs::is_directory(folder.path() / "slash"));
  EXPECT_EQ(std::distance(fs::directory_iterator(folder.path()), {}),
            3);  // nothing temporary stays
}

TEST(RunFolder, NumbersByItself) {
  TemporaryFolder folder;
  const fs::path before = fs::current_path();
  fs::current_path(folder.path());
  EXPECT_EQ(create_run("", "spec", {{"a", "1"}}), "runs/spec-1");
  EXPECT_EQ(create_run("", "spec", {{"a", "2"}}), "runs/spec-2");
  fs::remove_all("runs/spec-1");
  EXPECT_EQ(create_run("", "spec", {{"a", "3"}}), "runs/spec-1");
  fs::current_path(before);
}

TEST(RunFolder, OneWriterAtATime) {
  TemporaryFolder folder;
  {
    const RunLock lock(folder.path());
    const auto [failure, message] = failure_of([&] { RunLock second(folder.path()); });
    EXPECT_EQ(failure, Failure::input);
    EXPECT_NE(message.find("in use"), std::string::npos) << message;
  }
  const RunLock again(folder.path());
}

TEST(RunFolder, MetricsAfterTheCheckpointAreSetAside) {
  TemporaryFolder run;
  const std::string kept =
      "{\"event\":\"step\",\"step\":4}\n{\"event\":\"step\",\"step\":5}\n"
      "{\"event\":\"eval\",\"step\":5}\n";
  const std::string later = "{\"event\":\"step\",\"step\":6}\n";
  put(run.path() / "metrics.jsonl", kept + later + "{\"event\":\"st");
  EXPECT_EQ(discard_metrics_after(run.path(), 5), 2);
  EXPECT_EQ(read_file(run.path() / "metrics.jsonl"), kept);
  EXPECT_EQ(read_file(run.path() / "metrics.discarded.jsonl"), later + "{\"event\":\"st\n");
  EXPECT_EQ(discard_metrics_after(run.path(), 5), 0);
  put(run.path() / "metrics.jsonl", kept + later);
  EXPECT_EQ(discard_metrics_after(run.path(), 5), 1);
  EXPECT_EQ(read_file(run.path() / "metrics.discarded.jsonl"), later + "{\"event\":\"st\n" + later);
}

}  // namespace
}  // namespace addnorm::checkpoint
