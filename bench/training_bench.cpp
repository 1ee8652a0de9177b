// A training step (forward, backward, AdamW) against the machine's matrix-product peak and memory
// bandwidth, all measured in this run. FLOPs as docs/speed.md counts them.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <memory>
#include <string>
#include <vector>

#include "addnorm/base/random.h"
#include "addnorm/base/threads.h"
#include "addnorm/engine/engine.h"
#include "addnorm/formula/program.h"
#include "addnorm/graph/lower.h"
#include "addnorm/kernels/kernels.h"
#include "addnorm/train/optimizer.h"

namespace addnorm {
namespace {

double seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

// The best of `times` runs, in seconds.
template <class Work>
double best_of(int times, const Work& work) {
  double best = 1e30;
  for (int i = 0; i < times; ++i) {
    const double start = seconds();
    work();
    best = std::min(best, seconds() - start);
  }
  return best;
}

// All threads at once on products of their own.
double gemm_peak(ThreadPool& pool) {
  constexpr int64_t n = 1024;
  const auto size = static_cast<size_t>(n * n);
  std::vector<std::vector<float>> a(static_cast<size_t>(pool.size())), b, c;
  for (auto& one : a) one.assign(size, 1.0F);
  b = c = a;
  const std::function<void(int)> work = [&](int t) {
    const auto i = static_cast<size_t>(t);
    for (int repeat = 0; repeat < 4; ++repeat) {
      kernels::matmul(false, true, n, n, n, a[i].data(), n, b[i].data(), n, c[i].data(), n, false);
    }
  };
  const double best = best_of(7, [&] { pool.run(work); });
  return 4 * 2.0 * n * n * n * pool.size() / best;
}

double bandwidth(ThreadPool& pool) {
  constexpr int64_t n = int64_t{1} << 24;
  std::vector<std::vector<float>> a(static_cast<size_t>(pool.size()), std::vector<float>(n, 1.0F)),
      b = a;
  const std::function<void(int)> work = [&](int t) {
    kernels::add(n, a[static_cast<size_t>(t)].data(), b[static_cast<size_t>(t)].data());
  };
  return 3.0 * n * sizeof(float) * pool.size() / best_of(5, [&] { pool.run(work); });
}

struct Size {
  const char* name;
  int64_t width;
  int layers;
  int64_t heads, length, batch, vocab;
  double floor;  // share of the peak that PyTorch 2.15 reached on two cores of this kind
};

double step_flops(const graph::Graph& graph, const Size& size) {
  double weights = 0;
  for (const graph::Parameter& p : graph.parameters) {
    const bool table = p.role == graph::Role::embed || p.role == graph::Role::positions;
    if (p.matrix && !table) weights += static_cast<double>(p.size());
  }
  bool head = false;
  for (const graph::Parameter& p : graph.parameters) head = head || p.role == graph::Role::head;
  if (!head) weights += static_cast<double>(size.vocab * size.width);  // tied
  const double tokens = static_cast<double>(size.batch * size.length);
  return 6 * weights * tokens +
         6.0 * size.layers * static_cast<double>(size.width * size.length) * tokens;
}

// A model with its batch and optimizer.
class Trainer {
 public:
  // Matrices get cheap draws of size `scale` (their values do not matter for the time) or, where
  // `constant`, the scale itself.
  Trainer(const Size& size, int threads, float scale, bool constant)
      : shape_(shape_of(size)),
        graph_(graph::lower(shape_)),
        engine_(engine::make_cpu(graph_, threads)),
        pieces_(graph_, threads),
        optimizer_(section_, graph_, train::parameter_factors(section_, shape_, graph_)) {
    for (size_t i = 0; i < graph_.parameters.size(); ++i) {
      auto values = engine_->parameter(i);
      for (size_t e = 0; e < values.size(); ++e) {
        const float draw = static_cast<float>(e * 2654435761U % 1000) * 0.002F - 1;
        values[e] = graph_.parameters[i].matrix ? scale * (constant ? 1 : draw)
                                                : static_cast<float>(graph_.parameters[i].start);
      }
    }
    batch_.sequences = size.batch;
    batch_.length = size.length;
    const Random random(2, "tokens");
    const auto vocab = static_cast<uint64_t>(size.vocab);
    for (int64_t i = 0; i < size.batch * size.length; ++i) {
      batch_.tokens.push_back(
          static_cast<int32_t>(random.below(static_cast<uint64_t>(2 * i), vocab)));
      batch_.targets.push_back(
          static_cast<int32_t>(random.below(static_cast<uint64_t>(2 * i + 1), vocab)));
    }
  }

