// `addnorm sweep`: many trainings side by side, and what became of them.
#include "addnorm/lab/sweep.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <csignal>
#include <memory>

#include "addnorm/base/text.h"
#include "addnorm/base/threads.h"
#include "addnorm/lab/duration.h"
#include "addnorm/lab/plan.h"
#include "addnorm/lab/run.h"
#include "addnorm/lab/words.h"
#include "addnorm/report/report.h"
#include "output.h"
#include "specification.h"
#include "verb.h"

namespace addnorm::cli {
namespace {

namespace fs = std::filesystem;

struct Options {
  std::string specification, run, budget, catalogue;
  std::vector<std::string> wirings, cells;
  int64_t seeds = 3, workers = 0;
};

std::atomic<int> interrupts = 0;
static_assert(std::atomic<int>::is_always_lock_free);
extern "C" void count_interrupt(int) { interrupts.fetch_add(1); }

// While it lives, SIGINT and SIGTERM are counted instead of ending the program.
class Interrupts {
 public:
  Interrupts() {
    struct sigaction action{};
    action.sa_handler = count_interrupt;
    action.sa_flags = SA_RESTART;
    sigaction(SIGINT, &action, &before_int_);
    sigaction(SIGTERM, &action, &before_term_);
  }
  ~Interrupts() {
    sigaction(SIGINT, &before_int_, nullptr);
    sigaction(SIGTERM, &before_term_, nullptr);
  }
  Interrupts(const Interrupts&) = delete;
  Interrupts& operator=(const Interrupts&) = delete;

 private:
  struct sigaction before_int_{}, before_term_{};
};

fs::path folder_for(const Options& options) {
  if (!options.run.empty()) return options.run;
  const std::string stem = fs::path(options.specification).stem().string();
  for (int number = 1;; ++number) {
    fs::path folder = fs::path("runs") / fmt::format("{}-sweep-{}", stem, number);
    if (!fs::exists(folder)) return folder;
  }
}

std::string progress_line(const lab::Progress& progress) {
  std::string line = fmt::format("{}/{} runs, {}", progress.finished, progress.total,
                                 lab::duration_text(progress.elapsed));
  if (progress.remaining >= 0)
    line += ", about " + lab::duration_text(progress.remaining) + " left";
  for (const lab::ActiveRun& run : progress.active) {
    line += fmt::format(" | {} seed {}: {}/{}", run.label, run.seed, run.step, run.steps);
  }
  return line;
}

// A line that rewrites itself on a terminal; elsewhere one line every half minute.
class ProgressPrinter {
 public:
  void tick(const lab::Progress& progress) {
    const std::string line = progress_line(progress);
    if (terminal_) {
      const std::string shown = "\r\x1b[K" + line.substr(0, 150);
      if (::write(2, shown.data(), shown.size()) < 0) terminal_ = false;
      open_ = true;
    } else if (ticks_++ % 30 == 0) {
      log(line);
    }
  }
  void message(const std::string& text) {
    clear();
    log(text);
  }
  void clear() {
    if (open_) log("");
    open_ = false;
  }

