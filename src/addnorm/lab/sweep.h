// Runs a grid of trainings as child programs, side by side on the allowed cores with one thread each,
// and records what became of them. What is finished is kept: the same sweep started again in the same
// folder goes on.
//
//   FOLDER/sweep.json              rewritten after every finished run
//   FOLDER/runs/CELL/seed-N/       the run folder of the training verb
//   FOLDER/runs/CELL/seed-N.log    what it printed
#pragma once

#include <atomic>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "addnorm/lab/grid.h"
#include "addnorm/lab/record.h"

namespace addnorm::lab {

struct PlannedCell {
  Cell cell;           // flags for the child
  CellResult record;   // its keys
  std::string folder;  // name below runs/; a function of all settings, so that it is found again
  int64_t steps = 0;
  double cost = 1;  // expected work of a run, in any unit
};

struct SweepPlan {
  std::filesystem::path specification;  // or a text
  std::string catalogue;                // file of the user's own wirings, "" for none
  std::vector<PlannedCell> cells;
  int seeds = 3;
  int64_t first_seed = 1;
};

struct ActiveRun {
  std::string label;
  int64_t seed = 0;
  int64_t step = 0, steps = 0;
};

struct Progress {
  int finished = 0, total = 0;  // runs
  std::vector<ActiveRun> active;
  double elapsed = 0, remaining = -1;  // seconds; -1: not known yet
};

struct SweepOptions {
  std::filesystem::path program;  // what the children are
  std::filesystem::path folder;   // made where it does not exist
  int workers = 1;
  std::optional<double> budget;  // seconds from the start of this call
  double grace = 20;             // seconds between asking a child to stop and killing it
  // 1: stop the children, keep what is finished; 2 and more: kill them.
  const std::atomic<int>* stop = nullptr;
  std::function<void(const Progress&)> tick;        // about once a second
  std::function<void(const std::string&)> message;  // one line when something happens
};

struct SweepEnd {
  SweepResult result;
  int kept = 0;         // runs that were finished before
  int interrupted = 0;  // stopped by the budget or by the user; they go on next time
  bool out_of_budget = false, stopped = false;
};

// Seeds go round: seed k of every cell comes before seed k+1 of any. With a budget, seed k+1 starts
// only when seed k of every cell has finished, so that cells differ by at most one finished seed
// whenever it is spent. A run that fails is recorded as failed and costs only itself; it is tried
// again by a later call. Throws Error where the folder belongs to something else or to a sweep that
// is still running.
SweepEnd run_sweep(const SweepPlan& plan, const SweepOptions& options);

// What a finished run folder says. `exit_code` of its program: 0, 3 (non-finite: diverged), else
// failed. The unigram entropy comes from the run's own records.
SeedResult judge_run(const std::filesystem::path& run, int64_t seed, int exit_code,
                     std::optional<double>* unigram_entropy = nullptr);

}  // namespace addnorm::lab
