// What the fast engine holds and allocates, counted by a replaced operator new.
#include <dlfcn.h>
#include <gtest/gtest.h>
#include <malloc.h>

#include <atomic>
#include <cstdlib>
#include <cstring>
#include <new>

#include "addnorm/engine/engine.h"
#include "addnorm/graph/lower.h"
#include "addnorm/model/specification.h"
#include "addnorm/train/optimizer.h"
#include "engine/models.h"

namespace {

std::atomic<int64_t> held{0}, peak{0};
std::atomic<bool> watching{false};
std::atomic<int64_t> ours{0};  // allocations while watching, not made inside oneDNN or its OpenMP

void* counted(size_t size, void* caller) {
  void* memory = std::malloc(size == 0 ? 1 : size);
  if (memory == nullptr) throw std::bad_alloc();
  const int64_t now = held += static_cast<int64_t>(malloc_usable_size(memory));
  for (int64_t seen = peak; now > seen && !peak.compare_exchange_weak(seen, now);) {
  }
  if (watching) {
    Dl_info info{};
    const bool known = dladdr(caller, &info) != 0 && info.dli_fname != nullptr;
    if (!known || (std::strstr(info.dli_fname, "dnnl") == nullptr &&
                   std::strstr(info.dli_fname, "gomp") == nullptr)) {
      ++ours;
    }
  }
  return memory;
}
void released(void* memory) {
  if (memory != nullptr) held -= static_cast<int64_t>(malloc_usable_size(memory));
  std::free(memory);
}

}  // namespace

void* operator new(size_t size) { return counted(size, __builtin_return_address(0)); }
void* operator new[](size_t size) { return counted(size, __builtin_return_address(0)); }
void operator delete(void* memory) noexcept { released(memory); }
void operator delete[](void* memory) noexcept { released(memory); }
void operator delete(void* memory, size_t) noexcept { released(memory); }
void operator delete[](void* memory, size_t) noexcept { released(memory); }

namespace addnorm {
namespace {

void fill(engine::Engine<float>& engine) {
  for (size_t i = 0; i < engine.graph().parameters.size(); ++i) {
    const auto& p = engine.graph().parameters[i];
    const Random random(1, p.name);
    for (size_t e = 0; e < engine.parameter(i).size(); ++e) {
      engine.parameter(i)[e] = p.matrix ? 0.02F * static_cast<float>(random.uniform(e) - 0.5)
                                        : static_cast<float>(p.start);
    }
  }
}

// Bytes that one training step holds at its height, weights and their gradients left out.
int64_t step_bytes(int64_t length, int64_t vocab, int64_t sequences) {
  auto shape = testing_models::small_shape(graph::ModelKind::decoder,
                                           "x = x + f(norm(x)); out = norm(x)", 1);
  shape.vocab = vocab;
  shape.context = length;
  shape.positions = graph::Positions::none;
  shape.tie_embeddings = true;
  const graph::Graph graph = graph::lower(shape);
  const auto batch = testing_models::make_batch(shape, sequences, length, false);
  const int64_t before = held;
  auto engine = engine::make_cpu(graph, 2);
  fill(*engine);
  peak = held.load();
  engine->run(batch, {});
  const int64_t weights = 4 * graph.parameter_count() * 2;
  return peak - before - weights;
}

TEST(EngineMemoryLimit, NoMatrixOfScoresIsBuilt) {
  const int64_t scores = 4 * 4096 * 4096 * 4;  // one layer, four heads, floats
  const int64_t bytes = step_bytes(4096, 19, 2);
  RecordProperty("bytes_at_T_4096", static_cast<int>(bytes));
  EXPECT_LT(bytes, scores / 8);
  // Linear in the length: four times the tokens, about four times the memory.
  EXPECT_LT(static_cast<double>(bytes), 5.0 * static_cast<double>(step_bytes(1024, 19, 2)));
}

TEST(EngineMemoryLimit, TheMatrixOfLogitsIsNotBuilt) {
  const int64_t sequences = 16, length = 256, vocab = 50257;
  const int64_t logits = 4 * sequences * length * vocab;  // 823 MB
  const int64_t bytes = step_bytes(length, vocab, sequences);
  RecordProperty("bytes_at_V_50257", static_cast<int>(bytes));
  EXPECT_LT(bytes, logits / 8);
}

TEST(EngineMemoryLimit, NothingIsAllocatedAfterTheFirstStep) {
  for (const auto kind : {graph::ModelKind::decoder, graph::ModelKind::encoder_decoder}) {
    auto shape =
        testing_models::small_shape(kind, "x = norm(x + clip(t/(10*l), 0, 1)*param(0.5)*f(x))");
    shape.positions = graph::Positions::rope;
    shape.dropout = 0.1;
    const graph::Graph graph = graph::lower(shape);
    const auto batch = testing_models::make_batch(shape, 5, 9, true);
    for (const auto split : {engine::Split::batch, engine::Split::operators}) {
      auto engine = engine::make_cpu(graph, 2, split);
      fill(*engine);
      model::TrainSection section;
      train::Pieces pieces(graph, 2);
      train::Optimizer optimizer(section, graph, train::parameter_factors(section, shape, graph));
      engine::Request request;
      request.training = true;
      const auto step = [&](int64_t t) {
        engine->zero_gradients();
        engine->run(batch, request);
        optimizer.update(*engine, pieces, t, 1e-3, 1);
      };
      step(1);
      ours = 0;
      watching = true;
      step(2);
      step(3);
      watching = false;
      EXPECT_EQ(ours, 0);
    }
  }
}

}  // namespace
}  // namespace addnorm
