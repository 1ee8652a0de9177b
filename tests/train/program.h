// Runs the real program and waits for it, or ends it.
#pragma once

#include <fcntl.h>
#include <gtest/gtest.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "support/temporary.h"
#include "tiny.h"

extern char** environ;

namespace addnorm::train::program {

namespace fs = std::filesystem;

inline std::string slurp(const fs::path& file) {
  std::ifstream in(file, std::ios::binary);
  std::ostringstream text;
  text << in.rdbuf();
  return text.str();
}

inline void spit(const fs::path& file, const std::string& text) {
  std::ofstream(file, std::ios::binary) << text;
}

// `addnorm` with arguments; standard output and error go to files in `folder`, which is where it runs.
class Process {
 public:
  Process(const fs::path& folder, std::vector<std::string> arguments) : folder_(folder) {
    arguments.insert(arguments.begin(), ADDNORM_PROGRAM);
    std::vector<char*> raw;
    for (std::string& argument : arguments) raw.push_back(argument.data());
    raw.push_back(nullptr);
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    const int flags = O_WRONLY | O_CREAT | O_TRUNC;
    const std::string out = (folder / "stdout").string();
    const std::string err = (folder / "stderr").string();
    posix_spawn_file_actions_addopen(&actions, 1, out.c_str(), flags, 0644);
    posix_spawn_file_actions_addopen(&actions, 2, err.c_str(), flags, 0644);
    posix_spawn_file_actions_addchdir_np(&actions, folder.c_str());
    if (::posix_spawn(&pid_, ADDNORM_PROGRAM, &actions, nullptr, raw.data(), environ) != 0) {
      throw std::runtime_error("cannot start " ADDNORM_PROGRAM);
    }
    posix_spawn_file_actions_destroy(&actions);
  }
  ~Process() {
    if (pid_ > 0) {
      send(SIGKILL);
      wait();
    }
  }
  Process(const Process&) = delete;
  Process& operator=(const Process&) = delete;

  // Nothing once it has ended: kill(-1) would reach every process of the machine.
  void send(int signal) const {
    if (pid_ > 0) ::kill(pid_, signal);
  }
  pid_t pid() const { return pid_; }
  // The exit code; 128 + the signal that ended it.
  int wait() {
    int status = 0;
    while (::waitpid(pid_, &status, 0) < 0 && errno == EINTR) {
    }
    pid_ = -1;
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  }
  // Waits until the file holds `text`, or the process has ended.
  bool wait_for(const fs::path& file, const std::string& text) const {
    for (int i = 0; i < 20000; ++i) {
      if (slurp(file).find(text) != std::string::npos) return true;
      siginfo_t info = {};
      ::waitid(P_PID, static_cast<id_t>(pid_), &info, WEXITED | WNOHANG | WNOWAIT);
      if (info.si_pid != 0) return slurp(file).find(text) != std::string::npos;
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    return false;
  }

 private:
  fs::path folder_;
  pid_t pid_ = -1;
};

struct Result {
  int code = 0;
  std::string out, err;
  std::string all() const { return out + err; }
};

inline Result run(const fs::path& folder, const std::vector<std::string>& arguments) {
  Process process(folder, arguments);
  Result result;
  result.code = process.wait();
  result.out = slurp(folder / "stdout");
  result.err = slurp(folder / "stderr");
  return result;
}

// Weights, moments, counters (without times) of the newest checkpoint and the metrics without times.
struct State {
  std::string model, optimizer;
  nlohmann::json counters;
  std::vector<nlohmann::json> metrics;
  bool operator==(const State&) const = default;
};

inline State state_of(const fs::path& run) {
  const auto newest = checkpoint::newest_checkpoint(run);
  if (!newest) throw std::runtime_error("no checkpoint in " + run.string());
  State state;
  state.model = slurp(*newest / "model.safetensors");
  state.optimizer = slurp(*newest / "optimizer.safetensors");
  state.counters = nlohmann::json::parse(slurp(*newest / "state.json"));
  state.counters.erase("seconds");
  state.metrics = tiny::timeless(run);
  return state;
}

inline bool holds(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

// Words in a repeatable disorder.
inline std::string words(int count) {
  const std::vector<std::string> list = {"stream", "norm",  "adds",  "the",
                                         "layer",  "depth", "grows", "a"};
  const Random random(3, "words");
  std::string text;
  for (int i = 0; i < count; ++i) {
    text += list[random.below(static_cast<uint64_t>(i), list.size())] + (i % 9 == 8 ? ".\n" : " ");
  }
  return text;
}

// A model that trains in a millisecond a step.
inline constexpr const char* small_spec = R"([model]
kind = "decoder"
layers = 1
width = 8
heads = 2
context = 8
dropout = 0.1
wiring = "pre-ln"
[data]
source = ["text.txt"]
[train]
steps = 10
batch = 2
accumulate = 2
lr = 0.01
clip = 0.5
warmup = 2
checkpoint_every = 5
eval_every = 4
eval_tokens = 64
diag_every = 4
threads = 1
)";

struct Place : test::TemporaryFolder {
  Place() {
    spit(path() / "text.txt", words(400));
    spit(path() / "spec.toml", small_spec);
  }
  Result run(const std::vector<std::string>& arguments) const {
    return program::run(path(), arguments);
  }
  fs::path operator/(const std::string& name) const { return path() / name; }
};

}  // namespace addnorm::train::program
