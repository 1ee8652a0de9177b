#include "addnorm/train/optimizer.h"

#include <fmt/format.h>

#include <cmath>

#include "addnorm/base/error.h"
#include "addnorm/formula/scalar.h"
#include "addnorm/kernels/kernels.h"

namespace addnorm::train {
namespace {

Optimizer::Kind parse_kind(const std::string& name) {
  if (name == "adam") return Optimizer::Kind::adam;
  if (name == "adamw") return Optimizer::Kind::adamw;
  if (name == "sgd") return Optimizer::Kind::sgd;
  fail_input("train.optimizer", fmt::format("expected adam, adamw or sgd, got \"{}\"", name));
}

}  // namespace

std::vector<ParameterFactors> parameter_factors(const model::TrainSection& train,
                                                const graph::ModelShape& shape,
                                                const graph::Graph& graph, int64_t t) {
  std::vector<ParameterFactors> factors;
  const auto at = static_cast<double>(t);
  for (const graph::Parameter& parameter : graph.parameters) {
    factors.push_back({model::lr_scale(train, shape, parameter.role, parameter.side, at),
                       model::decay_scale(train, shape, parameter.role, parameter.side, at)});
  }
  return factors;
}

bool factors_change(const model::TrainSection& train) {
  for (const auto* table : {&train.lr_scale, &train.decay}) {
    for (const auto& [role, text] : *table) {
      if (formula::reads(*formula::parse_expression(text), "t")) return true;
    }
  }
  return false;
}

Optimizer::Optimizer(const model::TrainSection& train, const graph::Graph& graph,
                     std::vector<ParameterFactors> factors)
    : kind_(parse_kind(train.optimizer)),
      beta1_(train.beta1),
      beta2_(train.beta2),
      eps_(train.eps),
      momentum_(train.momentum),
      weight_decay_(model::weight_decay(train)),
      factors_(std::move(factors)),
      first_(graph.parameters.size()),
      second_(graph.parameters.size()) {
  ADDNORM_ASSERT(factors_.size() == graph.parameters.size());
  for (size_t i = 0; i < graph.parameters.size(); ++i) {
    names_.push_back(graph.parameters[i].name);
    const auto size = static_cast<size_t>(graph.parameters[i].size());
    if (kind_ != Kind::sgd || momentum_ != 0) first_[i].resize(size);
    if (kind_ != Kind::sgd) second_[i].resize(size);
  }
}

bool Optimizer::update(engine::Engine<float>& engine, Pieces& pieces, int64_t t, double lr,
                       double gradient_factor) {
  if (factors_at_) factors_ = factors_at_(t);
  // From the betas as the kernel has them: 1 - 0.999F differs from 0.001 by 1e-5 of it.
  const auto correction = [t](double beta) {
    return 1 /
           (1 - std::pow(static_cast<double>(static_cast<float>(beta)), static_cast<double>(t)));
  };
  const auto step_piece = [&](const Piece& piece) {
    const size_t i = piece.parameter;
    const auto count = static_cast<kernels::Index>(piece.count);
    const auto rate = static_cast<float>(lr * factors_[i].lr_scale);
    const auto decay = static_cast<float>(weight_decay_ * factors_[i].decay);
    float* w = piece.of(engine.parameter(i)).data();
    float* g = piece.of(engine.gradient(i)).data();
    float* first = first_[i].empty() ? nullptr : first_[i].data() + piece.first;
    if (kind_ == Kind::sgd) {
      kernels::SgdStep step;
      step.gradient_scale = static_cast<float>(gradient_factor);
      step.rate = rate;
      step.momentum = static_cast<float>(momentum_);
      step.decay = decay;
      kernels::sgd(step, count, w, g, first);
      return;
    }
    kernels::AdamStep step;
    step.gradient_scale = static_cast<float>(gradient_factor);
    step.rate = rate;
    step.beta1 = static_cast<float>(beta1_);
    step.beta2 = static_cast<float>(beta2_);
    step.correction1 = static_cast<float>(correction(beta1_));
    step.correction2 = static_cast<float>(correction(beta2_));
    step.eps = static_cast<float>(eps_);
    step.decay = decay;
    step.decoupled = kind_ == Kind::adamw;
    kernels::adam(step, count, w, g, first, second_[i].data() + piece.first);
  };
  // Judged piece by piece, while they are in the cache.
  return pieces.sum([&](const Piece& piece) {
    step_piece(piece);
    return finite(engine, piece) ? 0.0 : 1.0;
  }) == 0;
}

bool Optimizer::finite(engine::Engine<float>& engine, const Piece& piece) const {
  const auto all_finite = [&](const float* values) {
    return kernels::first_nonfinite(static_cast<kernels::Index>(piece.count), values) < 0;
  };
  const std::vector<float>& first = first_[piece.parameter];
  const std::vector<float>& second = second_[piece.parameter];
  return all_finite(piece.of(engine.parameter(piece.parameter)).data()) &&
         (first.empty() || all_finite(first.data() + piece.first)) &&
         (second.empty() || all_finite(second.data() + piece.first));
}

BadElement Optimizer::first_non_finite(engine::Engine<float>& engine, Pieces& pieces) const {
  const double bad =
      pieces.sum([&](const Piece& piece) { return finite(engine, piece) ? 0.0 : 1.0; });
  if (bad == 0) return {};
  const char* first_name = kind_ == Kind::sgd ? "momentum:" : "m:";
  for (size_t i = 0; i < names_.size(); ++i) {
    const auto find = [](std::span<const float> values) {
      return kernels::first_nonfinite(static_cast<kernels::Index>(values.size()), values.data());
    };
    if (const auto at = find(engine.parameter(i)); at >= 0) return {names_[i], at};
    if (const auto at = find(first_[i]); at >= 0) return {first_name + names_[i], at};
    if (const auto at = find(second_[i]); at >= 0) return {"v:" + names_[i], at};
  }
  return {};
}

std::vector<Optimizer::Moment> Optimizer::moments() {
  std::vector<Moment> all;
  for (size_t i = 0; i < names_.size(); ++i) {
    const char* first_name = kind_ == Kind::sgd ? "momentum:" : "m:";
    if (!first_[i].empty()) all.push_back({first_name + names_[i], i, &first_[i]});
    if (!second_[i].empty()) all.push_back({"v:" + names_[i], i, &second_[i]});
  }
  return all;
}

}  // namespace addnorm::train
