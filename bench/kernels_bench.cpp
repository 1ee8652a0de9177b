// One thread: the matrix product's peak, memory bandwidth, and the kernels of a training step at the
// sizes of the small (d 64) and middle (d 256) models.
#include <benchmark/benchmark.h>

#include <cstdint>
#include <vector>

#include "addnorm/base/random.h"
#include "addnorm/base/threads.h"
#include "addnorm/kernels/kernels.h"

namespace addnorm::kernels {
namespace {

std::vector<float> random_buffer(Index size, uint64_t stream) {
  const Random random(1, stream);
  std::vector<float> buffer(static_cast<size_t>(size));
  for (size_t i = 0; i < buffer.size(); ++i) buffer[i] = static_cast<float>(random.normal(i));
  return buffer;
}

void rate(benchmark::State& state, double flops) {
  state.counters["GFLOP/s"] =
      benchmark::Counter(flops * 1e-9, benchmark::Counter::kIsIterationInvariantRate);
}

void bytes(benchmark::State& state, double count) {
  state.counters["GB/s"] =
      benchmark::Counter(count * 1e-9, benchmark::Counter::kIsIterationInvariantRate);
}

// y = x w^T, then both gradients: m, n, k.
void linear_layer(benchmark::State& state) {
  const Index m = state.range(0);
  const Index n = state.range(1);
  const Index k = state.range(2);
  const auto x = random_buffer(m * k, 1);
  const auto w = random_buffer(n * k, 2);
  const auto bias = random_buffer(n, 3);
  std::vector<float> y(static_cast<size_t>(m * n));
  std::vector<float> dx(x.size());
  std::vector<float> dw(w.size());
  while (state.KeepRunning()) {
    linear(m, n, k, x.data(), w.data(), bias.data(), y.data());
    linear_dx(m, n, k, y.data(), w.data(), dx.data(), false);
    linear_dw(m, n, k, y.data(), x.data(), dw.data(), true);
  }
  rate(state, 6.0 * static_cast<double>(m * n * k));
}
BENCHMARK(linear_layer)
    ->Args({1024, 1024, 1024})
    ->Args({1024, 64, 64})
    ->Args({1024, 256, 64})
    ->Args({1024, 1024, 256})
    ->Args({128, 3072, 768});

// The scores of one head by the general product, to compare with the tiles of attention: m, n, k.
void small_product(benchmark::State& state) {
  const Index m = state.range(0);
  const Index n = state.range(1);
  const Index k = state.range(2);
  const auto a = random_buffer(m * k, 1);
  const auto b = random_buffer(n * k, 2);
  std::vector<float> c(static_cast<size_t>(m * n));
  while (state.KeepRunning()) {
    matmul(false, true, m, n, k, a.data(), k, b.data(), k, c.data(), n, false);
  }
  rate(state, 2.0 * static_cast<double>(m * n * k));
}
BENCHMARK(small_product)->Args({64, 64, 16})->Args({64, 64, 64})->Args({64, 128, 64});

// Read, read, write of far memory.
void bandwidth(benchmark::State& state) {
  const Index size = Index{1} << 24;
  const std::vector<float> a(static_cast<size_t>(size), 1.0F);
  std::vector<float> out(static_cast<size_t>(size), 0.0F);
  while (state.KeepRunning()) add(size, a.data(), out.data());
  bytes(state, 12.0 * static_cast<double>(size));
}
BENCHMARK(bandwidth);

// Forward and backward of the norm of a sum: rows, width.
template <NormKind kind>
void add_and_norm(benchmark::State& state) {
  const Index rows = state.range(0);
  const Index n = state.range(1);
  const auto a = random_buffer(rows * n, 1);
  const auto b = random_buffer(rows * n, 2);
  const auto gain = random_buffer(n, 3);
  const float alpha = 0.5F;
  std::vector<float> sum(a.size());
  std::vector<float> out(a.size());
  std::vector<float> stats(static_cast<size_t>(norm_stats(rows)));
  std::vector<float> da(a.size());
  std::vector<float> dgain(gain.size());
  std::vector<float> dbias(gain.size());
  NormSpec spec;
  spec.kind = kind;
  spec.n = n;
  spec.eps = 1e-5F;
  spec.gain = gain.data();
  spec.bias = kind == NormKind::rmsnorm ? nullptr : gain.data();
  spec.alpha = &alpha;
  while (state.KeepRunning()) {
    add_norm(spec, rows, 1, a.data(), 1, b.data(), sum.data(), out.data(), stats.data());
    AddNormOutputs outputs;
    outputs.da = da.data();
    NormGradients gradients;
    gradients.gain = dgain.data();
    gradients.bias = dbias.data();
    add_norm_backward(spec, rows, sum.data(), stats.data(), out.data(), a.data(), outputs,
                      gradients);
  }
  bytes(state, 32.0 * static_cast<double>(rows * n));
}
BENCHMARK(add_and_norm<NormKind::layernorm>)->Args({1024, 64})->Args({2048, 256});
BENCHMARK(add_and_norm<NormKind::rmsnorm>)->Args({1024, 64})->Args({2048, 256});
BENCHMARK(add_and_norm<NormKind::dyt>)->Args({1024, 64})->Args({2048, 256});

template <Unary kind>
void activation(benchmark::State& state) {
  const Index rows = 1024;
  const Index cols = 256;
  auto pre = random_buffer(rows * cols, 1);
  const std::vector<float> bias(static_cast<size_t>(cols), 0.0F);
  std::vector<float> h(pre.size());
  std::vector<float> dbias(bias.size());
  while (state.KeepRunning()) {
    bias_activation({kind}, rows, cols, bias.data(), pre.data(), h.data());
    bias_activation_backward({kind}, rows, cols, pre.data(), h.data(), h.data(), dbias.data());
  }
  bytes(state, 24.0 * static_cast<double>(rows * cols));
}
BENCHMARK(activation<Unary::relu>);
BENCHMARK(activation<Unary::gelu>);
BENCHMARK(activation<Unary::silu>);

// One causal sequence: length, heads, head_dim. Operations are counted for the visible half.
template <bool backward>
void attend(benchmark::State& state) {
  AttentionSpec spec;
  spec.queries = spec.keys = state.range(0);
  spec.heads = spec.kv_heads = state.range(1);
  spec.head_dim = state.range(2);
  spec.causal = true;
  spec.scale = 0.1F;
  const Index d = spec.heads * spec.head_dim;
  const auto q = random_buffer(spec.queries * d, 1);
  const auto k = random_buffer(spec.queries * d, 2);
  const auto v = random_buffer(spec.queries * d, 3);
  std::vector<float> out(q.size());
  std::vector<float> dq(q.size());
  std::vector<float> dk(q.size());
  std::vector<float> dv(q.size());
  std::vector<float> lse(static_cast<size_t>(spec.queries * spec.heads));
  std::vector<float> scratch(static_cast<size_t>(attention_scratch(spec, backward)));
  std::vector<float> forward_scratch(static_cast<size_t>(attention_scratch(spec, false)));
  attention(spec, 0, spec.heads, q.data(), d, k.data(), d, v.data(), d, out.data(), d, lse.data(),
            forward_scratch.data());
  while (state.KeepRunning()) {
    if (backward) {
      AttentionGradients gradients;
      gradients.dq = dq.data();
      gradients.dk = dk.data();
      gradients.dv = dv.data();
      attention_backward(spec, 0, spec.heads, q.data(), d, k.data(), d, v.data(), d, out.data(), d,
                         lse.data(), q.data(), gradients, scratch.data());
    } else {
      attention(spec, 0, spec.heads, q.data(), d, k.data(), d, v.data(), d, out.data(), d,
                lse.data(), scratch.data());
    }
  }
  const double half = 0.5 * static_cast<double>(spec.queries * (spec.queries + 1));
  rate(state, (backward ? 10.0 : 4.0) * half * static_cast<double>(d));
}
BENCHMARK(attend<false>)
    ->Args({64, 4, 16})
    ->Args({128, 4, 64})
    ->Args({64, 12, 64})
    ->Args({1024, 4, 64});
BENCHMARK(attend<true>)
    ->Args({64, 4, 16})
    ->Args({128, 4, 64})
    ->Args({64, 12, 64})
    ->Args({1024, 4, 64});

// Output head with all gradients: rows, width, vocabulary.
void head_and_loss(benchmark::State& state) {
  const Index rows = state.range(0);
  HeadSpec spec;
  spec.width = state.range(1);
  spec.vocab = state.range(2);
  const auto x = random_buffer(rows * spec.width, 1);
  const auto w = random_buffer(spec.vocab * spec.width, 2);
  spec.w = w.data();
  std::vector<int32_t> targets;
  targets.reserve(static_cast<size_t>(rows));
  for (Index row = 0; row < rows; ++row) targets.push_back(static_cast<int32_t>(row % spec.vocab));
  const Index chunk = std::min(rows, head_chunk_rows(spec.vocab));
  std::vector<float> work(static_cast<size_t>(chunk * spec.vocab));
  std::vector<float> dx(x.size());
  std::vector<float> dw(w.size());
  while (state.KeepRunning()) {
    benchmark::DoNotOptimize(head_loss(spec, rows, x.data(), targets.data(), work.data(), nullptr,
                                       nullptr, dx.data(), false, dw.data(), nullptr));
  }
  rate(state, 6.0 * static_cast<double>(rows * spec.width * spec.vocab));
}
BENCHMARK(head_and_loss)->Args({1024, 64, 256})->Args({1024, 256, 256})->Args({128, 768, 50257});

void adam_pass(benchmark::State& state) {
  const Index count = state.range(0);
  auto w = random_buffer(count, 1);
  auto g = random_buffer(count, 2);
  std::vector<float> m(w.size());
  std::vector<float> v(w.size(), 1.0F);
  AdamStep step;
  step.rate = 1e-9F;
  while (state.KeepRunning()) adam(step, count, w.data(), g.data(), m.data(), v.data());
  bytes(state, 28.0 * static_cast<double>(count));
}
BENCHMARK(adam_pass)->Arg(1 << 16)->Arg(1 << 23);

void dropout_pass(benchmark::State& state) {
  const Index count = 1 << 18;
  const auto a = random_buffer(count, 1);
  std::vector<float> out(a.size());
  while (state.KeepRunning()) dropout(1, 2, 0.1F, 0, count, a.data(), out.data(), false);
  bytes(state, 8.0 * static_cast<double>(count));
}
BENCHMARK(dropout_pass);

}  // namespace
}  // namespace addnorm::kernels

int main(int count, char** arguments) {
  addnorm::flush_denormals();
  addnorm::keep_libraries_single_threaded();
  benchmark::AddCustomContext("instruction set", addnorm::kernels::instruction_set());
  benchmark::Initialize(&count, arguments);
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}
