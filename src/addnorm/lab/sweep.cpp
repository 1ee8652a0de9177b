#include "addnorm/lab/sweep.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cmath>
#include <memory>
#include <system_error>
#include <thread>

#include "addnorm/base/error.h"
#include "addnorm/base/files.h"
#include "addnorm/base/text.h"
#include "addnorm/lab/child.h"
#include "addnorm/lab/words.h"

namespace addnorm::lab {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

// Held as long as this program or a child of it lives: children inherit the descriptor on purpose, so
// that a killed sweep whose runs still go on is not doubled.
class FolderLock {
 public:
  explicit FolderLock(const fs::path& folder) {
    const fs::path file = folder / ".lock";
    descriptor_ = ::open(file.c_str(), O_RDWR | O_CREAT, 0644);
    if (descriptor_ < 0) {
      const std::error_code problem(errno, std::generic_category());
      fail_system(file.string(), "expected to create it, got: " + problem.message() + "; " +
                                     remedy(problem.value(), "try another --run"));
    }
    // The runs of a sweep that was just killed save and end first.
    bool held = ::flock(descriptor_, LOCK_EX | LOCK_NB) == 0;
    for (int wait = 0; !held && wait < 100; ++wait) {
      std::this_thread::sleep_for(std::chrono::milliseconds(30));
      held = ::flock(descriptor_, LOCK_EX | LOCK_NB) == 0;
    }
    if (!held) {
      ::close(descriptor_);
      fail_input(
          folder.string(),
          "expected a folder that no sweep is working on, got one in use; wait for it, or take "
          "another --run");
    }
  }
  ~FolderLock() { ::close(descriptor_); }
  FolderLock(const FolderLock&) = delete;
  FolderLock& operator=(const FolderLock&) = delete;

 private:
  int descriptor_;
};

bool has_checkpoint(const fs::path& run, int64_t at_least) {
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator(run / "checkpoints", ignored)) {
    const std::string name = entry.path().filename().string();
    if (!fs::exists(entry.path() / "DONE", ignored)) continue;
    if (std::atoll(name.c_str()) >= at_least) return true;
  }
  return false;
}

struct Task {
  enum class State { waiting, running, finished, interrupted };
  size_t cell = 0;
  int64_t seed = 0;
  int round = 0;
  State state = State::waiting;
  std::string run;  // relative folder
  std::unique_ptr<Child> child;
  Clock::time_point asked{};  // to stop
  int64_t first_step = 0;     // where this call found it
};

class Sweep {
 public:
  Sweep(const SweepPlan& plan, const SweepOptions& options)
      : plan_(plan), options_(options), folder_(fs::absolute(options.folder)) {
    make_folder();
    lock_ = std::make_unique<FolderLock>(folder_);
    make_tasks();
    keep_finished();
    write();
  }

  SweepEnd run() {
    start_ = Clock::now();
    Clock::time_point ticked = start_ - std::chrono::seconds(2);
    for (;;) {
      reap();
      const int stop = options_.stop == nullptr ? 0 : options_.stop->load();
      if (stop > 0) end_.stopped = true;
      if (options_.budget && seconds_since(start_) >= *options_.budget && unfinished()) {
        end_.out_of_budget = true;
      }
      if (end_.stopped || end_.out_of_budget) {
        halt(stop > 1);
        if (!any_running()) break;
      } else {
        start_more();
        if (!any_running()) break;
      }
      if (options_.tick && seconds_since(ticked) >= 1) {
        options_.tick(progress());
        ticked = Clock::now();
      }
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
    }
    if (options_.tick) options_.tick(progress());
    for (const Task& task : tasks_)
      end_.interrupted += task.state == Task::State::interrupted ? 1 : 0;
    return end_;
  }

 private:
  SweepResult& result() { return end_.result; }

  void say(const std::string& text) const {
    if (options_.message) options_.message(text);
  }

  void make_folder() {
    std::error_code problem;
    if (fs::exists(folder_) && !fs::exists(folder_ / "sweep.json") &&
        !fs::exists(folder_ / ".lock") && !(fs::is_directory(folder_) && fs::is_empty(folder_))) {
      fail_input(
          options_.folder.string(),
          "expected an empty folder or one of a sweep, got something else; take another --run");
    }
    fs::create_directories(folder_ / "runs", problem);
    if (problem) {
      fail_system((folder_ / "runs").string(), "expected to create it, got: " + problem.message() +
                                                   "; " +
                                                   remedy(problem.value(), "try another --run"));
    }
  }

