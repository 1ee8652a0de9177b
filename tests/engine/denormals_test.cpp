// Case C4 of cases.md: denormal numbers are zero to every thread that computes, so values that shrink
// never slow a step down; files keep them. What the steps cost is in bench/training_bench.cpp.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

#include "addnorm/base/files.h"
#include "addnorm/checkpoint/run_state.h"
#include "addnorm/checkpoint/weights.h"
#include "addnorm/engine/engine.h"
#include "addnorm/graph/lower.h"
#include "addnorm/train/optimizer.h"
#include "engine/models.h"
#include "support/temporary.h"

namespace addnorm {
namespace {

using engine::Split;

// Every matrix holds `value`; gains, biases and the rest are of ordinary size.
void fill(engine::Engine<float>& engine, float value) {
  const auto& parameters = engine.graph().parameters;
  for (size_t i = 0; i < parameters.size(); ++i) {
    const Random random(5, parameters[i].name);
    auto values = engine.parameter(i);
    for (size_t e = 0; e < values.size(); ++e) {
      values[e] = parameters[i].matrix
                      ? (e % 2 == 0 ? value : -value)
                      : static_cast<float>(parameters[i].start + 0.1 * random.normal(e));
    }
  }
}

// Losses, gradients and weights of ten steps, as bytes.
std::vector<float> ten_steps(const graph::ModelShape& shape, int threads, Split split,
                             float value) {
  const graph::Graph graph = graph::lower(shape);
  const auto batch = testing_models::make_batch(shape, 3, 9, true);
  auto engine = engine::make_cpu(graph, threads, split);
  fill(*engine, value);
  model::TrainSection section;
  train::Pieces pieces(graph, threads);
  train::Optimizer optimizer(section, graph, train::parameter_factors(section, shape, graph));
  engine::Request request;
  request.training = true;
  std::vector<float> all;
  for (int64_t t = 1; t <= 10; ++t) {
    engine->zero_gradients();
    all.push_back(static_cast<float>(engine->run(batch, request)));
    for (size_t i = 0; i < graph.parameters.size(); ++i) {
      all.insert(all.end(), engine->gradient(i).begin(), engine->gradient(i).end());
    }
    optimizer.update(*engine, pieces, t, 1e-3, 1);
    for (size_t i = 0; i < graph.parameters.size(); ++i) {
      all.insert(all.end(), engine->parameter(i).begin(), engine->parameter(i).end());
    }
  }
  return all;
}

#if defined(__x86_64__) || defined(__aarch64__)

TEST(DenormalThreads, AreZeroToEveryThreadOfAStep) {
  for (const char* formula : {"x = x + f(norm(x)); out = norm(x)",
                              "x = norm(param(0.5)*x + sigmoid(linear(x))*f(x, inner=norm))"}) {
    auto shape = testing_models::small_shape(graph::ModelKind::decoder, formula);
    shape.positions = graph::Positions::learned;
    shape.activation = graph::Activation::swiglu;
    for (const int threads : {1, 2, 7}) {
      for (const Split split : {Split::batch, Split::operators}) {
        const auto tiny = ten_steps(shape, threads, split, 1e-40F);
        const auto zero = ten_steps(shape, threads, split, 0.0F);
        ASSERT_EQ(tiny.size(), zero.size());
        size_t different = 0;
        double largest = 0;
        for (size_t i = 0; i < tiny.size(); ++i) {
          different += std::abs(tiny[i] - zero[i]) > 0 ? 1 : 0;
          largest = std::max(largest, static_cast<double>(std::abs(zero[i])));
        }
        EXPECT_EQ(different, 0U) << formula << ", " << threads << " threads";
        EXPECT_GT(largest, 0.01);  // gradients and updates are not all zero
        EXPECT_TRUE(std::isfinite(zero[0]));
      }
    }
  }
}

#endif

TEST(DenormalNumbers, StayInFiles) {
  const test::TemporaryFolder folder;
  const auto shape = testing_models::small_shape(graph::ModelKind::decoder, "x = norm(x + f(x))");
  const graph::Graph graph = graph::lower(shape);
  auto engine = engine::make_cpu(graph, 2);
  fill(*engine, 1e-40F);
  engine->parameter(0)[1] = std::numeric_limits<float>::denorm_min();
  const auto tensors_of = [&](engine::Engine<float>& one) {
    std::vector<checkpoint::Tensor> tensors;
    for (size_t i = 0; i < graph.parameters.size(); ++i) {
      tensors.push_back({graph.parameters[i].name, graph.parameters[i].dims, one.parameter(i)});
    }
    return tensors;
  };
  checkpoint::TrainState state;
  state.step = 1;
  const auto first =
      checkpoint::save_checkpoint(folder.path() / "a", state, tensors_of(*engine), {});
  // Loaded by a fresh engine as a checkpoint and as weights, computed with, and saved again.
  auto resumed = engine::make_cpu(graph, 7);
  checkpoint::load_checkpoint(first, tensors_of(*resumed), nullptr);
  auto started = engine::make_cpu(graph, 2);
  checkpoint::load_weights(
      first / "model.safetensors", graph,
      std::function<std::span<float>(size_t)>([&](size_t i) { return started->parameter(i); }));
  const auto batch = testing_models::make_batch(shape, 3, 9, true);
  int number = 0;
  for (engine::Engine<float>* again : {resumed.get(), started.get()}) {
    again->run(batch, {});
    const auto saved = checkpoint::save_checkpoint(folder.path() / std::to_string(++number), state,
                                                   tensors_of(*again), {});
    EXPECT_EQ(read_file(saved / "model.safetensors"), read_file(first / "model.safetensors"));
  }
  EXPECT_EQ(started->parameter(0)[1], std::numeric_limits<float>::denorm_min());
}

}  // namespace
}  // namespace addnorm
