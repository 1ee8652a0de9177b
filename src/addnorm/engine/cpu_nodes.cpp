// One node at a time: which kernel computes it and its gradients.
#include <algorithm>

#include "addnorm/base/error.h"
#include "addnorm/engine/cpu.h"
#include "addnorm/engine/cpu_kernels.h"

namespace addnorm::engine {

using graph::Node;
using graph::StepPlan;

void CpuWorker::linear_forward(const Node& n, bool with_bias) {
  const ValueId x = n.inputs[0];
  const float* bias = with_bias && n.inputs.size() > 2 ? value(n.inputs[2]) : nullptr;
  kernels::linear(rows(x), cols(n.output), cols(x), value(x), value(n.inputs[1]), bias,
                  value(n.output));
}

void CpuWorker::linear_backward(const StepPlan& step, const Node& n, bool with_bias) {
  const ValueId x = n.inputs[0], weight = n.inputs[1];
  const Index out = cols(n.output), in = cols(x);
  if (const Target dx = target(step, x); dx.data != nullptr) {
    kernels::linear_dx(rows(x), out, in, gradient(n.output), value(weight), dx.data, dx.accumulate);
  }
  if (float* dw = parameter_gradient(weight); dw != nullptr && !is_shared(weight)) {
    kernels::linear_dw(rows(x), out, in, gradient(n.output), value(x), dw, true);
  } else if (dw != nullptr) {
    const auto [low, high] = slice(out);
    for (CpuThread& other : engine_.threads_) {
      const Index there = other.rows(engine_.graph_.shape(x).rows);
      kernels::matmul(true, false, high - low, in, there, gradient_of(other, n.output) + low, out,
                      value_of(other, x), in, dw + low * in, in, true);
    }
  }
  if (with_bias && n.inputs.size() > 2) {
    kernels::column_sums(rows(x), out, gradient(n.output), parameter_gradient(n.inputs[2]), true);
  }
}

// A norm alone, or with the sum before it (the first node of the step).
void CpuWorker::norm_pass(const StepPlan& step, const Node& n, bool is_backward) {
  const auto& op = std::get<nodes::Norm>(n.op);
  static_assert(static_cast<int>(nodes::NormKind::derf) ==
                static_cast<int>(kernels::NormKind::derf));
  kernels::NormSpec spec;
  kernels::NormGradients to;
  spec.kind = static_cast<kernels::NormKind>(op.kind);
  spec.n = op.width;
  spec.eps = static_cast<float>(op.eps);
  spec.unit_offset = op.unit_offset;
  const auto bind = [&](int place, const float*& from, float*& gradient_to) {
    if (place < 0) return;
    from = value(n.inputs[static_cast<size_t>(place)]);
    if (is_backward) gradient_to = parameter_gradient(n.inputs[static_cast<size_t>(place)]);
  };
  bind(op.weight_at(), spec.gain, to.gain);
  bind(op.bias_at(), spec.bias, to.bias);
  bind(op.alpha_at(), spec.alpha, to.alpha);
  bind(op.shift_at(), spec.shift, to.shift);
  const Index count = rows(n.output) * cols(n.output) / op.width;
  float* stats = step.stats < 0 ? nullptr : self_.arena.data() + step.stats;
  const ValueId x = n.inputs[0];
  if (step.step.kind != graph::Step::Kind::add_norm) {
    if (!is_backward) {
      kernels::norm(spec, count, value(x), value(n.output), stats);
    } else {
      const Target dx = target(step, x);
      kernels::norm_backward(spec, count, value(x), stats, gradient(n.output), dx.data,
                             dx.accumulate, to);
    }
    return;
  }
  const Node& add = node(step, 0);
  const auto& sum = std::get<nodes::Sum>(add.op);
  const auto weight = [&](size_t i) { return static_cast<float>(sum.weights[i].at(self_.view)); };
  if (!is_backward) {
    kernels::add_norm(spec, count, weight(0), value(add.inputs[0]), weight(1), value(add.inputs[1]),
                      value(add.output), value(n.output), stats);
    return;
  }
  const Target total = target(step, add.output);
  kernels::AddNormOutputs outputs;
  outputs.dsum_out = total.data;
  const Target a = target(step, add.inputs[0]), b = target(step, add.inputs[1]);
  outputs.ca = weight(0);
  outputs.da = a.aliased ? nullptr : a.data;
  outputs.accumulate_a = a.accumulate;
  outputs.cb = weight(1);
  outputs.db = b.aliased ? nullptr : b.data;
  outputs.accumulate_b = b.accumulate;
  kernels::add_norm_backward(spec, count, value(add.output), stats, gradient(n.output),
                             total.accumulate ? total.data : nullptr, outputs, to);
}

void CpuWorker::attention_pass(const StepPlan& step, const Node& n, bool is_backward) {
  const auto& op = std::get<nodes::Attention>(n.op);
  const nodes::BatchView& view = self_.view;
  kernels::AttentionSpec spec;
  spec.queries = op.query_length(view);
  spec.keys = op.key_length(view);
  spec.heads = op.heads;
  spec.kv_heads = op.kv_heads;
  spec.head_dim = op.head_dim;
  spec.causal = op.causal;
  spec.scale = static_cast<float>(op.scale.at(view));
  spec.softcap = static_cast<float>(op.softcap);
  spec.slopes = op.alibi ? engine_.slopes_.data() : nullptr;
  if (op.buckets > 0) {
    spec.table = value(n.inputs[3]);
    spec.buckets = (op.causal ? engine_.causal_buckets_ : engine_.buckets_).data();
    spec.span = engine_.span_;
    spec.bucket_count = op.buckets;
  }
  const Index q_pitch = cols(n.inputs[0]), kv_pitch = cols(n.inputs[1]);
  float* lse = self_.arena.data() + step.stats;
  Target dq, dk, dv;
  float* dtable = nullptr;
  if (is_backward) {
    dq = target(step, n.inputs[0]);
    dk = target(step, n.inputs[1]);
    dv = target(step, n.inputs[2]);
    dtable = op.buckets > 0 ? parameter_gradient(n.inputs[3]) : nullptr;
  }
  for (Index b = 0; b < self_.sequences; ++b) {
    const Index q_row = b * spec.queries, k_row = b * spec.keys;
    spec.key_mask = op.key_mask(view) == nullptr ? nullptr : op.key_mask(view) + k_row;
    spec.query_positions = op.positions(view, op.queries) + q_row;
    spec.key_positions = op.positions(view, op.keys) + k_row;
    const float* q = value(n.inputs[0]) + q_row * q_pitch;
    const float* k = value(n.inputs[1]) + k_row * kv_pitch;
    const float* v = value(n.inputs[2]) + k_row * kv_pitch;
    float* out = value(n.output) + q_row * q_pitch;
    if (!is_backward) {
      kernels::attention(spec, 0, op.kv_heads, q, q_pitch, k, kv_pitch, v, kv_pitch, out, q_pitch,
                         lse + q_row * op.heads, self_.scratch.data());
      continue;
    }
    const auto shifted = [](float* data, Index by) {
      return data == nullptr ? nullptr : data + by;
    };
    kernels::AttentionGradients to;
    to.dq = shifted(dq.data, q_row * q_pitch);
    to.dk = shifted(dk.data, k_row * kv_pitch);
    to.dv = shifted(dv.data, k_row * kv_pitch);
    to.accumulate_q = dq.accumulate;
    to.accumulate_k = dk.accumulate;
    to.accumulate_v = dv.accumulate;
    to.dtable = dtable;
    kernels::attention_backward(spec, 0, op.kv_heads, q, q_pitch, k, kv_pitch, v, kv_pitch, out,
                                q_pitch, lse + q_row * op.heads,
                                gradient(n.output) + q_row * q_pitch, to, self_.scratch.data());
  }
}

void CpuWorker::embedding_backward(const Node& n, const nodes::Embedding& op) {
  float* table = parameter_gradient(n.inputs[0]);
  if (table == nullptr) return;
  const Index width = cols(n.output);
  if (!is_shared(n.inputs[0])) {
    kernels::scatter_add(rows(n.output), width, op.ids(self_.view), gradient(n.output), 1, table);
    return;
  }
  const auto [low, high] = slice(engine_.graph_.shape(n.inputs[0]).height);
  for (CpuThread& other : engine_.threads_) {
    const int32_t* ids = op.ids(other.view);
    const float* from = gradient_of(other, n.output);
    for (Index i = 0; i < other.rows(op.rows); ++i) {
      if (ids[i] >= low && ids[i] < high)
        kernels::scatter_add(1, width, ids + i, from + i * width, 1, table);
    }
  }
}

struct NodeForward {
  CpuWorker& w;
  const StepPlan& step;
  const Node& n;