  // Seed by seed; in a round the longest runs first, so that the cores come out even.
  void make_tasks() {
    result().specification = plan_.specification.string();
    result().catalogue = plan_.catalogue;
    result().planned_seeds = plan_.seeds;
    std::vector<size_t> order;
    for (size_t i = 0; i < plan_.cells.size(); ++i) {
      result().cells.push_back(plan_.cells[i].record);
      order.push_back(i);
    }
    std::stable_sort(order.begin(), order.end(),
                     [&](size_t a, size_t b) { return plan_.cells[a].cost > plan_.cells[b].cost; });
    for (int round = 0; round < plan_.seeds; ++round) {
      for (const size_t cell : order) {
        Task task;
        task.cell = cell;
        task.seed = plan_.first_seed + round;
        task.round = round;
        task.run = "runs/" + plan_.cells[cell].folder + "/seed-" + std::to_string(task.seed);
        tasks_.push_back(std::move(task));
      }
    }
  }

  // Results of an earlier call; failed runs are tried again.
  void keep_finished() {
    const fs::path record = folder_ / "sweep.json";
    SweepResult earlier;
    if (fs::exists(record)) earlier = parse_sweep(read_file(record), record.string());
    size_t strangers = 0;
    for (const CellResult& cell : earlier.cells) {
      for (const SeedResult& seed : cell.seeds) {
        const auto task = std::find_if(tasks_.begin(), tasks_.end(),
                                       [&](const Task& t) { return t.run == seed.run; });
        if (task == tasks_.end()) {
          ++strangers;
        } else if (seed.outcome != Outcome::failed && fs::exists(folder_ / seed.run)) {
          task->state = Task::State::finished;
          task->first_step = plan_.cells[task->cell].steps;
          result().cells[task->cell].seeds.push_back(seed);
          ++end_.kept;
        }
      }
    }
    if (end_.kept > 0) result().unigram_entropy = earlier.unigram_entropy;
    for (Task& task : tasks_) {  // finished, but the sweep was killed before it wrote so
      const int64_t steps = plan_.cells[task.cell].steps;
      const fs::path run = folder_ / task.run;
      if (task.state == Task::State::waiting && last_step(run / "metrics.jsonl") >= steps &&
          has_checkpoint(run, steps)) {
        task.first_step = steps;
        finish(task, 0);
        ++end_.kept;
      }
    }
    if (end_.kept > 0) say(fmt::format("{} finished runs are kept", end_.kept));
    if (strangers > 0) {
      say(fmt::format("{} earlier runs in this folder are of other settings and are left out",
                      strangers));
    }
  }

  bool any_running() const {
    return std::any_of(tasks_.begin(), tasks_.end(),
                       [](const Task& task) { return task.state == Task::State::running; });
  }
  bool unfinished() const {
    return std::any_of(tasks_.begin(), tasks_.end(),
                       [](const Task& task) { return task.state != Task::State::finished; });
  }

  void start_more() {
    auto running = std::count_if(tasks_.begin(), tasks_.end(), [](const Task& task) {
      return task.state == Task::State::running;
    });
    int open_round = plan_.seeds;  // the first that is not finished
    for (const Task& task : tasks_) {
      if (task.state != Task::State::finished) open_round = std::min(open_round, task.round);
    }
    for (Task& task : tasks_) {
      if (running >= options_.workers) return;
      if (task.state != Task::State::waiting) continue;
      if (options_.budget && task.round > open_round) return;
      start(task);
      ++running;
    }
  }

  void start(Task& task) {
    const PlannedCell& cell = plan_.cells[task.cell];
    const fs::path run = folder_ / task.run;
    std::vector<std::string> arguments{options_.program.string()};
    task.first_step = 0;
    if (fs::exists(run) && has_checkpoint(run, 0)) {
      task.first_step = last_step(run / "metrics.jsonl");
      arguments.insert(arguments.end(), {"resume", run.string(), "--train.threads", "1"});
      say(fmt::format("{}, seed {}: going on from step {}", label(task), task.seed,
                      task.first_step));
    } else {
      fs::remove_all(run);  // nothing to go on from
      arguments.insert(arguments.end(),
                       {"train", plan_.specification.string(), "--run", run.string()});
      for (const auto& [key, value] : cell.cell.settings) {
        arguments.push_back("--" + key);
        arguments.push_back(value);
      }
      arguments.insert(arguments.end(),  // the last of a key counts
                       {"--train.threads", "1", "--train.seed", std::to_string(task.seed)});
    }
    if (!plan_.catalogue.empty()) {
      arguments.insert(arguments.end(), {"--catalogue", plan_.catalogue});
    }
    fs::create_directories(run.parent_path());
    fs::remove(log_of(task));
    try {
      task.child = std::make_unique<Child>(arguments, log_of(task));
      task.state = Task::State::running;
    } catch (const Error& problem) {
      write_file_atomic(log_of(task), problem.what());
      finish(task, 4);
    }
  }

