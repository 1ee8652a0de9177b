// Models that are trained already: from a run or a specification to an engine with weights, and what
// `addnorm eval` computes with it.
#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "addnorm/train/evaluate.h"
#include "addnorm/train/plan.h"

namespace addnorm::train {

struct TrainedModel {
  model::Specification specification;
  data::Task task = data::Task::next_token;
  std::shared_ptr<const text::Tokenizer> tokenizer;
  std::unique_ptr<engine::Engine<float>> engine;
  double t = 1;  // of schedules: updates made; infinity for bare weights
  Findings findings;
};

// The newest checkpoint of a run, or `weights` instead of its weights.
TrainedModel load_run(const std::filesystem::path& run, const std::filesystem::path& weights,
                      const model::Overrides& overrides, const formula::Catalogue& catalogue);
// A specification with weights, or freshly drawn ones (said in the findings) where `weights` is empty.
TrainedModel load_specification(const std::filesystem::path& file,
                                const std::filesystem::path& weights,
                                const model::Overrides& overrides,
                                const formula::Catalogue& catalogue);

struct EvaluationJob {
  std::string model;  // a run's folder or a specification
  std::string weights;
  std::vector<std::string> data;  // empty: the validation part of [data]
  model::Overrides overrides;
};

// Findings go to `report` before anything is computed.
Evaluation evaluate(const EvaluationJob& job, const formula::Catalogue& catalogue,
                    const std::function<void(const Findings&)>& report);

}  // namespace addnorm::train
