// Small models, batches and runs for the tests of train/.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "addnorm/base/random.h"
#include "addnorm/engine/engine.h"
#include "addnorm/formula/program.h"
#include "addnorm/graph/lower.h"
#include "addnorm/train/loop.h"

namespace addnorm::train::tiny {

inline graph::ModelShape shape(const std::string& wiring = "x = x + f(norm(x)); out = norm(x)") {
  graph::ModelShape shape;
  shape.kind = graph::ModelKind::decoder;
  shape.decoder.program = formula::parse(wiring);
  shape.decoder.layers = 2;
  shape.width = 8;
  shape.heads = 2;
  shape.kv_heads = 2;
  shape.head_dim = 4;
  shape.ffn = 16;
  shape.activation = graph::Activation::relu;
  shape.positions = graph::Positions::learned;
  shape.bias_roles = {graph::Role::q,        graph::Role::k,      graph::Role::v,
                      graph::Role::attn_out, graph::Role::ffn_in, graph::Role::ffn_out};
  shape.tie_embeddings = false;
  shape.vocab = 11;
  shape.context = 6;
  return shape;
}

inline void randomize(engine::Engine<float>& engine, uint64_t seed, double deviation = 0.3) {
  for (size_t i = 0; i < engine.graph().parameters.size(); ++i) {
    const graph::Parameter& parameter = engine.graph().parameters[i];
    const Random random(seed, parameter.name);
    auto values = engine.parameter(i);
    for (size_t j = 0; j < values.size(); ++j) {
      values[j] =
          static_cast<float>(parameter.matrix ? deviation * random.normal(j) : parameter.start);
    }
  }
}

inline size_t index_of(const graph::Graph& graph, const std::string& name) {
  for (size_t i = 0; i < graph.parameters.size(); ++i) {
    if (graph.parameters[i].name == name) return i;
  }
  throw std::runtime_error("no parameter " + name);
}

// Random ids; every batch a function of (seed, step, micro-batch).
class RandomSource : public Source {
 public:
  RandomSource(uint64_t seed, int64_t rows, int64_t length, int64_t vocab, int64_t accumulate)
      : seed_(seed), rows_(rows), length_(length), vocab_(vocab), accumulate_(accumulate) {}

  void step(int64_t step, std::vector<nodes::Batch>& micro_batches) override {
    micro_batches.resize(static_cast<size_t>(accumulate_));
    for (int64_t i = 0; i < accumulate_; ++i) {
      micro_batches[static_cast<size_t>(i)] = batch(static_cast<uint64_t>(step * accumulate_ + i));
    }
  }
  int64_t validation_batches() const override { return 2; }
  void validation(int64_t index, nodes::Batch& to) override {
    to = batch(1000000 + static_cast<uint64_t>(index));
  }
  int64_t validation_bytes() const override { return 2 * rows_ * length_; }

  nodes::Batch batch(uint64_t number) const {
    nodes::Batch batch;
    batch.sequences = rows_;
    batch.length = length_;
    const Random random(seed_, number);
    for (int64_t i = 0; i < rows_ * length_; ++i) {
      const auto id = random.below(static_cast<uint64_t>(i), static_cast<uint64_t>(vocab_));
      batch.tokens.push_back(static_cast<int32_t>(id));
      batch.targets.push_back(static_cast<int32_t>((id * 3 + 1) % static_cast<uint64_t>(vocab_)));
    }
    return batch;
  }

 private:
  uint64_t seed_;
  int64_t rows_, length_, vocab_, accumulate_;
};

// The same micro-batches at every step.
class FixedSource : public Source {
 public:
  explicit FixedSource(std::vector<nodes::Batch> batches) : batches_(std::move(batches)) {}
  void step(int64_t, std::vector<nodes::Batch>& micro_batches) override {
    micro_batches = batches_;
  }
  int64_t validation_batches() const override { return 0; }
  void validation(int64_t, nodes::Batch&) override {}
  int64_t validation_bytes() const override { return 0; }

 private:
  std::vector<nodes::Batch> batches_;
};

// One row per text, padded with 0: token i predicts token i+1.
inline nodes::Batch lines(const std::vector<std::string>& texts) {
  nodes::Batch batch;
  batch.sequences = static_cast<int64_t>(texts.size());
  for (const std::string& text : texts) {
    batch.length = std::max(batch.length, static_cast<int64_t>(text.size()) - 1);
  }
  for (const std::string& text : texts) {
    for (int64_t i = 0; i < batch.length; ++i) {
      const bool real = i + 1 < static_cast<int64_t>(text.size());
      const auto at = static_cast<size_t>(i);
      batch.tokens.push_back(real ? static_cast<unsigned char>(text[at]) : 0);
      batch.targets.push_back(real ? static_cast<unsigned char>(text[at + 1])
                                   : nodes::Batch::ignored);
      batch.mask.push_back(real ? 1 : 0);
    }
  }
  return batch;
}

struct Notes : Reporter {
  std::vector<std::string> notes;
  std::vector<StepReport> steps;
  void step(const StepReport& report) override { steps.push_back(report); }
  void note(const std::string& text) override { notes.push_back(text); }
};

// An engine with its optimizer, ready for the loop.
struct Trainer {
  Trainer(const graph::ModelShape& model, const model::TrainSection& train)
      : graph(graph::lower(model)),
        engine(engine::make_reference<float>(graph)),
        optimizer(train, graph, parameter_factors(train, model, graph)),
        pieces(graph, 1),
        settings(train),
        rates(train) {}

  End run(Source& source, checkpoint::TrainState& state, const std::filesystem::path& folder,
          const std::atomic<bool>* interrupted = nullptr) {
    return train::train(
        {*engine, optimizer, pieces, source, rates, settings, folder, notes, interrupted}, state);
  }
  float& weight(const std::string& name, size_t index) {
    return engine->parameter(index_of(graph, name))[index];
  }
  std::vector<std::vector<float>> weights() {
    std::vector<std::vector<float>> all;
    for (size_t i = 0; i < graph.parameters.size(); ++i) {
      const auto values = engine->parameter(i);
      all.emplace_back(values.begin(), values.end());
    }
    return all;
  }
  std::vector<std::vector<float>> moments() {
    std::vector<std::vector<float>> all;
    for (const auto& moment : optimizer.moments()) all.push_back(*moment.values);
    return all;
  }

  const graph::Graph graph;
  std::unique_ptr<engine::Engine<float>> engine;
  Optimizer optimizer;
  Pieces pieces;
  model::TrainSection settings;
  Rates rates;
  Notes notes;
};

inline model::TrainSection settings(int64_t steps) {
  model::TrainSection train;
  train.steps = steps;
  train.lr = 0.01;
  return train;
}

// Lines of a metrics.jsonl; every one must be strict JSON.
inline std::vector<nlohmann::json> metrics(const std::filesystem::path& run,
                                           const std::string& event = "",
                                           const char* file = "metrics.jsonl") {
  std::vector<nlohmann::json> records;
  std::ifstream in(run / file);
  for (std::string line; std::getline(in, line);) {
    auto record = nlohmann::json::parse(line);  // throws on NaN and the like
    if (event.empty() || record.at("event") == event) records.push_back(std::move(record));
  }
  return records;
}

// All lines without their times.
inline std::vector<nlohmann::json> timeless(const std::filesystem::path& run) {
  auto records = metrics(run);
  for (auto& record : records) record.erase("seconds");
  return records;
}

}  // namespace addnorm::train::tiny