  void reap() {
    for (Task& task : tasks_) {
      if (task.state != Task::State::running) continue;
      const auto code = task.child->poll();
      if (!code) continue;
      task.child.reset();
      const bool whole =
          last_step(folder_ / task.run / "metrics.jsonl") >= plan_.cells[task.cell].steps;
      const bool was_asked = task.asked != Clock::time_point{};
      if ((*code == 0 && !whole) || (was_asked && *code > 128)) {
        task.state = Task::State::interrupted;
      } else {
        finish(task, *code);
      }
    }
  }

  void finish(Task& task, int code) {
    std::optional<double> h1;
    SeedResult seed = judge_run(folder_ / task.run, task.seed, code, &h1);
    seed.run = task.run;
    if (h1 && !result().unigram_entropy) result().unigram_entropy = h1;
    auto& seeds = result().cells[task.cell].seeds;
    seeds.insert(std::upper_bound(seeds.begin(), seeds.end(), seed,
                                  [](const auto& a, const auto& b) { return a.seed < b.seed; }),
                 seed);
    task.state = Task::State::finished;
    write();
    std::string text =
        fmt::format("{}, seed {}: {}", label(task), task.seed, outcome_name(seed.outcome));
    if (std::isfinite(seed.val_loss))
      text += fmt::format(", validation loss {:.3f}", seed.val_loss);
    if (seed.steps > 0) text += fmt::format(", {} updates in {:.1f} s", seed.steps, seed.seconds);
    if (seed.outcome == Outcome::failed) text += ": " + last_lines(log_of(task), 1);
    say(text);
  }

  void halt(bool at_once) {
    for (Task& task : tasks_) {
      if (task.state != Task::State::running) continue;
      if (task.asked == Clock::time_point{}) {
        task.asked = Clock::now();
        task.child->interrupt();
      }
      if (at_once || seconds_since(task.asked) > options_.grace) task.child->kill();
    }
  }

  void write() { write_file_atomic(folder_ / "sweep.json", sweep_json(result())); }

  fs::path log_of(const Task& task) const { return folder_ / (task.run + ".log"); }
  std::string label(const Task& task) const { return cell_label(end_.result, task.cell); }

  Progress progress() const {
    Progress now;
    now.elapsed = seconds_since(start_);
    now.total = static_cast<int>(tasks_.size());
    double done = 0, left = 0;  // work of this call
    for (const Task& task : tasks_) {
      const PlannedCell& cell = plan_.cells[task.cell];
      const auto share_of = [&](int64_t step) {
        return cell.steps > 0 ? static_cast<double>(step) / static_cast<double>(cell.steps) : 0;
      };
      double share = 0;
      if (task.state == Task::State::finished) {
        ++now.finished;
        share = 1;
      } else if (task.state == Task::State::running) {
        const int64_t step = last_step(folder_ / task.run / "metrics.jsonl");
        now.active.push_back({label(task), task.seed, step, cell.steps});
        share = share_of(step);
      }
      left += (1 - share) * cell.cost;
      done += std::max(0.0, share - share_of(task.first_step)) * cell.cost;
    }
    if (done > 0 && now.elapsed > 2) now.remaining = left / done * now.elapsed;
    if (options_.budget && now.remaining >= 0) {
      now.remaining = std::min(now.remaining, std::max(0.0, *options_.budget - now.elapsed));
    }
    return now;
  }

  const SweepPlan& plan_;
  const SweepOptions& options_;
  fs::path folder_;
  std::unique_ptr<FolderLock> lock_;
  std::vector<Task> tasks_;
  SweepEnd end_;
  Clock::time_point start_;
};

}  // namespace

SweepEnd run_sweep(const SweepPlan& plan, const SweepOptions& options) {
  return Sweep(plan, options).run();
}

SeedResult judge_run(const std::filesystem::path& run, int64_t seed, int exit_code,
                     std::optional<double>* unigram_entropy) {
  SeedResult result;
  result.seed = seed;
  Metrics metrics;
  try {
    metrics = read_metrics(run / "metrics.jsonl");
  } catch (const Error&) {
    return result;  // failed: what it wrote cannot be read
  }
  result.steps = metrics.last_step();
  result.train_loss = mean_loss(metrics.steps, result.steps);
  if (!metrics.evals.empty()) result.val_loss = metrics.evals.back().val_loss;
  if (!metrics.steps.empty()) result.seconds = metrics.steps.back().seconds;
  if (unigram_entropy != nullptr) *unigram_entropy = metrics.unigram_entropy;
  if (exit_code == static_cast<int>(Failure::nonfinite)) {
    result.outcome = Outcome::diverged;
  } else if (exit_code != 0) {
    result.outcome = Outcome::failed;
  } else {
    result.outcome = judge(metrics, metrics.unigram_entropy);
  }
  return result;
}

}  // namespace addnorm::lab