 private:
  bool terminal_ = ::isatty(2) == 1;
  bool open_ = false;
  int64_t ticks_ = 0;
};

void say_how_to_go_on(const Options& options, const fs::path& folder, const Invocation& invocation,
                      const lab::SweepEnd& end) {
  std::string command = "addnorm sweep " + lab::shell_quoted(options.specification);
  for (const auto& wiring : options.wirings) command += " --wiring " + lab::shell_quoted(wiring);
  for (const auto& [key, value] : invocation.overrides) {
    command += " --" + key + " " + lab::shell_quoted(value);
  }
  for (const auto& cell : options.cells) command += " --cell " + lab::shell_quoted(cell);
  if (!options.catalogue.empty()) {
    command += " --catalogue " + lab::shell_quoted(options.catalogue);
  }
  command += fmt::format(" --seeds {} --run {}", options.seeds, lab::shell_quoted(folder.string()));
  log(fmt::format("{}; {} runs were stopped in the middle. To go on:\n  {}",
                  end.stopped ? "stopped" : "the budget is spent", end.interrupted, command));
}

int run(const Options& options, const Invocation& invocation) {
  if (options.seeds < 1 || options.seeds > 10000) {
    fail_input("--seeds", fmt::format("expected 1 to 10000, got {}", options.seeds));
  }
  if (lab::is_sweep(options.specification) || lab::is_run(options.specification)) {
    fail_input(options.specification,
               "expected a specification or a text, got the folder of a finished or running " +
                   std::string(lab::is_sweep(options.specification)
                                   ? "sweep; it goes on with its first command"
                                   : "run; try its spec.toml"));
  }
  const formula::Catalogue catalogue = chosen_catalogue(options.catalogue);
  lab::GridRequest request{options.wirings, invocation.overrides, options.cells};
  auto plan = lab::plan_sweep(options.specification, lab::make_grid(request),
                              static_cast<int>(options.seeds), catalogue);
  plan.catalogue = options.catalogue;
  const fs::path folder = folder_for(options);
  const CoreCount cores = allowed_cores();
  lab::SweepOptions how;
  how.program = program_path();
  how.folder = folder;
  how.workers = options.workers > 0 ? static_cast<int>(options.workers) : cores.cores;
  if (!options.budget.empty()) how.budget = lab::parse_duration(options.budget, "--budget");
  how.stop = &interrupts;
  ProgressPrinter printer;
  how.tick = [&](const lab::Progress& progress) { printer.tick(progress); };
  how.message = [&](const std::string& text) { printer.message(text); };
  log(fmt::format("{} cells, {} seeds, {} runs at a time with one thread each (cores: {}), in {}",
                  plan.cells.size(), plan.seeds, how.workers, cores.source, folder.string()));

  lab::SweepEnd end;
  {
    const Interrupts counted;
    end = lab::run_sweep(plan, how);
  }
  printer.clear();
  const fs::path page = report::write_report(folder, catalogue, version());
  if (invocation.json) {
    print(lab::sweep_json(end.result));
  } else {
    print_line(lab::question(end.result));
    print_line(lab::answer(end.result));
    print_line("");
    print(lab::sweep_table(end.result));
    print_line("");
    print_line("report: " + page.string());
  }
  if (end.stopped || end.out_of_budget) say_how_to_go_on(options, folder, invocation, end);
  return 0;
}

const Register verb(
    {.name = "sweep",
     .summary = "train a grid of wirings and settings side by side, several seeds each",
     .example = "addnorm sweep spec.toml --wiring post-ln --wiring pre-ln "
                "--train.warmup 0,100 --seeds 3 --budget 3m\n"
                "addnorm sweep spec.toml --wiring 'x = norm(2*x + f(x))' --train.lr 1e-3,3e-3\n"
                "addnorm sweep spec.toml --wiring post-ln "
                "--cell \"wiring=deepnorm model.layers=12\" --run runs/mine",
     .order = 60,
     .takes_overrides = true,
     .takes_json = true,
     .setup = [](Arguments& arguments) -> Action {
       auto o = std::make_shared<Options>();
       arguments.positional(
           "SPEC|TEXT", o->specification,
           "the specification that all cells share, or a text as `train` takes it");
       arguments.list("--wiring", o->wirings, "a wiring of the grid, name or formula", "WIRING");
       arguments.list("--cell", o->cells,
                      "one more cell: \"wiring=NAME SECTION.KEY=VALUE ..\"; a formula with "
                      "blanks in quotes",
                      "CELL");
       arguments.option("--seeds", o->seeds, "seeds of every cell");
       arguments.option("--budget", o->budget,
                        "stop after this time, every cell with the same number of seeds +-1",
                        "TIME");
       arguments.option("--run", o->run, "folder of the sweep; an interrupted one goes on", "DIR");
       arguments.catalogue(o->catalogue);
       arguments.option("--workers", o->workers, "runs at a time (0: the allowed cores)");
       return [o](const Invocation& invocation) { return run(*o, invocation); };
     }});

}  // namespace
}  // namespace addnorm::cli
