#include "addnorm/engine/cpu.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <new>
#include <set>
#include <utility>

#include "addnorm/base/error.h"
#include "addnorm/engine/nonfinite.h"
#include "addnorm/kernels/kernels.h"

namespace addnorm::engine {
namespace {

// Above this many weights a private gradient per thread costs more than barriers.
constexpr Index private_limit = Index{1} << 20;

bool choose_shared(const graph::Graph& graph, int threads, Split split) {
  if (threads < 2 || split == Split::batch) return false;
  return split == Split::operators || graph.parameter_count() > private_limit;
}

int choose_threads(int threads) { return threads > 0 ? threads : allowed_cores().cores; }

// Matrices that all threads compute the gradient of together: weights of linear maps and tables.
std::set<ValueId> shared_matrices(const graph::Graph& graph) {
  std::set<ValueId> shared;
  for (const graph::Node& node : graph.nodes) {
    if (std::holds_alternative<nodes::Linear>(node.op)) shared.insert(node.inputs[1]);
    if (std::holds_alternative<nodes::Embedding>(node.op)) shared.insert(node.inputs[0]);
  }
  return shared;
}

// What could not be had, in words; sizes are floats.
[[noreturn]] void refuse_memory(const std::string& what, Index floats, const char* advice) {
  fail_system("memory", fmt::format("expected {:.1f} MiB for {}, got less; try {}",
                                    static_cast<double>(floats) * 0x1p-18, what, advice));
}

template <class Vector>
void grow(Vector& vector, Index size) {
  if (static_cast<Index>(vector.size()) < size) vector.resize(static_cast<size_t>(size));
}

}  // namespace

Index CpuThread::rows(graph::Rows kind) const {
  if (kind == graph::Rows::fixed) return 1;
  return sequences * (kind == graph::Rows::source ? view.source_length : view.length);
}

CpuEngine::CpuEngine(const graph::Graph& graph, int threads, Split split)
    : graph_(graph),
      wanted_(graph.needs_gradient()),
      shared_(choose_shared(graph, choose_threads(threads), split)),
      pool_(choose_threads(threads)),
      threads_(static_cast<size_t>(choose_threads(threads))) {
  fixed_offset_.assign(graph_.values.size(), -1);
  for (const graph::Node& node : graph_.nodes) {
    const graph::Shape& shape = graph_.shape(node.output);
    if (shape.per_token()) continue;
    fixed_offset_[static_cast<size_t>(node.output)] = fixed_floats_;
    fixed_floats_ += shape.height * shape.cols;
  }
  const std::set<ValueId> shared = shared_ ? shared_matrices(graph_) : std::set<ValueId>{};
  parameter_offset_.resize(graph_.parameters.size());
  Index at = 0;
  for (const bool last : {false, true}) {
    for (size_t i = 0; i < graph_.parameters.size(); ++i) {
      if ((shared.count(graph_.parameters[i].value) > 0) != last) continue;
      parameter_offset_[i] = at;
      at += graph_.parameters[i].size();
    }
    if (!last) private_floats_ = at;
  }
  weights_.assign(static_cast<size_t>(at), 0);
  gradients_.assign(static_cast<size_t>(at), 0);
  for (size_t i = 1; i < threads_.size(); ++i) {
    threads_[i].gradients.assign(static_cast<size_t>(private_floats_), 0);
  }
  for (CpuThread& thread : threads_) {
    thread.fixed.assign(static_cast<size_t>(fixed_floats_), 0);
    thread.fixed_gradients.assign(static_cast<size_t>(fixed_floats_), 0);
  }
  work_ = [this](int thread) { CpuWorker(*this, thread).run(); };
}

std::span<float> CpuEngine::parameter(size_t i) {
  return {weights_.data() + parameter_offset_[i], static_cast<size_t>(graph_.parameters[i].size())};
}
std::span<float> CpuEngine::gradient(size_t i) {
  return {gradients_.data() + parameter_offset_[i],
          static_cast<size_t>(graph_.parameters[i].size())};
}
void CpuEngine::zero_gradients() { std::fill(gradients_.begin(), gradients_.end(), 0.0F); }

size_t CpuEngine::memory_bytes() const {
  size_t floats = weights_.size() + gradients_.size() + logits_.size() + logit_gradients_.size() +
                  cosines_.size() + sines_.size();
  for (const CpuThread& t : threads_) {
    floats += t.arena.size() + t.fixed.size() + t.fixed_gradients.size() + t.gradients.size() +
              t.scratch.size() + t.head_work.size();
  }
  for (const auto& [id, gathered] : gathered_)
    floats += gathered.value.size() + gathered.gradient.size();
  return floats * sizeof(float);
}

const graph::Plan& CpuEngine::plan_for(const nodes::Batch& batch, const Request& request) {
  for (const auto& [key, plan] : plans_) {
    if (key.sequences == batch.sequences && key.length == batch.length &&
        key.source_length == batch.source_length && key.backward == backward_ &&
        key.keep_logits == keep_logits_ && key.points == request.points) {
      return plan;
    }
  }
  constexpr size_t kept_plans = 8;
  if (plans_.size() == kept_plans) plans_.erase(plans_.begin());
  const auto threads = static_cast<Index>(threads_.size());
  const Index most = (batch.sequences + threads - 1) / threads;
  graph::PlanRequest wish;
  wish.backward = backward_;
  wish.keep_logits = keep_logits_;
  wish.shared_matrices = shared_;
  wish.kept = {request.points.begin(), request.points.end()};
  wish.target_rows = most * batch.length;
  wish.source_rows = most * batch.source_length;
  plans_.emplace_back(PlanKey{batch.sequences, batch.length, batch.source_length, backward_,
                              keep_logits_, request.points},
                      graph::make_plan(graph_, wish));
  return plans_.back().second;
}

void CpuEngine::prepare_tables(const nodes::Batch& batch) {
  const Index longest = std::max(batch.length, batch.source_length);
  for (const graph::Node& node : graph_.nodes) {
    if (const auto* rotary = std::get_if<nodes::Rotary>(&node.op)) {
      if (rotary_positions_ >= longest) continue;
      cosines_.resize(static_cast<size_t>(longest * rotary->rotary_dim / 2));
      sines_.resize(cosines_.size());
      kernels::rotary_table(longest, rotary->rotary_dim, rotary->base, cosines_.data(),
                            sines_.data());
      rotary_positions_ = longest;
    } else if (const auto* attention = std::get_if<nodes::Attention>(&node.op)) {
      if (attention->alibi && slopes_.empty()) {
        for (Index h = 0; h < attention->heads; ++h) {
          slopes_.push_back(static_cast<float>(nodes::alibi_slope(h, attention->heads)));
        }
      }
      if (attention->buckets > 0 && (span_ < longest || buckets_.empty())) {
        span_ = longest;
        buckets_.clear();
        causal_buckets_.clear();
        for (Index apart = -span_; apart <= span_; ++apart) {  // key minus query
          buckets_.push_back(static_cast<int32_t>(
              nodes::t5_bucket(-apart, true, attention->buckets, attention->distance)));
          causal_buckets_.push_back(static_cast<int32_t>(
              nodes::t5_bucket(-apart, false, attention->buckets, attention->distance)));
        }
      }
    }
  }
}

void CpuEngine::prepare_buffers(const nodes::Batch& batch, const Request& request) {
  const auto count = static_cast<Index>(threads_.size());
  Index scratch = 0;
  for (const graph::Node& node : graph_.nodes) {
    const auto* op = std::get_if<nodes::Attention>(&node.op);
    if (op == nullptr) continue;
    kernels::AttentionSpec spec;
    spec.queries = op->queries == graph::Rows::source ? batch.source_length : batch.length;
    spec.keys = op->keys == graph::Rows::source ? batch.source_length : batch.length;
    spec.heads = op->heads;
    spec.kv_heads = op->kv_heads;
    spec.head_dim = op->head_dim;
    spec.causal = op->causal;
    spec.softcap = static_cast<float>(op->softcap);
    spec.table =
        op->buckets > 0 ? weights_.data() : nullptr;  // only whether there is one counts here
    spec.span = span_;
    spec.bucket_count = op->buckets;
    scratch = std::max(scratch, kernels::attention_scratch(spec, backward_));
  }
  for (Index t = 0; t < count; ++t) {
    CpuThread& thread = threads_[static_cast<size_t>(t)];
    thread.first_sequence = batch.sequences * t / count;
    thread.sequences = batch.sequences * (t + 1) / count - thread.first_sequence;
    thread.view = prepared_.view(thread.first_sequence, thread.sequences);
    thread.loss = 0;
    grow(thread.arena, plan_->floats);
    grow(thread.scratch, scratch);
    const Index chunk = std::min(kernels::head_chunk_rows(graph_.vocab),
                                 std::max<Index>(1, thread.rows(graph::Rows::target)));
    grow(thread.head_work, chunk * graph_.vocab);
  }
  if (keep_logits_) {
    const auto size = static_cast<size_t>(prepared_.rows(graph::Rows::target) * graph_.vocab);
    logits_.assign(size, 0);
    logit_gradients_.assign(request.backward ? size : 0, 0);
  }
  for (auto& [id, gathered] : gathered_) {
    gathered.value.clear();
    gathered.gradient.clear();
  }
  for (const ValueId id : request.points) {
    Gathered& gathered = gathered_[id];
    const graph::Shape& shape = graph_.shape(id);
    const Index rows = shape.per_token() ? prepared_.rows(shape.rows) : shape.height;
    gathered.value.assign(static_cast<size_t>(rows * shape.cols), 0);
    gathered.gradient.assign(request.backward ? gathered.value.size() : 0, 0);
  }
}

double CpuEngine::run(const nodes::Batch& batch, const Request& request) {
  prepared_.prepare(graph_, batch, request);
  backward_ = request.backward && prepared_.target_count() > 0;
  keep_logits_ = request.keep_logits || std::find(request.points.begin(), request.points.end(),
                                                  graph_.logits) != request.points.end();
  plan_ = nullptr;
  try {
    prepare_tables(batch);
    plan_ = &plan_for(batch, request);
    prepare_buffers(batch, request);
  } catch (const std::bad_alloc&) {
    const auto threads = static_cast<Index>(threads_.size());
    refuse_memory(fmt::format("the values of {} sequences of {} tokens", batch.sequences,
                              std::max(batch.length, batch.source_length)),
                  plan_ == nullptr ? 0 : threads * plan_->floats,
                  "a smaller batch or a shorter context");
  }
  pool_.run(work_);
  for (const ValueId id : request.points) gather(id);
  double loss = 0;
  for (const CpuThread& thread : threads_) loss += thread.loss;
  return loss / prepared_.divisor();
}

// Points without rows; the others were copied by the threads.
void CpuEngine::gather(ValueId id) {
  const graph::Value& value = graph_.values[static_cast<size_t>(id)];
  Gathered& to = gathered_.at(id);
  if (id == graph_.logits) {
    to.value = logits_;
    to.gradient = logit_gradients_;
  } else if (value.parameter >= 0) {
    const auto index = static_cast<size_t>(value.parameter);
    std::copy(parameter(index).begin(), parameter(index).end(), to.value.begin());
    if (!to.gradient.empty())
      std::copy(gradient(index).begin(), gradient(index).end(), to.gradient.begin());
  } else if (const Index at = fixed_offset_[static_cast<size_t>(id)]; at >= 0) {
    for (size_t i = 0; i < to.value.size(); ++i) {
      const auto element = static_cast<size_t>(at) + i;
      to.value[i] = threads_[0].fixed[element];
      if (to.gradient.empty() || !backward_) continue;
      to.gradient[i] = 0;
      for (const CpuThread& thread : threads_) to.gradient[i] += thread.fixed_gradients[element];
    }
  }
}

std::span<const float> CpuEngine::point(ValueId id) const { return gathered_.at(id).value; }
std::span<const float> CpuEngine::point_gradient(ValueId id) const {
  return gathered_.at(id).gradient;
}

NonFinite CpuEngine::find_non_finite(const nodes::Batch& batch, const Request& request) {
  Request all = request;
  all.points.clear();
  for (const graph::Node& node : graph_.nodes) {
    if (node.output != graph_.loss) all.points.push_back(node.output);
  }
  const std::vector<float> before = gradients_;  // the caller's sum of gradients must not change
  zero_gradients();
  run(batch, all);
  const std::vector<float> made = std::exchange(gradients_, before);
  const auto bad = [&](std::span<const float> data, size_t* element) {
    const Index at = kernels::first_nonfinite(static_cast<Index>(data.size()), data.data());
    *element = static_cast<size_t>(std::max<Index>(at, 0));
    return at >= 0;
  };
  const auto values = [&](ValueId id) -> std::span<const float> {
    const int index = graph_.values[static_cast<size_t>(id)].parameter;
    if (index >= 0) return parameter(static_cast<size_t>(index));
    return gathered_.count(id) > 0 ? point(id) : std::span<const float>{};
  };
  const auto result = first_non_finite(
      graph_, batch.length, batch.source_length,
      [&](ValueId id, size_t* e) { return bad(values(id), e); },
      [&](ValueId id, size_t* e) {
        const int index = graph_.values[static_cast<size_t>(id)].parameter;
        if (index < 0) return gathered_.count(id) > 0 && bad(point_gradient(id), e);
        const auto parameter_index = static_cast<size_t>(index);
        return bad(
            {made.data() + parameter_offset_[parameter_index], gradient(parameter_index).size()},
            e);
      },
      [&](ValueId id) {
        const auto data = values(id);
        if (data.empty()) return std::pair(0.0, 0.0);
        const auto [low, high] = std::minmax_element(data.begin(), data.end());
        return std::pair<double, double>(*low, *high);
      });
  gathered_.clear();
  return result;
}

std::unique_ptr<Engine<float>> make_cpu(const graph::Graph& graph, int threads, Split split) {
  // The first product needs room for its code, so it comes before anything large is allocated.
  const float one = 1;
  float product = 0;
  kernels::matmul(false, false, 1, 1, 1, &one, 1, &one, 1, &product, 1, false);
  try {
    return std::make_unique<CpuEngine>(graph, threads, split);
  } catch (const std::bad_alloc&) {
    refuse_memory(fmt::format("the {} weights and their gradients", graph.parameter_count()),
                  2 * graph.parameter_count(), "a smaller model or fewer threads");
  }
}

}  // namespace addnorm::engine