  struct Times {
    double engine = 0, optimizer = 0;
    double all() const { return engine + optimizer; }
  };
  Times step() {
    const double start = seconds();
    engine_->zero_gradients();
    engine::Request request;
    request.training = true;
    engine_->run(batch_, request);
    const double middle = seconds();
    optimizer_.update(*engine_, pieces_, ++t_, 1e-4, 1);
    return {middle - start, seconds() - middle};
  }
  const graph::Graph& graph() const { return graph_; }
  size_t memory_bytes() const { return engine_->memory_bytes(); }

 private:
  static graph::ModelShape shape_of(const Size& size) {
    graph::ModelShape shape;
    shape.decoder = {formula::parse("x = x + f(norm(x)); out = norm(x)"), {}, size.layers};
    shape.width = size.width;
    shape.heads = shape.kv_heads = size.heads;
    shape.head_dim = size.width / size.heads;
    shape.ffn = 4 * size.width;
    for (const graph::Role role : graph::all_roles()) shape.bias_roles.insert(role);
    shape.vocab = size.vocab;
    shape.context = size.length;
    return shape;
  }

  graph::ModelShape shape_;
  graph::Graph graph_;
  std::unique_ptr<engine::Engine<float>> engine_;
  nodes::Batch batch_;
  model::TrainSection section_;
  train::Pieces pieces_;
  train::Optimizer optimizer_;
  int64_t t_ = 0;
};

void measure(const Size& size, double peak, double bytes_per_second, int threads) {
  Trainer trainer(size, threads, 0.02F, false);
  trainer.step();
  const double flops = step_flops(trainer.graph(), size);
  const int repeats = std::clamp(static_cast<int>(peak / flops * 1.5), 3, 60);
  Trainer::Times best{1e30, 0};
  for (int i = 0; i < repeats; ++i) {
    if (const Trainer::Times times = trainer.step(); times.all() < best.all()) best = times;
  }
  const double bound = flops / peak + 28.0 *
                                          static_cast<double>(trainer.graph().parameter_count()) /
                                          bytes_per_second;
  fmt::print(
      "{:<34} {:8.2f} ms  {:7.1f} GFLOP/s  share of peak {:.3f} (floor {:.2f})  of the bound "
      "{:.3f}  "
      "engine {:.2f} ms, optimizer {:.2f} ms, memory {:.0f} MB\n",
      size.name, 1e3 * best.all(), flops / best.all() * 1e-9, flops / best.all() / peak, size.floor,
      bound / best.all(), 1e3 * best.engine, 1e3 * best.optimizer,
      static_cast<double>(trainer.memory_bytes()) * 1e-6);
}

// Ten steps from weights that are denormal numbers against ten from ordinary small ones: 1 where every
// thread flushes them, many times as long where one does not.
void measure_denormals(const Size& size, int threads) {
  const auto ten_steps = [&](float value) {
    double best = 1e30;
    for (int repeat = 0; repeat < 3; ++repeat) {
      Trainer trainer(size, threads, value, true);
      double all = 0;
      for (int step = 0; step < 10; ++step) all += trainer.step().all();
      best = std::min(best, all);
    }
    return best;
  };
  const double small = ten_steps(1e-3F), denormal = ten_steps(1e-40F);
  fmt::print(
      "{}, {} threads: ten steps from weights of 1e-40 take {:.2f} ms, of 1e-3 {:.2f} ms: ratio "
      "{:.2f} (at most 2)\n",
      size.name, threads, 1e3 * denormal, 1e3 * small, denormal / small);
}

void run() {
  const int threads = allowed_cores().cores;
  ThreadPool pool(threads);
  const double peak = gemm_peak(pool), bytes = bandwidth(pool);
  fmt::print("{} threads, {}: matrix-product peak {:.1f} GFLOP/s, bandwidth {:.1f} GB/s\n", threads,
             kernels::instruction_set(), peak * 1e-9, bytes * 1e-9);
  const Size small = {"d 64, L 6, T 64, B 16, V 256", 64, 6, 4, 64, 16, 256, 0.29};
  measure(small, peak, bytes, threads);
  measure({"d 256, L 6, T 128, B 16, V 256", 256, 6, 4, 128, 16, 256, 0.6}, peak, bytes, threads);
  measure({"GPT-2 124M, T 64, B 4, V 50257", 768, 12, 12, 64, 4, 50257, 0.6}, peak, bytes, threads);
  for (const int count : {1, 2, 7}) measure_denormals(small, count);
}

}  // namespace
}  // namespace addnorm

int main() {
  addnorm::run();
  return 0;
}
