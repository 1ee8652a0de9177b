#include "addnorm/train/recorder.h"

#include <fmt/format.h>

#include <algorithm>

namespace addnorm::train {
namespace {

std::string seconds_text(double seconds) {
  return seconds < 1 ? fmt::format("{:.3g} ms", 1000 * seconds) : fmt::format("{:.3g} s", seconds);
}

}  // namespace

Recorder::Recorder(const Run& run, checkpoint::TrainState& state)
    : run_(run),
      state_(state),
      metrics_(run.folder / "metrics.jsonl"),
      seconds_before_(state.seconds),
      step_before_(state.step),
      tokens_before_(state.tokens) {}

void Recorder::start(const FirstLoss& first) {
  Line line("step");
  line.integer("step", 0)
      .number("loss", first.loss)
      .number("clipped", 0)
      .integer("skipped_steps", 0)
      .integer("nonfinite_steps", 0)
      .integer("tokens", 0)
      .number("seconds", seconds());
  write(line);
  if (!first.warning.empty()) note(0, first.warning);
}

void Recorder::begin_step(bool measured) {
  step_begin_ = Clock::now();
  measured_ = measured;
  engine_seconds_ = 0;
}

// Rates of the time spent in steps; the time left also counts evaluations and checkpoints.
void Recorder::count_time(StepReport& report) {
  const int64_t made = state_.step - step_before_;
  double steps = 1;
  double seconds = step_seconds_;
  auto tokens = static_cast<double>(state_.tokens - tokens_before_);
  double elapsed = step_seconds_;
  if (made == 1) {
    first_end_ = Clock::now();
    first_tokens_ = state_.tokens;
  } else {
    stepping_seconds_ += step_seconds_;
    steps = static_cast<double>(made - 1);
    seconds = stepping_seconds_;
    tokens = static_cast<double>(state_.tokens - first_tokens_);
    elapsed = since(first_end_);
  }
  report.steps_per_second = steps / std::max(seconds, 1e-9);
  report.tokens_per_second = tokens / std::max(seconds, 1e-9);
  report.seconds_left = static_cast<double>(report.steps - report.step) * elapsed / steps;
}

void Recorder::step(const StepRecord& record) {
  state_.seconds = seconds();
  step_seconds_ = since(step_begin_);
  // The first step of a session pays for memory and plans, which is no measure of the others.
  if (!measured_ && state_.step > step_before_ + 1) {
    plain_seconds_ += step_seconds_;
    ++plain_steps_;
  }
  Line line("step");
  line.integer("step", state_.step)
      .number("loss", record.loss)
      .number("lr", record.lr)
      .number("grad_norm", record.grad_norm)
      .number("clip", record.refused ? 0 : record.clip)
      .number("clipped", record.clipped)
      .integer("skipped_steps", state_.skipped_steps)
      .integer("nonfinite_steps", state_.nonfinite_steps)
      .integer("tokens", state_.tokens)
      .number("seconds", state_.seconds);
  write(line);

  StepReport report;
  report.step = state_.step;
  report.steps = run_.settings.steps;
  report.loss = record.loss;
  report.grad_norm = record.grad_norm;
  report.lr = record.lr;
  report.tokens = state_.tokens;
  report.seconds = state_.seconds;
  count_time(report);
  report.skipped = record.refused;
  run_.reporter.step(report);
}

void Recorder::note(int64_t step, const std::string& text) {
  Line line("note");
  line.integer("step", step).text("text", text);
  write(line);
  run_.reporter.note(fmt::format("step {}: {}", step, text));
}

void Recorder::diagnosis(const Diagnostics& diagnostics) {
  // Without a plain step to compare with, what the engine's own part costs is not known.
  const double plain =
      plain_steps_ > 0 ? plain_seconds_ / static_cast<double>(plain_steps_) : engine_seconds_;
  const double cost = std::max(0.0, step_seconds_ - plain);
  write(diagnostics.line(state_.step, cost));
  if (cost_told_) return;
  cost_told_ = true;
  run_.reporter.note(fmt::format(
      "step {}: measuring per layer and role took {} on top of a step of {}", state_.step,
      cost > 0 ? seconds_text(cost) : "less than steps differ by", seconds_text(plain)));
}

void Recorder::evaluation(const Evaluation& evaluation) {
  Line line("eval");
  line.integer("step", state_.step)
      .number("val_loss", evaluation.loss())
      .number("val_sum", evaluation.sum)
      .integer("val_tokens", evaluation.tokens)
      .number("perplexity", evaluation.perplexity());
  if (evaluation.bytes > 0) line.number("bits_per_byte", evaluation.bits_per_byte());
  write(line);
  if (evaluation.tokens == 0) {
    note(state_.step, "no target counts in the validation part: its loss is 0");
  }
  run_.reporter.evaluated(state_.step, evaluation.loss());
}

void Recorder::save() {
  metrics_.sync();
  state_.seconds = seconds();
  const auto folder =
      checkpoint::save_checkpoint(run_.folder, state_, weight_tensors(run_.engine),
                                  moment_tensors(run_.optimizer, run_.engine.graph()));
  run_.reporter.saved(folder);
}

}  // namespace addnorm::train
