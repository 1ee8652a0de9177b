// addnorm train: a new run from a specification or from a text alone.
#include <fmt/format.h>

#include <filesystem>
#include <memory>

#include "addnorm/checkpoint/run_state.h"
#include "addnorm/lab/run.h"
#include "addnorm/train/session.h"
#include "interrupt.h"
#include "output.h"
#include "progress.h"
#include "specification.h"
#include "trained.h"
#include "verb.h"

namespace addnorm::cli {
namespace {

struct Options {
  std::string spec, run, weights, catalogue;
  bool dry_run = false;
};

// The files of a run are no text to learn from.
void refuse_run(const std::string& path) {
  if (lab::is_run(path)) {
    fail_input(path,
               "expected a specification or a text, got the folder of a run; try addnorm "
               "resume " +
                   path + ", or addnorm train " + path + "/spec.toml");
  }
  if (lab::is_sweep(path)) {
    fail_input(path,
               "expected a specification or a text, got the folder of a sweep; try addnorm "
               "report " +
                   path);
  }
}

int run(const Options& options, const Invocation& invocation) {
  const formula::Catalogue catalogue = chosen_catalogue(options.catalogue);
  const std::filesystem::path file = options.spec;
  refuse_run(options.spec);
  if (!options.run.empty() && !options.dry_run) checkpoint::require_new(options.run);
  const model::Specification specification =
      model::for_training(file, invocation.overrides, catalogue);
  train::Plan plan = train::make_plan(specification, catalogue);
  log_findings(plan.findings, invocation.verbose);
  if (options.dry_run) {
    print_line(train::describe(plan));
    return 0;
  }
  log(train::describe(plan));
  train::StartOptions start;
  start.run = options.run;
  start.name = file.stem().string().empty() ? "run" : file.stem().string();
  start.weights = options.weights;
  start.program = "addnorm " + version();
  const auto* interrupted = watch_interrupts();  // before any thread computes
  Progress progress;
  return tell(train::start(std::move(plan), start, {progress, interrupted}));
}

const Register verb(
    {.name = "train",
     .summary = "train a model from a specification, or from a text alone",
     .example = "addnorm train my.txt\n"
                "addnorm train spec.toml --model.wiring \"x = norm(2*x + norm(f(norm(x))))\" "
                "--train.steps 200",
     .order = 50,
     .takes_overrides = true,
     .setup = [](Arguments& arguments) -> Action {
       auto options = std::make_shared<Options>();
       arguments.positional("SPEC|TEXT", options->spec,
                            "a specification (*.toml), or a text file or folder to learn from");
       arguments.option("--run", options->run, "the run's folder, a new one (runs/NAME-NUMBER)",
                        "DIR");
       arguments.option("--weights", options->weights, "start from these weights, safetensors",
                        "FILE");
       arguments.catalogue(options->catalogue);
       arguments.flag("--dry-run", options->dry_run,
                      "only print parameters, memory, FLOPs, entropies and warm-up");
       return [options](const Invocation& invocation) { return run(*options, invocation); };
     }});

}  // namespace
}  // namespace addnorm::cli
