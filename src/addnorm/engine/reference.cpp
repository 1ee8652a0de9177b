// The reference engine: every value and every gradient in an array of its own, node after node.
#include <algorithm>
#include <cmath>
#include <vector>

#include "addnorm/base/error.h"
#include "addnorm/engine/batch_check.h"
#include "addnorm/engine/engine.h"
#include "addnorm/engine/nonfinite.h"

namespace addnorm::engine {
namespace {

using graph::ValueId;
using nodes::View;

template <class T>
class Reference final : public Engine<T> {
 public:
  explicit Reference(const graph::Graph& graph)
      : graph_(graph),
        wanted_(graph.needs_gradient()),
        values_(graph.values.size()),
        gradients_(graph.values.size()) {
    for (const graph::Parameter& parameter : graph_.parameters) {
      values_[index(parameter.value)].assign(static_cast<size_t>(parameter.size()), T(0));
      gradients_[index(parameter.value)].assign(static_cast<size_t>(parameter.size()), T(0));
    }
  }

  const graph::Graph& graph() const override { return graph_; }
  std::span<T> parameter(size_t i) override { return values_[index(graph_.parameters[i].value)]; }
  std::span<T> gradient(size_t i) override { return gradients_[index(graph_.parameters[i].value)]; }

  void zero_gradients() override {
    for (size_t i = 0; i < graph_.parameters.size(); ++i) {
      std::fill(gradient(i).begin(), gradient(i).end(), T(0));
    }
  }

  double run(const nodes::Batch& batch, const Request& request) override {
    prepared_.prepare(graph_, batch, request);
    const nodes::BatchView view = prepared_.view(0, batch.sequences);
    for (size_t v = 0; v < values_.size(); ++v) {
      if (graph_.values[v].parameter >= 0) continue;
      const int64_t size = rows(static_cast<ValueId>(v)) * graph_.values[v].shape.cols;
      values_[v].assign(static_cast<size_t>(size), T(0));
      gradients_[v].assign(request.backward ? static_cast<size_t>(size) : 0, T(0));
    }
    for (const graph::Node& node : graph_.nodes) {
      gather(node);
      const nodes::Forward<T> io{view, in_, view_of(values_, node.output)};
      std::visit([&](const auto& op) { op.forward(io); }, node.op);
    }
    if (request.backward && prepared_.target_count() > 0) backward(view);
    return nodes::real_part(values_[index(graph_.loss)][0]);
  }

  std::span<const T> logits() const override { return values_[index(graph_.logits)]; }
  std::span<const T> point(ValueId id) const override { return values_[index(id)]; }
  std::span<const T> point_gradient(ValueId id) const override { return gradients_[index(id)]; }

  NonFinite find_non_finite(const nodes::Batch& batch, const Request& request) override {
    run(batch, request);
    const auto bad = [](const std::vector<T>& data, size_t* element) {
      const auto found = std::find_if(
          data.begin(), data.end(), [](const T& x) { return !std::isfinite(nodes::real_part(x)); });
      *element = static_cast<size_t>(found - data.begin());
      return found != data.end();
    };
    const auto range = [&](ValueId id) {
      double low = 0, high = 0;
      for (size_t i = 0; i < values_[index(id)].size(); ++i) {
        const double x = nodes::real_part(values_[index(id)][i]);
        low = i == 0 ? x : std::min(low, x);
        high = i == 0 ? x : std::max(high, x);
      }
      return std::pair(low, high);
    };
    return first_non_finite(
        graph_, batch.length, batch.source_length,
        [&](ValueId id, size_t* e) { return bad(values_[index(id)], e); },
        [&](ValueId id, size_t* e) { return bad(gradients_[index(id)], e); }, range);
  }

  size_t memory_bytes() const override {
    size_t elements = 0;
    for (size_t v = 0; v < values_.size(); ++v)
      elements += values_[v].size() + gradients_[v].size();
    return elements * sizeof(T);
  }

 private:
  static size_t index(ValueId id) { return static_cast<size_t>(id); }

  int64_t rows(ValueId id) const {
    const graph::Shape& shape = graph_.shape(id);
    return shape.per_token() ? prepared_.rows(shape.rows) : shape.height;
  }
  View<T> view_of(std::vector<std::vector<T>>& arrays, ValueId id) {
    return {arrays[index(id)].data(), rows(id), graph_.shape(id).cols};
  }
  void gather(const graph::Node& node) {
    in_.clear();
    for (const ValueId input : node.inputs) {
      in_.push_back({values_[index(input)].data(), rows(input), graph_.shape(input).cols});
    }
  }

  void backward(const nodes::BatchView& view) {
    gradients_[index(graph_.loss)][0] = T(1);
    for (auto node = graph_.nodes.rbegin(); node != graph_.nodes.rend(); ++node) {
      if (!wanted_[index(node->output)]) continue;
      gather(*node);
      grad_in_.clear();
      for (const ValueId input : node->inputs) {
        grad_in_.push_back(wanted_[index(input)] ? view_of(gradients_, input) : View<T>{});
      }
      const View<T> out = view_of(values_, node->output);
      const View<T> grad = view_of(gradients_, node->output);
      const nodes::Backward<T> io{
          view, in_, {out.data, out.rows, out.cols}, {grad.data, grad.rows, grad.cols}, grad_in_};
      std::visit([&](const auto& op) { op.backward(io); }, node->op);
    }
  }

  const graph::Graph graph_;
  const std::vector<bool> wanted_;
  std::vector<std::vector<T>> values_, gradients_;
  std::vector<View<const T>> in_;
  std::vector<View<T>> grad_in_;
  PreparedBatch prepared_;
};

}  // namespace

template <class T>
std::unique_ptr<Engine<T>> make_reference(const graph::Graph& graph) {
  return std::make_unique<Reference<T>>(graph);
}
template std::unique_ptr<Engine<double>> make_reference(const graph::Graph&);
template std::unique_ptr<Engine<float>> make_reference(const graph::Graph&);
template std::unique_ptr<Engine<std::complex<double>>> make_reference(const graph::Graph&);

}  // namespace addnorm::engine