  float* in(size_t i) const { return w.value(n.inputs[i]); }
  float* out() const { return w.value(n.output); }
  Index rows() const { return w.rows(n.output); }
  Index cols() const { return w.cols(n.output); }
  kernels::Shape shape(size_t i) const {
    return operand_shape(w.engine_.graph_.shape(n.inputs[i]), w.engine_.graph_.shape(n.output));
  }

  void operator()(const nodes::Embedding& op) const {
    kernels::gather(rows(), cols(), op.ids(w.self_.view), in(0), 1, out(), false);
  }
  void operator()(const nodes::SinusoidalPositions& op) const {
    op.forward(nodes::Forward<float>{w.self_.view, {}, {out(), rows(), cols()}});
  }
  void operator()(const nodes::Norm&) const { w.norm_pass(step, n, false); }
  void operator()(const nodes::Linear&) const { w.linear_forward(n, true); }
  void operator()(const nodes::Attention&) const { w.attention_pass(step, n, false); }
  void operator()(const nodes::Rotary& op) const { rotate(op, false, in(0), out(), false); }
  void rotate(const nodes::Rotary& op, bool inverse, const float* from, float* to,
              bool accumulate) const {
    const int32_t* positions =
        op.rows == graph::Rows::source ? w.self_.view.source_positions : w.self_.view.positions;
    const auto layout =
        op.interleaved ? kernels::RotaryLayout::interleaved : kernels::RotaryLayout::half;
    kernels::rotary(layout, rows(), cols() / op.head_dim, op.head_dim, op.rotary_dim, positions,
                    w.engine_.cosines_.data(), w.engine_.sines_.data(), inverse, from, to,
                    accumulate);
  }
  void operator()(const nodes::HeadScale& op) const {
    kernels::head_scale(rows(), cols() / op.head_dim, op.head_dim, in(0), in(1), out());
  }
  void operator()(const nodes::Sum& op) const {
    constexpr size_t most = 8;  // longer sums go in parts
    kernels::Term terms[most];
    size_t used = 0;
    float constant = static_cast<float>(op.constant.at(w.self_.view));
    for (size_t i = 0; i < op.weights.size(); ++i) {
      if (used == most) {
        kernels::weighted_sum(rows(), cols(), constant, static_cast<Index>(used), terms, out());
        terms[0] = {out(), 1, kernels::Shape::tensor};
        used = 1;
        constant = 0;
      }
      terms[used++] = {in(i), static_cast<float>(op.weights[i].at(w.self_.view)), shape(i)};
    }
    kernels::weighted_sum(rows(), cols(), constant, static_cast<Index>(used), terms, out());
  }
  void operator()(const nodes::Binary& op) const {
    kernels::binary(static_cast<kernels::Binary>(op.kind), rows(), cols(), in(0), shape(0), in(1),
                    shape(1), out());
  }
  kernels::Function function(const nodes::Unary& op) const {
    const nodes::BatchView& view = w.self_.view;
    return {unary_kind(op.kind), static_cast<float>(op.low.at(view)),
            static_cast<float>(op.high.at(view))};
  }
  void operator()(const nodes::Unary& op) const {
    kernels::unary(function(op), rows() * cols(), in(0), out());
  }
  kernels::Shape width_shape(size_t i) const {
    return w.engine_.graph_.shape(n.inputs[i]).per_token() ? kernels::Shape::tensor
                                                           : kernels::Shape::vector;
  }
  void operator()(const nodes::Dot&) const {
    kernels::dot(rows(), w.cols(n.inputs[0]), in(0), width_shape(0), in(1), width_shape(1), out());
  }
  void operator()(const nodes::Rms&) const {
    kernels::rms(rows(), w.cols(n.inputs[0]), in(0), out());
  }
  void operator()(const nodes::Detach&) const { std::copy_n(in(0), rows() * cols(), out()); }
  void operator()(const nodes::Drop& op) const {
    const nodes::BatchView& view = w.self_.view;
    kernels::dropout(view.dropout_seed, op.stream,
                     view.training ? static_cast<float>(op.rate) : 0.0F,
                     static_cast<uint64_t>(op.first_element(view, cols())), rows() * cols(), in(0),
                     out(), false);
  }
  void operator()(const nodes::CrossEntropy&) const { ADDNORM_ASSERT(!"part of the head"); }
};

struct NodeBackward {
  CpuWorker& w;
  const StepPlan& step;
  const Node& n;
  const NodeForward f{w, step, n};

