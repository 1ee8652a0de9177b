#include "addnorm/train/loop.h"

#include <fmt/format.h>

#include <cmath>
#include <functional>

#include "addnorm/base/error.h"
#include "addnorm/base/random.h"
#include "addnorm/train/clip.h"
#include "addnorm/train/diagnostics.h"
#include "addnorm/train/evaluate.h"
#include "addnorm/train/first_loss.h"
#include "addnorm/train/guard.h"
#include "addnorm/train/recorder.h"

namespace addnorm::train {
namespace {

using checkpoint::TrainState;

// Every `every` steps and after the last one; 0: only after the last one.
bool due(int64_t every, int64_t step, int64_t steps) {
  return step == steps || (every > 0 && step % every == 0);
}

int64_t count_targets(const std::vector<nodes::Batch>& batches) {
  int64_t count = 0;
  for (const nodes::Batch& batch : batches) count += batch.target_count();
  return count;
}

int64_t count_tokens(const std::vector<nodes::Batch>& batches) {
  int64_t count = 0;
  const auto real = [](const std::vector<int32_t>& ids, const std::vector<uint8_t>& mask) {
    int64_t number = 0;
    for (const uint8_t one : mask) number += one != 0;
    return mask.empty() ? static_cast<int64_t>(ids.size()) : number;
  };
  for (const nodes::Batch& batch : batches) {
    count += real(batch.tokens, batch.mask) + real(batch.source, batch.source_mask);
  }
  return count;
}

[[noreturn]] void stop_non_finite(int64_t step, const std::string& why, const Run& run) {
  const auto saved = checkpoint::newest_checkpoint(run.folder);
  throw Error(
      Failure::nonfinite,
      fmt::format("error [step {}] {}; {}", step, why,
                  saved ? "the last good checkpoint is " + saved->string()
                        : std::string("there is no checkpoint yet; try a smaller train.lr or "
                                      "a longer train.warmup")));
}

// A step that is not finite: counted and explained. Returns why the run cannot go on, "" where it can.
std::string refuse(const Run& run, TrainState& state, Recorder& record,
                   std::vector<nodes::Batch>& micro_batches,
                   const std::function<engine::Request(size_t)>& request) {
  ++state.nonfinite_steps;
  run.source.name_origins(state.step + 1, micro_batches);
  const std::string why = explain_non_finite(run.engine, micro_batches, request);
  record.note(state.step + 1, why);
  if (parse_on_nonfinite(run.settings.on_nonfinite) == OnNonFinite::stop) {
    return "loss or gradient not finite: " + why;
  }
  ++state.skipped_steps;
  if (++state.skipped_in_row < most_skipped_in_row) return "";
  return fmt::format("{} steps in a row were skipped: {}", most_skipped_in_row, why);
}

}  // namespace

uint64_t dropout_seed(uint64_t seed, int64_t updates, size_t micro_batch) {
  return Random(seed, "dropout").bits((static_cast<uint64_t>(updates) << 24) + micro_batch);
}

std::vector<checkpoint::Tensor> weight_tensors(engine::Engine<float>& engine) {
  std::vector<checkpoint::Tensor> tensors;
  for (size_t i = 0; i < engine.graph().parameters.size(); ++i) {
    const graph::Parameter& parameter = engine.graph().parameters[i];
    tensors.push_back({parameter.name, parameter.dims, engine.parameter(i)});
  }
  return tensors;
}

std::vector<checkpoint::Tensor> moment_tensors(Optimizer& optimizer, const graph::Graph& graph) {
  std::vector<checkpoint::Tensor> tensors;
  for (const Optimizer::Moment& moment : optimizer.moments()) {
    tensors.push_back({moment.name, graph.parameters[moment.parameter].dims, *moment.values});
  }
  return tensors;
}

End train(const Run& run, TrainState& state) {
  const model::TrainSection& settings = run.settings;
  engine::Engine<float>& engine = run.engine;
  Diagnostics diagnostics(engine.graph());
  ClipWindow window = ClipWindow::from_text(state.clip_window);
  Recorder record(run, state);
  std::vector<nodes::Batch> micro_batches;

  if (state.step == 0) {
    run.source.step(1, micro_batches);
    record.start(first_loss(engine, micro_batches));
  }
  while (state.step < settings.steps) {
    const int64_t t = state.updates + 1;
    // The first update too: it is where initialization shows.
    const bool measure = due(settings.diag_every, state.step + 1, settings.steps) ||
                         (settings.diag_every > 0 && state.step == 0);
    record.begin_step(measure);
    run.source.step(state.step + 1, micro_batches);
    const int64_t targets = count_targets(micro_batches);
    const auto request = [&](size_t micro_batch) {
      engine::Request one;
      one.t = static_cast<double>(t);
      one.divisor =
          static_cast<double>(targets);  // one for the whole step, not one per micro-batch
      one.training = true;
      one.dropout_seed = dropout_seed(settings.seed, state.updates, micro_batch);
      one.label_smoothing = settings.label_smoothing;
      one.z_loss = settings.z_loss;
      if (measure) one.points = diagnostics.points();
      return one;
    };

    StepRecord step;
    step.lr = run.rates.rate(t);
    if (measure) diagnostics.begin();
    engine.zero_gradients();
    for (size_t i = 0; i < micro_batches.size() && targets > 0; ++i) {
      step.loss += record.timed([&] { return engine.run(micro_batches[i], request(i)); });
      if (measure) diagnostics.add_micro_batch(engine, micro_batches[i]);
    }
    step.grad_norm = gradient_norm(engine, run.pieces);
    if (measure) diagnostics.before_update(engine);

    std::string trouble;  // why the run cannot go on
    if (targets == 0) {
      record.note(state.step + 1, "no target counts in this step: nothing is updated");
    } else if (!std::isfinite(step.loss) || !std::isfinite(step.grad_norm)) {
      step.refused = true;
      trouble = refuse(run, state, record, micro_batches, request);
    } else {
      step.clip = clip_factor(step.grad_norm, settings.clip);
      const bool finite = run.optimizer.update(engine, run.pieces, t, step.lr, step.clip);
      window.add(step.clip < 1);
      ++state.updates;
      state.skipped_in_row = 0;
      if (!finite) {
        const BadElement bad = run.optimizer.first_non_finite(engine, run.pieces);
        trouble = fmt::format("the update with learning rate {} left {} not finite (element {})",
                              step.lr, bad.tensor, bad.index);
        record.note(state.step + 1, trouble);
      }
    }
    if (measure) diagnostics.after_update(engine, targets > 0 && !step.refused);

    ++state.step;
    state.tokens += count_tokens(micro_batches);
    state.clip_window = window.text();
    step.clipped = window.share();
    record.step(step);
    if (!trouble.empty()) stop_non_finite(state.step, trouble, run);
    if (measure) record.diagnosis(diagnostics);
    if (due(settings.eval_every, state.step, settings.steps) &&
        run.source.validation_batches() > 0) {
      const auto updates = static_cast<double>(state.updates);
      record.evaluation(evaluate(engine, run.source, updates, settings.eval_tokens));
    }
    const bool stop = run.interrupted != nullptr && run.interrupted->load();
    if (stop || due(settings.checkpoint_every, state.step, settings.steps)) record.save();
    if (stop && state.step < settings.steps) return End::interrupted;
  }
  return End::finished;
}

}  // namespace addnorm::train
