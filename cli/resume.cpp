// addnorm resume: a run goes on, bit for bit.
#include <memory>
#include <optional>

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
  std::string run, extend, catalogue;
  bool new_text = false;
  std::optional<int64_t> steps;
};

int run(const Options& options, const Invocation& invocation) {
  refuse_sweep(options.run, "resume");
  train::ResumeOptions resume;
  resume.run = options.run;
  resume.overrides = invocation.overrides;
  resume.steps = options.steps;
  resume.extend = options.extend;
  resume.new_text = options.new_text;
  resume.program = "addnorm " + version();
  Progress progress;
  return tell(
      train::resume(resume, chosen_catalogue(options.catalogue), {progress, watch_interrupts()},
                    [&](const Findings& findings) { log_findings(findings, invocation.verbose); }));
}

const Register verb(
    {.name = "resume",
     .summary = "go on with a run from its newest checkpoint",
     .example = "addnorm resume runs/spec-1\n"
                "addnorm resume runs/spec-1 --steps 2000 --extend rewarm",
     .order = 51,
     .takes_overrides = true,
     .setup = [](Arguments& arguments) -> Action {
       auto options = std::make_shared<Options>();
       arguments.positional("RUN", options->run, "the run's folder");
       arguments.option("--steps", options->steps, "a later end than the planned one");
       arguments.choice("--extend", options->extend, {"keep", "rewarm", "stretch"},
                        "the learning rate of the added steps; without it the choices are listed");
       arguments.flag("--new-text", options->new_text,
                      "go on although the text has changed since the run was trained on it");
       arguments.catalogue(options->catalogue);
       return [options](const Invocation& invocation) { return run(*options, invocation); };
     }});

}  // namespace
}  // namespace addnorm::cli
