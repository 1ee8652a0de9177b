#include "addnorm/lab/run.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "addnorm/base/files.h"
#include "addnorm/base/text.h"

namespace addnorm::lab {
namespace {

// On one line.
std::string said(const std::string& name, const std::string& text) {
  if (!name.empty()) return name;
  std::vector<std::string> lines;
  for (const std::string& line : split(text, '\n')) {
    if (!trim(line).empty()) lines.push_back(trim(line));
  }
  return join(lines, "; ");
}

}  // namespace

bool is_run(const std::filesystem::path& folder) {
  return fs::is_regular_file(folder / "spec.toml");
}
bool is_sweep(const std::filesystem::path& folder) {
  return fs::is_regular_file(folder / "sweep.json");
}

std::vector<std::string> changed_wirings(const model::Specification& specification) {
  std::vector<std::string> lines;
  for (const Finding& finding : specification.findings) {
    if (finding.where.ends_with("wiring_name")) lines.push_back(finding.message);
  }
  return lines;
}

std::vector<std::string> runs_below(const fs::path& sweep) {
  std::vector<std::string> runs;
  std::error_code ignored;
  for (auto at = fs::recursive_directory_iterator(sweep / "runs", ignored);
       at != fs::recursive_directory_iterator(); at.increment(ignored)) {
    if (at.depth() >= 1) at.disable_recursion_pending();
    if (at.depth() == 1 && is_run(at->path())) runs.push_back(at->path().string());
  }
  std::sort(runs.begin(), runs.end());
  return runs;
}

RunRecord read_run(const std::filesystem::path& folder, const formula::Catalogue& catalogue) {
  RunRecord run;
  run.folder = folder;
  const fs::path file = folder / "spec.toml";
  run.specification_text = read_file(file);
  run.specification = model::parse_resolved(run.specification_text, file.string(), {},
                                            model::Needs::training, catalogue);
  run.metrics = read_metrics(folder / "metrics.jsonl");
  if (fs::exists(folder / "env.json")) run.environment = read_file(folder / "env.json");
  return run;
}

std::string layers_text(const model::ModelSection& model) {
  if (model.kind != "encoder-decoder") return std::to_string(model.layers);
  return fmt::format("{}+{}", model.encoder_layers, model.decoder_layers);
}

std::string wiring_text(const model::ModelSection& model) {
  const std::string all = said(model.wiring_name, model.wiring);
  const std::string encoder = said(model.encoder_wiring_name, model.encoder_wiring);
  const std::string decoder = said(model.decoder_wiring_name, model.decoder_wiring);
  if (encoder.empty() && decoder.empty()) return all;
  const std::string first = encoder.empty() ? all : encoder;
  const std::string second = decoder.empty() ? all : decoder;
  return first == second ? first : first + " | " + second;
}

std::string run_question(const RunRecord& run) {
  return fmt::format("Does {} with {} layers learn this text?",
                     wiring_text(run.specification.model), layers_text(run.specification.model));
}

std::string run_answer(const RunRecord& run) {
  const Metrics& metrics = run.metrics;
  const int64_t last = metrics.last_step();
  if (metrics.absent) {
    return "The run's metrics.jsonl is missing, so nothing is known about its training. Put the "
           "file "
           "back from a copy.";
  }
  if (last == 0) return "No update has been made yet. There is nothing to judge.";
  const double m = mean_loss(metrics.steps, last);
  const Outcome outcome = run.outcome();
  std::string text =
      fmt::format("After {} of {} updates it {}: ", last, run.planned_steps(),
                  run.ended() || outcome == Outcome::diverged
                      ? fmt::format("has {}", outcome_name(outcome))
                      : "has not ended, so far " + std::string(outcome_name(outcome)));
  if (outcome == Outcome::undecided)
    text =
        fmt::format("After {} of {} updates the outcome is undecided: ", last, run.planned_steps());
  text +=
      std::isfinite(m)
          ? fmt::format("the mean training loss of the last 20 updates is {:.3f} nat per token", m)
          : "a number of it is not finite";
  if (metrics.unigram_entropy) {
    text += fmt::format(", where knowing token frequencies alone gives {:.3f}",
                        *metrics.unigram_entropy);
  }
  text += ".";
  if (!metrics.evals.empty()) {
    text += fmt::format(" The validation loss after {} updates is {:.3f} (perplexity {:.2f}).",
                        metrics.evals.back().step, metrics.evals.back().val_loss,
                        std::exp(metrics.evals.back().val_loss));
  } else {
    text += " It has no validation loss yet.";
  }
  return text;
}

}  // namespace addnorm::lab
