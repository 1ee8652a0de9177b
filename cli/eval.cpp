// addnorm eval: the loss of a model on text, weighted by tokens.
#include <fmt/format.h>

#include <memory>

#include "addnorm/base/text.h"
#include "addnorm/train/evaluation_job.h"
#include "addnorm/train/metrics.h"
#include "output.h"
#include "specification.h"
#include "verb.h"

namespace addnorm::cli {
namespace {

struct Options {
  train::EvaluationJob job;
  std::string catalogue;
};

int run(const Options& options, const Invocation& invocation) {
  train::EvaluationJob own = options.job;
  refuse_sweep(own.model, "eval");
  own.overrides = invocation.overrides;
  const train::Evaluation result = train::evaluate(
      own, chosen_catalogue(options.catalogue),
      [&](const Findings& findings) { log_findings(findings, invocation.verbose); });
  if (result.tokens == 0) {
    fail_input("eval", "expected at least one target to judge, got none; try a longer text");
  }
  if (invocation.json) {
    const auto number = [](double value) { return train::json_number(value); };
    print_line(
        fmt::format("{{\"sum\":{},\"tokens\":{},\"loss\":{},\"perplexity\":{},\"bytes\":{},"
                    "\"bits_per_byte\":{}}}",
                    number(result.sum), result.tokens, number(result.loss()),
                    number(result.perplexity()), result.bytes, number(result.bits_per_byte())));
  } else {
    print_line(fmt::format("loss {:.7f} nat per token: sum {:.7f} over {} tokens", result.loss(),
                           result.sum, result.tokens));
    print_line(fmt::format("perplexity {:.7f}", result.perplexity()));
    if (result.bytes > 0) {
      print_line(
          fmt::format("{:.7f} bits per byte over {} bytes", result.bits_per_byte(), result.bytes));
    }
  }
  return 0;
}

const Register verb({.name = "eval",
                     .summary = "loss, perplexity and bits per byte of a model on text",
                     .example = "addnorm eval runs/spec-1\n"
                                "addnorm eval spec.toml --weights w.safetensors --data other.txt",
                     .order = 52,
                     .takes_overrides = true,
                     .takes_json = true,
                     .setup = [](Arguments& arguments) -> Action {
                       auto options = std::make_shared<Options>();
                       train::EvaluationJob* job = &options->job;
                       arguments.positional("RUN|SPEC", job->model,
                                            "a run's folder (its newest checkpoint), or a "
                                            "specification");
                       arguments.option("--weights", job->weights,
                                        "these weights instead, safetensors", "FILE");
                       arguments.list("--data", job->data,
                                      "text to evaluate on instead of the validation part; pairs: "
                                      "a tab-separated file",
                                      "FILE");
                       arguments.catalogue(options->catalogue);
                       return [options](const Invocation& invocation) {
                         return run(*options, invocation);
                       };
                     }});

}  // namespace
}  // namespace addnorm::cli
