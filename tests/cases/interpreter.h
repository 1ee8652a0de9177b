// What a formula says when every branch gives 0: an interpreter of its own for one token, which shares
// nothing with the graph. `linear` gives 0 too, norms and params stand at their start values.
#pragma once

#include <cmath>
#include <map>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include "addnorm/formula/program.h"

namespace addnorm::cases {

class ZeroBranches {
 public:
  using Value = std::vector<double>;  // one number or one per channel

  // `branches`: how many `f` stands for. `encoder` and `decoder`: layers of a pair's stacks, both
  // `layers` of a single stack.
  ZeroBranches(const formula::Program& program, std::string norm, double eps, int layers,
               int branches, int encoder, int decoder)
      : program_(program),
        norm_(std::move(norm)),
        eps_(eps),
        layers_(layers),
        branches_(branches),
        encoder_(encoder),
        decoder_(decoder) {}

  // x after the last layer; out() afterwards. `memory`: the encoder's out, where there is one.
  Value run(const Value& embed, const Value& memory) {
    width_ = embed.size();
    names_ = {{"embed", embed},
              {"memory", memory},
              {"d", {double(width_)}},
              {"head_dim", {double(width_)}},
              {"L", {double(layers_)}},
              {"N", {double(encoder_)}},
              {"M", {double(decoder_)}},
              {"t", {INFINITY}},
              {"x", embed}};
    execute(program_.let);
    names_["S"] = {double(calls())};  // the ranges may read `let` names
    execute(program_.begin);
    for (int layer = 1; layer <= layers_; ++layer) {
      names_["l"] = {double(layer)};
      const formula::Block& block = block_of(layer);
      const int instances = formula::calls_f(block) ? branches_ : 1;
      for (int i = 0; i < instances; ++i) {
        names_["s"] = {double((layer - 1) * instances + i + 1)};
        execute(block.body);
      }
    }
    const Value x = names_.at("x");
    execute(program_.end);
    if (!names_.contains("out")) names_["out"] = x;
    return x;
  }
  const Value& out() const { return names_.at("out"); }

 private:
  const formula::Block& block_of(int layer) {
    for (const formula::Block& block : program_.blocks) {
      if (!block.first) return block;
      if (layer >= number(*block.first) && layer <= number(*block.last)) return block;
    }
    throw std::runtime_error("no block for a layer");
  }
  int calls() {
    int sum = 0;
    for (int layer = 1; layer <= layers_; ++layer) {
      const formula::Block& block = block_of(layer);
      int calls = 0;
      for (const auto& statement : block.body) {
        for (const auto& value : statement.values) {
          formula::visit(*value, [&](const formula::Expr& e) {
            if (e.kind == formula::Expr::Kind::call && formula::is_branch(e.name)) ++calls;
          });
        }
      }
      sum += calls * (formula::calls_f(block) ? branches_ : 1);
    }
    return sum;
  }

  void execute(const std::vector<formula::Statement>& body) {
    for (const formula::Statement& statement : body) {
      std::vector<Value> values;
      for (const auto& value : statement.values) values.push_back(evaluate(*value));
      for (size_t i = 0; i < values.size(); ++i) names_[statement.names[i]] = values[i];
    }
  }
  double number(const formula::Expr& e) { return evaluate(e).at(0); }

  template <class Op>
  static Value zip(const Value& a, const Value& b, Op op) {
    Value result(std::max(a.size(), b.size()));
    for (size_t i = 0; i < result.size(); ++i) {
      result[i] = op(a[a.size() == 1 ? 0 : i], b[b.size() == 1 ? 0 : i]);
    }
    return result;
  }
  template <class Op>
  static Value map(Value a, Op op) {
    for (double& x : a) x = op(x);
    return a;
  }

  Value norm(const formula::Expr& e, Value a) {
    const std::string kind = e.name == "norm" ? norm_ : e.name;
    const auto option = [&](const char* name, double otherwise) {
      const formula::Option* found = e.option(name);
      return found != nullptr && found->value ? number(*found->value) : otherwise;
    };
    const double n = double(a.size()), gain = option("gain", 1);
    double mean = 0, squares = 0;
    if (kind == "dyt")
      return map(a, [&](double x) { return gain * std::tanh(option("alpha", 0.5) * x); });
    if (kind == "derf") {
      return map(a, [&](double x) {
        return gain * std::erf(option("alpha", 0.5) * x + option("shift", 0));
      });
    }
    if (kind == "layernorm") {
      for (const double x : a) mean += x / n;
    }
    for (const double x : a) squares += (x - mean) * (x - mean);
    const double eps = option("eps", eps_);
    double divisor = std::sqrt(squares / n + eps);
    if (kind == "l2norm" || kind == "scalenorm") divisor = std::max(std::sqrt(squares), eps);
    if (kind == "scalenorm") divisor /= std::sqrt(n);
    return map(a, [&](double x) { return gain * (x - mean) / divisor; });
  }

  Value evaluate(const formula::Expr& e) {
    using Kind = formula::Expr::Kind;
    if (e.kind == Kind::number) return {e.number};
    if (e.kind == Kind::name) return names_.at(e.name);
    std::vector<Value> args;
    for (const auto& argument : e.args) args.push_back(evaluate(*argument));
    if (e.kind == Kind::negate) return map(args[0], [](double x) { return -x; });
    if (e.kind == Kind::binary) {
      return zip(args[0], args[1], [&](double a, double b) {
        return e.op == '+'   ? a + b
               : e.op == '-' ? a - b
               : e.op == '*' ? a * b
               : e.op == '/' ? a / b
                             : std::pow(a, b);
      });
    }
    const std::string& f = e.name;
    if (formula::is_branch(f) || f == "linear") return Value(width_, 0.0);
    if (formula::is_norm_kind(f)) return norm(e, args[0]);
    if (f == "param") return e.option("per") != nullptr ? Value(width_, args[0][0]) : args[0];
    if (f == "detach" || f == "drop") return args[0];
    if (f == "min") return zip(args[0], args[1], [](double a, double b) { return std::min(a, b); });
    if (f == "max") return zip(args[0], args[1], [](double a, double b) { return std::max(a, b); });
    if (f == "clip") {
      return map(args[0], [&](double x) { return std::min(std::max(x, args[1][0]), args[2][0]); });
    }
    if (f == "dot" || f == "rms") {
      const Value product =
          zip(args[0], f == "rms" ? args[0] : args[1], [](double a, double b) { return a * b; });
      double sum = 0;
      for (const double x : product) sum += x;
      return {f == "rms" ? std::sqrt(sum / double(width_)) : sum};
    }
    return map(args[0], [&](double x) -> double {
      if (f == "sqrt") return std::sqrt(x);
      if (f == "log") return std::log(x);
      if (f == "exp") return std::exp(x);
      if (f == "abs") return std::abs(x);
      if (f == "floor") return std::floor(x);
      if (f == "ceil") return std::ceil(x);
      if (f == "relu") return std::max(x, 0.0);
      if (f == "tanh") return std::tanh(x);
      if (f == "erf") return std::erf(x);
      if (f == "gelu") return x * 0.5 * std::erfc(-x / std::sqrt(2.0));
      if (f == "sigmoid") return 1 / (1 + std::exp(-x));
      if (f == "silu") return x / (1 + std::exp(-x));
      throw std::runtime_error("no function " + f);
    });
  }

  const formula::Program& program_;
  std::string norm_;
  double eps_;
  int layers_, branches_, encoder_, decoder_;
  size_t width_ = 0;
  std::map<std::string, Value> names_;
};

}  // namespace addnorm::cases
