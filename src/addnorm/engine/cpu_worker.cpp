// What one thread of the cpu engine does: the nodes of a step on its own rows, forward and backward.
#include <algorithm>

#include "addnorm/base/error.h"
#include "addnorm/engine/cpu.h"
#include "addnorm/engine/cpu_kernels.h"
#include "addnorm/kernels/kernels.h"

namespace addnorm::engine {

using graph::Step;
using graph::StepPlan;

CpuWorker::CpuWorker(CpuEngine& engine, int thread)
    : engine_(engine), self_(engine.threads_[static_cast<size_t>(thread)]), number_(thread) {}

const graph::Node& CpuWorker::node(const StepPlan& step, size_t i) const {
  return engine_.graph_.nodes[static_cast<size_t>(step.step.nodes[i])];
}

Index CpuWorker::rows(ValueId id) const {
  const graph::Shape& shape = engine_.graph_.shape(id);
  return shape.per_token() ? self_.rows(shape.rows) : shape.height;
}

float* CpuWorker::value_of(CpuThread& thread, ValueId id) {
  const auto index = static_cast<size_t>(id);
  const graph::Value& value = engine_.graph_.values[index];
  if (value.parameter >= 0) {
    return engine_.weights_.data() +
           engine_.parameter_offset_[static_cast<size_t>(value.parameter)];
  }
  if (engine_.fixed_offset_[index] >= 0) return thread.fixed.data() + engine_.fixed_offset_[index];
  ADDNORM_ASSERT(engine_.plan_->value[index] >= 0);
  return thread.arena.data() + engine_.plan_->value[index];
}

float* CpuWorker::gradient_of(CpuThread& thread, ValueId id) {
  const auto index = static_cast<size_t>(id);
  if (engine_.fixed_offset_[index] >= 0)
    return thread.fixed_gradients.data() + engine_.fixed_offset_[index];
  ADDNORM_ASSERT(engine_.plan_->gradient[index] >= 0);
  return thread.arena.data() + engine_.plan_->gradient[index];
}

bool CpuWorker::is_shared(ValueId id) const {
  const int parameter = engine_.graph_.values[static_cast<size_t>(id)].parameter;
  return engine_.parameter_offset_[static_cast<size_t>(parameter)] >= engine_.private_floats_;
}

float* CpuWorker::parameter_gradient(ValueId id) {
  if (!wanted(id)) return nullptr;
  const int parameter = engine_.graph_.values[static_cast<size_t>(id)].parameter;
  const Index at = engine_.parameter_offset_[static_cast<size_t>(parameter)];
  if (number_ == 0 || is_shared(id)) return engine_.gradients_.data() + at;
  return self_.gradients.data() + at;
}

CpuWorker::Target CpuWorker::target(const StepPlan& step, ValueId id) {
  if (!wanted(id)) return {};
  if (engine_.graph_.values[static_cast<size_t>(id)].parameter >= 0)
    return {parameter_gradient(id), true, false};
  if (engine_.fixed_offset_[static_cast<size_t>(id)] >= 0) return {gradient(id), true, false};
  const size_t place = next_gradient_++;
  ADDNORM_ASSERT(step.gradient_inputs[place] == id);
  return {gradient(id), step.accumulate[place], step.aliased[place]};
}

std::pair<Index, Index> CpuWorker::slice(Index size) const {
  const auto count = static_cast<Index>(engine_.threads_.size());
  return {size * number_ / count, size * (number_ + 1) / count};
}

void CpuWorker::run() {
  const auto& steps = engine_.plan_->steps;
  if (engine_.backward_) {
    std::fill(self_.gradients.begin(), self_.gradients.end(), 0.0F);
    std::fill(self_.fixed_gradients.begin(), self_.fixed_gradients.end(), 0.0F);
  }
  for (size_t s = 0; s + 1 < steps.size(); ++s) forward(steps[s]);
  head(steps.back());
  if (engine_.backward_) {
    for (size_t s = steps.size() - 1; s-- > 0;) backward(steps[s]);
  }
  finish();
}

void CpuWorker::forward(const StepPlan& step) {
  switch (step.step.kind) {
    case Step::Kind::single:
      forward(step, node(step, 0));
      break;
    case Step::Kind::add_norm:
      norm_pass(step, node(step, 1), false);
      break;
    case Step::Kind::linear_activation: {
      const graph::Node& linear = node(step, 0);
      const graph::Node& unary = node(step, 1);
      linear_forward(linear, false);
      const float* bias = linear.inputs.size() > 2 ? value(linear.inputs[2]) : nullptr;
      kernels::bias_activation(activation(unary), rows(linear.output), cols(linear.output), bias,
                               value(linear.output), value(unary.output));
      break;
    }
    case Step::Kind::gated: {
      const graph::Node& in = node(step, 0);
      const graph::Node& gate = node(step, 1);
      linear_forward(in, false);
      linear_forward(gate, false);
      const float* in_bias = in.inputs.size() > 2 ? value(in.inputs[2]) : nullptr;
      const float* gate_bias = gate.inputs.size() > 2 ? value(gate.inputs[2]) : nullptr;
      kernels::gated_activation(activation(node(step, 2)), rows(in.output), cols(in.output),
                                gate_bias, value(gate.output), in_bias, value(in.output),
                                value(node(step, 3).output));
      break;
    }
    case Step::Kind::head:
      break;
  }
}

void CpuWorker::backward(const StepPlan& step) {
  const ValueId out = node(step, step.step.nodes.size() - 1).output;
  if (!wanted(out)) return;
  next_gradient_ = 0;
  // Before a step reads the gradients of other threads' rows, these must be there.
  const auto meet = [&] {
    if (step.barrier) engine_.pool_.barrier();
  };
  switch (step.step.kind) {
    case Step::Kind::single:
      meet();
      backward(step, node(step, 0));
      break;
    case Step::Kind::add_norm:
      norm_pass(step, node(step, 1), true);
      break;
    case Step::Kind::linear_activation: {
      const graph::Node& linear = node(step, 0);
      const Target pre = target(step, linear.output);
      float* bias = linear.inputs.size() > 2 ? parameter_gradient(linear.inputs[2]) : nullptr;
      kernels::bias_activation_backward(activation(node(step, 1)), rows(out), cols(out),
                                        value(linear.output), gradient(out), pre.data, bias);
      meet();
      linear_backward(step, linear, false);
      break;
    }
    case Step::Kind::gated: {
      const graph::Node& in = node(step, 0);
      const graph::Node& gate = node(step, 1);
      const Target to_in = target(step, in.output);
      const Target to_gate = target(step, gate.output);
      float* in_bias = in.inputs.size() > 2 ? parameter_gradient(in.inputs[2]) : nullptr;
      float* gate_bias = gate.inputs.size() > 2 ? parameter_gradient(gate.inputs[2]) : nullptr;
      kernels::gated_activation_backward(activation(node(step, 2)), rows(out), cols(out),
                                         value(gate.output), value(in.output), gradient(out),
                                         to_gate.data, to_in.data, gate_bias, in_bias);
      meet();
      linear_backward(step, in, false);
      linear_backward(step, gate, false);
      break;
    }
    case Step::Kind::head:
      break;
  }
}

// Logits, loss and, in one go, the gradients of both, chunk after chunk of rows.
void CpuWorker::head(const StepPlan& step) {
  const graph::Node& linear = node(step, 0);
  const nodes::BatchView& view = self_.view;
  kernels::HeadSpec spec;
  spec.width = engine_.graph_.width;
  spec.vocab = engine_.graph_.vocab;
  spec.w = value(linear.inputs[1]);
  spec.bias = linear.inputs.size() > 2 ? value(linear.inputs[2]) : nullptr;
  for (const int n : step.step.nodes) {
    const nodes::Op& op = engine_.graph_.nodes[static_cast<size_t>(n)].op;
    if (const auto* sum = std::get_if<nodes::Sum>(&op)) {
      spec.logit_scale = static_cast<float>(sum->weights[0].at(view));
    } else if (const auto* cap = std::get_if<nodes::Unary>(&op)) {
      spec.softcap = static_cast<float>(cap->low.at(view));
    }
  }
  spec.label_smoothing = static_cast<float>(view.label_smoothing);
  spec.z_loss = static_cast<float>(view.z_loss);
  spec.row_weight = static_cast<float>(1 / engine_.prepared_.divisor());
  const bool gradient_too = engine_.backward_;
  next_gradient_ = 0;
  const Target dx = gradient_too ? target(step, linear.inputs[0]) : Target{};
  float* dw = gradient_too ? parameter_gradient(linear.inputs[1]) : nullptr;
  float* dbias =
      gradient_too && spec.bias != nullptr ? parameter_gradient(linear.inputs[2]) : nullptr;

  const Index chunk = kernels::head_chunk_rows(spec.vocab);
  const bool together = gradient_too && engine_.shared_;
  Index most = 0;  // chunks of the thread with most rows: all must meet at the barriers
  for (const CpuThread& thread : engine_.threads_) {
    most = std::max(most, (thread.rows(graph::Rows::target) + chunk - 1) / chunk);
  }
  const Index own = self_.rows(graph::Rows::target);
  const Index first_row = self_.first_sequence * view.length;
  for (Index c = 0; c < most; ++c) {
    const Index begin = std::min(own, c * chunk), count = std::min(own, begin + chunk) - begin;
    const float* x = value(linear.inputs[0]) + begin * spec.width;
    const Index at = (first_row + begin) * spec.vocab;
    self_.loss +=
        kernels::head_chunk(
            spec, count, x, view.targets + begin, gradient_too, self_.head_work.data(),
            engine_.keep_logits_ ? engine_.logits_.data() + at : nullptr,
            engine_.keep_logits_ && gradient_too ? engine_.logit_gradients_.data() + at : nullptr,
            dx.data == nullptr ? nullptr : dx.data + begin * spec.width, dx.accumulate)
            .loss;
    if (!gradient_too) continue;
    if (!together) {
      kernels::head_weight_gradients(spec, count, x, self_.head_work.data(), 0, spec.vocab, dw,
                                     dbias);
      continue;
    }
    if (dbias != nullptr)
      kernels::column_sums(count, spec.vocab, self_.head_work.data(), dbias, true);
    engine_.pool_.barrier();
    const auto [low, high] = slice(spec.vocab);
    for (CpuThread& other : engine_.threads_) {
      const Index rows_there = other.rows(graph::Rows::target);
      const Index from = std::min(rows_there, c * chunk);
      const Index rows_now = std::min(rows_there, from + chunk) - from;
      kernels::head_weight_gradients(spec, rows_now,
                                     value_of(other, linear.inputs[0]) + from * spec.width,
                                     other.head_work.data(), low, high, dw, nullptr);
    }
    engine_.pool_.barrier();
  }
}

// Adds up private gradients in the order of the threads and copies the points that were asked for.
void CpuWorker::finish() {
  if (engine_.backward_ && engine_.threads_.size() > 1) {
    engine_.pool_.barrier();
    const auto [low, high] = slice(engine_.private_floats_);
    for (size_t t = 1; t < engine_.threads_.size(); ++t) {
      kernels::add(high - low, engine_.threads_[t].gradients.data() + low,
                   engine_.gradients_.data() + low);
    }
  }
  for (auto& [id, gathered] : engine_.gathered_) {
    const graph::Shape& shape = engine_.graph_.shape(id);
    const auto index = static_cast<size_t>(id);
    if (!shape.per_token() || engine_.plan_->value[index] < 0 || gathered.value.empty()) continue;
    const Index length =
        shape.rows == graph::Rows::source ? self_.view.source_length : self_.view.length;
    const Index at = self_.first_sequence * length * shape.cols;
    const Index size = rows(id) * shape.cols;
    if (at + size > static_cast<Index>(gathered.value.size())) continue;
    std::copy_n(value(id), size, gathered.value.data() + at);
    if (!gathered.gradient.empty() && engine_.backward_ && engine_.plan_->gradient[index] >= 0) {
      std::copy_n(gradient(id), size, gathered.gradient.data() + at);
    }
  }
}

}  // namespace addnorm::engine
