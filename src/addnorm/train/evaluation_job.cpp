#include "addnorm/train/evaluation_job.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "addnorm/base/error.h"
#include "addnorm/checkpoint/run_state.h"
#include "addnorm/model/init.h"
#include "addnorm/model/static_checks.h"
#include "addnorm/train/data_source.h"
#include "addnorm/train/loop.h"
#include "addnorm/train/run_files.h"
#include "addnorm/train/session.h"

namespace addnorm::train {
namespace {

namespace fs = std::filesystem;

// Sizes, graph and memory; the tokenizer is there already.
graph::Graph build(TrainedModel& model, const formula::Catalogue& catalogue,
                   graph::ModelShape& shape) {
  model.task = data::task_of(model.specification.model.kind);
  fill_vocab(model.specification, *model.tokenizer, model.findings);
  shape = model::shape(model.specification, catalogue, &model.findings);
  graph::Graph graph = model::build(model.specification, shape, &model.findings);
  model.engine = engine::make_cpu(graph, environment(model.specification.train, "").threads);
  return graph;
}

void load_file(TrainedModel& model, const graph::Graph& graph, const fs::path& weights) {
  engine::Engine<float>& engine = *model.engine;
  checkpoint::load_weights(weights, graph,
                           std::function<std::span<float>(size_t)>(
                               [&](size_t index) { return engine.parameter(index); }));
  model.t = std::numeric_limits<double>::infinity();
}

void append(Findings& to, const Findings& more) { to.insert(to.end(), more.begin(), more.end()); }

data::DatasetOptions dataset_options(const TrainedModel& model) {
  return {model.specification.data, model.task, model.specification.model.context, false,
          model.tokenizer};
}

// Of a specification alone: `chars` takes its table from the training text.
std::shared_ptr<const text::Tokenizer> specified_tokenizer(
    const model::Specification& specification, data::Task task) {
  if (specification.data.tokenizer == "bytes") {
    return text::byte_tokenizer(task != data::Task::next_token);
  }
  if (specification.data.source.empty()) {
    fail_input("data.source",
               "expected the training text, which the table of characters comes from, got "
               "none; try a run's folder instead");
  }
  return data::open_dataset({specification.data, task, specification.model.context, false, nullptr})
      .tokenizer;
}

// The rows to evaluate on.
std::shared_ptr<const data::Rows> rows_of(const EvaluationJob& job, TrainedModel& model) {
  if (!job.data.empty()) {
    return data::open_evaluation(job.data, dataset_options(model), model.findings);
  }
  if (model.specification.data.source.empty()) {
    fail_input("data.source", "expected text to evaluate on, got none; try --data FILE");
  }
  const data::Dataset dataset = data::open_dataset(dataset_options(model));
  append(model.findings, dataset.findings);
  if (!dataset.validation) {
    fail_input("data.validation", "expected a validation part, got none; try --data FILE");
  }
  return dataset.validation;
}

}  // namespace

TrainedModel load_run(const fs::path& run, const fs::path& weights,
                      const model::Overrides& overrides, const formula::Catalogue& catalogue) {
  TrainedModel model;
  model.specification = run_specification(run, overrides, catalogue);
  model.findings = model.specification.findings;
  model.tokenizer = run_tokenizer(run);
  const auto newest = checkpoint::newest_checkpoint(run);
  if (!newest && weights.empty()) {
    fail_input(run.string(), "expected a checkpoint, got none yet; try `addnorm resume`");
  }
  graph::ModelShape shape;
  const graph::Graph graph = build(model, catalogue, shape);
  if (!weights.empty()) {
    load_file(model, graph, weights);
    return model;
  }
  const auto state = checkpoint::load_checkpoint(*newest, weight_tensors(*model.engine), nullptr);
  model.t = static_cast<double>(std::max<int64_t>(state.updates, 1));
  return model;
}

TrainedModel load_specification(const fs::path& file, const fs::path& weights,
                                const model::Overrides& overrides,
                                const formula::Catalogue& catalogue) {
  TrainedModel model;
  model.specification = model::load(file, overrides, model::Needs::text, catalogue);
  model.findings = model.specification.findings;
  model.tokenizer =
      specified_tokenizer(model.specification, data::task_of(model.specification.model.kind));
  graph::ModelShape shape;
  const graph::Graph graph = build(model, catalogue, shape);
  if (!weights.empty()) {
    load_file(model, graph, weights);
    return model;
  }
  const auto rules = model::init_rules(model.specification, shape, graph);
  for (size_t i = 0; i < rules.size(); ++i) {
    model::fill(rules[i], model.specification.train.seed, graph.parameters[i].name,
                model.engine->parameter(i));
  }
  model.t = std::numeric_limits<double>::infinity();
  model.findings.push_back(
      {Level::warning, file.string(), "no --weights: the model is evaluated as it is initialized"});
  return model;
}

Evaluation evaluate(const EvaluationJob& job, const formula::Catalogue& catalogue,
                    const std::function<void(const Findings&)>& report) {
  TrainedModel model = fs::is_directory(job.model)
                           ? load_run(job.model, job.weights, job.overrides, catalogue)
                           : load_specification(job.model, job.weights, job.overrides, catalogue);
  const auto rows = rows_of(job, model);
  report(model.findings);
  data::BatchOptions options;
  options.order = data::Order::sequence;
  options.seed = 0;  // as Dataset::validation_batches: masks belong to the rows
  options.batch = model.specification.train.batch;
  options.mask_rate = model.specification.data.mask_rate;
  const data::Batches batches(rows, model.tokenizer, model.task, options);
  Evaluation result;
  nodes::Batch batch;
  for (int64_t step = 1; step <= batches.steps_per_epoch(); ++step) {
    batches.fill(step, 0, batch);
    evaluate_batch(*model.engine, batch, model.t, result);
  }
  result.bytes = target_bytes(*rows, model.task);
  return result;
}

}  // namespace addnorm::train
