// addnorm generate: text from a run's newest checkpoint.
#include <fmt/format.h>

#include <memory>

#include "addnorm/train/evaluation_job.h"
#include "addnorm/train/sample.h"
#include "output.h"
#include "specification.h"
#include "verb.h"

namespace addnorm::cli {
namespace {

struct Options {
  std::string run, catalogue;
  train::SampleOptions sample;
  int64_t seed = 1;
};

struct Stop {};  // nobody reads any more

int run(Options options, const Invocation& invocation) {
  if (options.sample.tokens < 0) fail_input("--tokens", "expected at least 0 tokens");
  if (!(options.sample.temperature >= 0)) fail_input("--temperature", "expected at least 0");
  options.sample.seed = static_cast<uint64_t>(options.seed);
  refuse_sweep(options.run, "generate");
  const train::TrainedModel model =
      train::load_run(options.run, {}, invocation.overrides, chosen_catalogue(options.catalogue));
  log_findings(model.findings, invocation.verbose);
  options.sample.t = model.t;
  bool begun = false;  // the prompt stands before text, not before an error
  const auto write = [&](const std::string& text) {
    if (!begun) print(options.sample.prompt);
    begun = true;
    print(text);
    if (output_closed()) throw Stop();
  };
  try {
    train::sample(*model.engine, *model.tokenizer, model.task, options.sample, write);
    write("\n");
  } catch (const Stop&) {
  }
  return 0;
}

const Register verb(
    {.name = "generate",
     .summary = "text from a run's newest checkpoint",
     .example =
         "addnorm generate runs/spec-1 --prompt \"In the beginning\" --tokens 300 --temperature "
         "0.8",
     .order = 53,
     .takes_overrides = true,
     .setup = [](Arguments& arguments) -> Action {
       auto options = std::make_shared<Options>();
       arguments.positional("RUN", options->run, "the run's folder");
       arguments.option("--prompt", options->sample.prompt,
                        "what the text begins with; pairs: the source");
       arguments.option("--tokens", options->sample.tokens, "tokens to generate (200)");
       arguments.option("--temperature", options->sample.temperature,
                        "1: as the model says; 0: always the likeliest");
       arguments.option("--seed", options->seed, "of the choices (1)");
       arguments.catalogue(options->catalogue);
       return [options](const Invocation& invocation) { return run(*options, invocation); };
     }});

}  // namespace
}  // namespace addnorm::cli
