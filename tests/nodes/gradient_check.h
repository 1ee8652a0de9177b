// The gradient of a node against the complex step (exact to rounding) and against central differences
// (which do not trust how a function was carried over to complex numbers).
#pragma once

#include <cmath>
#include <complex>
#include <string>
#include <vector>

#include "addnorm/base/random.h"
#include "addnorm/nodes/node.h"

namespace addnorm::testing_nodes {

using Complex = std::complex<double>;

struct Size {
  int64_t rows, cols;
};

struct NodeCase {
  std::string name;
  nodes::Op op;
  std::vector<Size> inputs;
  Size output;
  double shift = 0, scale = 1;  // inputs are shift + scale*N(0, 1)
  bool masked = false;          // the second sequence has its keys masked
  bool training = false;
};

// Two sequences of three tokens, sources of two tokens, vocabulary 5.
struct SmallBatch {
  std::vector<int32_t> tokens = {1, 4, 0, 2, 2, 3}, targets = {4, -100, 2, 0, 3, 1},
                       source = {0, 3, 1, 1};
  std::vector<int32_t> positions = {0, 1, 2, 0, 0, 1}, source_positions = {0, 1, 0, 1};
  std::vector<uint8_t> mask = {1, 1, 1, 0, 1, 1}, source_mask = {1, 1, 0, 0};
  std::vector<double> schedules = {0.75};

  nodes::BatchView view(const NodeCase& of) const {
    nodes::BatchView v;
    v.sequences = 2;
    v.length = 3;
    v.source_length = 2;
    v.tokens = tokens.data();
    v.targets = targets.data();
    v.source = source.data();
    v.positions = positions.data();
    v.source_positions = source_positions.data();
    v.mask = of.masked ? mask.data() : nullptr;
    v.source_mask = of.masked ? source_mask.data() : nullptr;
    v.divisor = 5;
    v.label_smoothing = 0.1;
    v.z_loss = 0.01;
    v.training = of.training;
    v.dropout_seed = 7;
    v.schedules = schedules.data();
    return v;
  }
};

struct CheckResult {
  double worst = 0;  // largest difference over the largest gradient of the input
  std::string where;
};

template <class Op>
class Checker {
 public:
  Checker(const NodeCase& of, const Op& op) : case_(of), op_(op), view_(batch_.view(of)) {
    const Random random(11, of.name);
    uint64_t index = 0;
    for (const Size& size : of.inputs) {
      inputs_.emplace_back();
      for (int64_t i = 0; i < size.rows * size.cols; ++i) {
        inputs_.back().push_back(of.shift + of.scale * random.normal(index++));
      }
    }
    for (int64_t i = 0; i < of.output.rows * of.output.cols; ++i)
      weights_.push_back(random.normal(index++));
  }

  std::vector<std::vector<double>> backward() {
    std::vector<std::vector<double>> gradients;
    for (const auto& input : inputs_) gradients.emplace_back(input.size(), 0.0);
    std::vector<double> out(weights_.size());
    std::vector<nodes::View<const double>> in;
    std::vector<nodes::View<double>> to;
    for (size_t k = 0; k < inputs_.size(); ++k) {
      const Size& size = case_.inputs[k];
      in.push_back({inputs_[k].data(), size.rows, size.cols});
      to.push_back({gradients[k].data(), size.rows, size.cols});
    }
    const nodes::View<double> out_view{out.data(), case_.output.rows, case_.output.cols};
    op_.forward(nodes::Forward<double>{view_, in, out_view});
    op_.backward(nodes::Backward<double>{view_,
                                         in,
                                         {out.data(), out_view.rows, out_view.cols},
                                         {weights_.data(), out_view.rows, out_view.cols},
                                         to});
    return gradients;
  }

  // sum of weights * output with element e of input k moved by `step`.
  template <class T>
  T value(size_t k, size_t e, T step) {
    std::vector<std::vector<T>> moved;
    for (const auto& input : inputs_) moved.emplace_back(input.begin(), input.end());
    moved[k][e] += step;
    std::vector<nodes::View<const T>> in;
    for (size_t j = 0; j < moved.size(); ++j) {
      in.push_back({moved[j].data(), case_.inputs[j].rows, case_.inputs[j].cols});
    }
    std::vector<T> out(weights_.size());
    op_.forward(nodes::Forward<T>{view_, in, {out.data(), case_.output.rows, case_.output.cols}});
    T sum = T(0);
    for (size_t i = 0; i < out.size(); ++i) sum += T(weights_[i]) * out[i];
    return sum;
  }

  CheckResult complex_step() {
    return compare(
        [&](size_t k, size_t e) { return value<Complex>(k, e, {0, 1e-30}).imag() / 1e-30; });
  }
  CheckResult central_differences() {
    return compare([&](size_t k, size_t e) {
      constexpr double h = 1e-5;
      return (value<double>(k, e, h) - value<double>(k, e, -h)) / (2 * h);
    });
  }

 private:
  template <class Derivative>
  CheckResult compare(Derivative derivative) {
    CheckResult result;
    const auto gradients = backward();
    for (size_t k = 0; k < inputs_.size(); ++k) {
      double largest = 1e-3;
      for (const double g : gradients[k]) largest = std::max(largest, std::abs(g));
      for (size_t e = 0; e < inputs_[k].size(); ++e) {
        const double want = derivative(k, e);
        const double off = std::abs(gradients[k][e] - want) / largest;
        if (off > result.worst || !(off == off)) {
          result = {off, "input " + std::to_string(k) + ", element " + std::to_string(e)};
        }
      }
    }
    return result;
  }

  const NodeCase& case_;
  const Op op_;
  SmallBatch batch_;
  nodes::BatchView view_;
  std::vector<std::vector<double>> inputs_;
  std::vector<double> weights_;
};

}  // namespace addnorm::testing_nodes