  CpuWorker::Target to(size_t i) const { return w.target(step, n.inputs[i]); }
  float* grad() const { return w.gradient(n.output); }

  void operator()(const nodes::Embedding& op) const { w.embedding_backward(n, op); }
  void operator()(const nodes::SinusoidalPositions&) const {}
  void operator()(const nodes::Norm&) const { w.norm_pass(step, n, true); }
  void operator()(const nodes::Linear&) const { w.linear_backward(step, n, true); }
  void operator()(const nodes::Attention&) const { w.attention_pass(step, n, true); }
  void operator()(const nodes::Rotary& op) const {
    const auto d = to(0);
    f.rotate(op, true, grad(), d.data, d.accumulate);
  }
  void operator()(const nodes::HeadScale& op) const {
    const auto d = to(0);
    kernels::head_scale_backward(f.rows(), f.cols() / op.head_dim, op.head_dim, f.in(0), f.in(1),
                                 grad(), d.data, d.accumulate, to(1).data);
  }
  void operator()(const nodes::Sum& op) const {
    for (size_t i = 0; i < op.weights.size(); ++i) {
      const auto d = to(i);
      if (d.data == nullptr || d.aliased) continue;
      kernels::weighted_sum_backward(f.rows(), f.cols(),
                                     static_cast<float>(op.weights[i].at(w.self_.view)), grad(),
                                     f.shape(i), d.data, d.accumulate);
    }
  }
  void operator()(const nodes::Binary& op) const {
    const auto a = to(0), b = to(1);
    const auto kind = static_cast<kernels::Binary>(op.kind);
    const bool twice = a.data != nullptr && a.data == b.data;
    kernels::binary_backward(kind, f.rows(), f.cols(), f.in(0), f.shape(0), f.in(1), f.shape(1),
                             grad(), a.data, a.accumulate, twice ? nullptr : b.data, b.accumulate);
    if (!twice) return;
    kernels::binary_backward(kind, f.rows(), f.cols(), f.in(0), f.shape(0), f.in(1), f.shape(1),
                             grad(), nullptr, false, b.data, true);
  }
  void operator()(const nodes::Unary& op) const {
    const auto d = to(0);
    kernels::unary_backward(f.function(op), f.rows() * f.cols(), f.in(0), grad(), d.data,
                            d.accumulate);
  }
  void operator()(const nodes::Dot&) const {
    const auto a = to(0), b = to(1);
    const bool twice = a.data != nullptr && a.data == b.data;
    const Index width = w.cols(n.inputs[0]);
    kernels::dot_backward(f.rows(), width, f.in(0), f.width_shape(0), f.in(1), f.width_shape(1),
                          grad(), a.data, a.accumulate, twice ? nullptr : b.data, b.accumulate);
    if (!twice) return;
    kernels::dot_backward(f.rows(), width, f.in(0), f.width_shape(0), f.in(1), f.width_shape(1),
                          grad(), nullptr, false, b.data, true);
  }
  void operator()(const nodes::Rms&) const {
    const auto d = to(0);
    kernels::rms_backward(f.rows(), w.cols(n.inputs[0]), f.in(0), f.out(), grad(), d.data,
                          d.accumulate);
  }
  void operator()(const nodes::Detach&) const {}
  void operator()(const nodes::Drop& op) const {
    const auto d = to(0);
    const nodes::BatchView& view = w.self_.view;
    kernels::dropout(view.dropout_seed, op.stream,
                     view.training ? static_cast<float>(op.rate) : 0.0F,
                     static_cast<uint64_t>(op.first_element(view, f.cols())), f.rows() * f.cols(),
                     grad(), d.data, d.accumulate);
  }
  void operator()(const nodes::CrossEntropy&) const {}
};

void CpuWorker::forward(const StepPlan& step, const Node& n) {
  std::visit(NodeForward{*this, step, n}, n.op);
}
void CpuWorker::backward(const StepPlan& step, const Node& n) {
  std::visit(NodeBackward{*this, step, n}, n.op);
}

}  // namespace addnorm::engine
