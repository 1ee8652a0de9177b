#include "addnorm/train/diagnostics.h"

#include <cmath>
#include <limits>

#include "addnorm/kernels/kernels.h"

namespace addnorm::train {
namespace {

double squares(std::span<const float> values) {
  return kernels::sum_squares(static_cast<kernels::Index>(values.size()), values.data());
}

double squared_distance(std::span<const float> a, std::span<const float> b) {
  double sum = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    const double difference = static_cast<double>(a[i]) - static_cast<double>(b[i]);
    sum += difference * difference;
  }
  return sum;
}

}  // namespace

double Diagnostics::Group::update_ratio() const {
  return weight_squares > 0 ? std::sqrt(update_squares / weight_squares) : 0;
}

Diagnostics::Diagnostics(const graph::Graph& graph) : graph_(graph) {
  for (const graph::Stack& stack : graph.stacks) {
    std::vector<Stream> streams;
    for (const graph::ValueId value : stack.layer_input) {
      points_.push_back(value);
      streams.push_back({});
      streams.back().value = value;
    }
    streams_.push_back(std::move(streams));
    layers_.emplace_back(static_cast<size_t>(stack.layers));
  }
}

void Diagnostics::begin() {
  for (auto& stack : streams_) {
    for (Stream& stream : stack) {
      const graph::ValueId value = stream.value;
      stream = {};
      stream.value = value;
    }
  }
  for (auto& stack : layers_) std::fill(stack.begin(), stack.end(), Group{});
  roles_.clear();
}

void Diagnostics::add_micro_batch(const engine::Engine<float>& engine, const nodes::Batch& batch) {
  for (size_t s = 0; s < streams_.size(); ++s) {
    const bool of_source = graph_.stacks[s].side == graph::StackSide::encoder;
    for (Stream& stream : streams_[s]) {
      measure_stream(engine, batch, stream, of_source, &stream == &streams_[s].back());
    }
  }
}

void Diagnostics::measure_stream(const engine::Engine<float>& engine, const nodes::Batch& batch,
                                 Stream& stream, bool of_source, bool correlation) const {
  const auto x = engine.point(stream.value);
  const auto gradient = engine.point_gradient(stream.value);
  const auto length = static_cast<size_t>(of_source ? batch.source_length : batch.length);
  const std::vector<uint8_t>& mask = of_source ? batch.source_mask : batch.mask;
  const auto width = static_cast<size_t>(graph_.width);
  std::vector<double> sum(width);
  for (size_t b = 0; b < static_cast<size_t>(batch.sequences); ++b) {
    std::fill(sum.begin(), sum.end(), 0.0);
    double own = 0;  // sum over this sequence of |x_t|^2
    double tokens = 0;
    for (size_t t = 0; t < length; ++t) {
      if (!mask.empty() && mask[b * length + t] == 0) continue;
      const auto row = x.subspan((b * length + t) * width, width);
      own += squares(row);
      tokens += 1;
      if (!correlation) continue;
      for (size_t c = 0; c < width; ++c) sum[c] += static_cast<double>(row[c]);
    }
    stream.squares += own;
    stream.elements += tokens * static_cast<double>(width);
    if (!correlation || tokens < 2) continue;
    double total = 0;  // |sum_t x_t|^2 = own + the products of all pairs
    for (const double one : sum) total += one * one;
    stream.pair_products += (total - own) / (tokens * (tokens - 1) * static_cast<double>(width));
    stream.sequences += 1;
  }
  stream.gradient_squares += squares(gradient);
}

Diagnostics::Group& Diagnostics::layer_group(const graph::Parameter& parameter) {
  size_t stack = 0;
  while (graph_.stacks[stack].side != parameter.side) ++stack;
  return layers_[stack][static_cast<size_t>(parameter.layer)];
}

void Diagnostics::before_update(engine::Engine<float>& engine) {
  before_.resize(graph_.parameters.size());
  for (size_t i = 0; i < graph_.parameters.size(); ++i) {
    const graph::Parameter& parameter = graph_.parameters[i];
    const auto weights = engine.parameter(i);
    before_[i].assign(weights.begin(), weights.end());
    const double gradient = squares(engine.gradient(i));
    const double weight = squares(weights);
    const auto add = [&](Group& group) {
      group.gradient_squares += gradient;
      group.weight_squares += weight;
    };
    add(roles_[parameter.role]);
    if (parameter.layer >= 0) add(layer_group(parameter));
  }
}

void Diagnostics::after_update(engine::Engine<float>& engine, bool updated) {
  if (!updated) return;
  for (size_t i = 0; i < graph_.parameters.size(); ++i) {
    const graph::Parameter& parameter = graph_.parameters[i];
    const double update = squared_distance(engine.parameter(i), before_[i]);
    roles_[parameter.role].update_squares += update;
    if (parameter.layer >= 0) layer_group(parameter).update_squares += update;
  }
}

Line Diagnostics::line(int64_t step, double seconds) const {
  std::string layers;
  std::string outs;
  for (size_t s = 0; s < streams_.size(); ++s) {
    const std::string& prefix = graph_.stacks[s].prefix;
    const std::string stack = json_text(prefix.substr(0, prefix.find('.')));
    for (size_t l = 0; l < layers_[s].size(); ++l) {
      const Stream& stream = streams_[s][l];
      const Group& group = layers_[s][l];
      layers += (layers.empty() ? "{\"layer\":" : ",{\"layer\":") + std::to_string(l) +
                ",\"stack\":" + stack +
                ",\"stream_ms\":" + json_number(stream.squares / stream.elements) +
                ",\"stream_grad_norm\":" + json_number(std::sqrt(stream.gradient_squares)) +
                ",\"grad_norm\":" + json_number(std::sqrt(group.gradient_squares)) +
                ",\"update_ratio\":" + json_number(group.update_ratio()) + "}";
    }
    const Stream& last = streams_[s].back();
    const double mean_square = last.squares / last.elements;
    const double pairs = last.sequences > 0 ? last.pair_products / last.sequences
                                            : std::numeric_limits<double>::quiet_NaN();
    outs += (outs.empty() ? "{\"stack\":" : ",{\"stack\":") + stack +
            ",\"stream_ms\":" + json_number(mean_square) +
            ",\"stream_grad_norm\":" + json_number(std::sqrt(last.gradient_squares)) +
            ",\"r\":" + json_number(pairs / mean_square) + "}";
  }
  std::string roles;
  for (const auto& [role, group] : roles_) {
    roles += (roles.empty() ? "" : ",") + json_text(graph::role_name(role)) +
             ":{\"grad_norm\":" + json_number(std::sqrt(group.gradient_squares)) +
             ",\"update_ratio\":" + json_number(group.update_ratio()) + "}";
  }
  Line line("diag");
  line.integer("step", step)
      .raw("layers", "[" + layers + "]")
      .raw("out", "[" + outs + "]")
      .raw("roles", "{" + roles + "}")
      .number("seconds", seconds);
  return line;
}

}  // namespace addnorm::train
