// Every node kind, in every form it has: gradients by complex step to 1e-9 (all elements).
#include <gtest/gtest.h>

#include "nodes/gradient_check.h"

namespace addnorm {
namespace {

using namespace nodes;
using testing_nodes::Checker;
using testing_nodes::NodeCase;

constexpr int64_t rows = 6, source_rows = 4;

Norm norm_of(NormKind kind, int64_t width, double eps, bool affine, bool bias, bool offset) {
  Norm norm;
  norm.kind = kind;
  norm.width = width;
  norm.eps = eps;
  norm.affine = affine;
  norm.bias = bias;
  norm.unit_offset = offset;
  return norm;
}

Attention attention_of(bool causal, double softcap, bool alibi, int64_t buckets) {
  Attention attention;
  attention.heads = 4;
  attention.kv_heads = 2;
  attention.head_dim = 3;
  attention.scale = Scalar{0.6};
  attention.softcap = softcap;
  attention.causal = causal;
  attention.alibi = alibi;
  attention.buckets = buckets;
  attention.distance = 4;
  return attention;
}

std::vector<NodeCase> norm_cases() {
  std::vector<NodeCase> cases;
  const int64_t d = 5;
  for (const double eps : {0.0, 1e-5, 0.3}) {
    for (const bool affine : {true, false}) {
      for (const bool offset : {false, true}) {
        if (offset && !affine) continue;
        const std::string tail = "_eps" + std::to_string(static_cast<int>(eps * 10)) +
                                 std::to_string(cases.size()) + (affine ? "_affine" : "") +
                                 (offset ? "_offset" : "");
        std::vector<testing_nodes::Size> one = {{rows, d}}, two = {{rows, d}, {1, d}},
                                         three = {{rows, d}, {1, d}, {1, d}},
                                         number = {{rows, d}, {1, 1}};
        cases.push_back({"layernorm" + tail,
                         norm_of(NormKind::layernorm, d, eps, affine, affine, offset),
                         affine ? three : one,
                         {rows, d}});
        cases.push_back({"layernorm_no_bias" + tail,
                         norm_of(NormKind::layernorm, d, eps, affine, false, offset),
                         affine ? two : one,
                         {rows, d}});
        cases.push_back({"rmsnorm" + tail,
                         norm_of(NormKind::rmsnorm, d, eps, affine, false, offset),
                         affine ? two : one,
                         {rows, d}});
        cases.push_back({"scalenorm" + tail,
                         norm_of(NormKind::scalenorm, d, eps, affine, false, offset),
                         affine ? number : one,
                         {rows, d}});
      }
    }
    cases.push_back({"l2norm_" + std::to_string(cases.size()),
                     norm_of(NormKind::l2norm, d, eps, false, false, false),
                     {{rows, d}},
                     {rows, d}});
  }
  // Below the clamp, and per head: three groups that share one parameter set.
  cases.push_back({"l2norm_clamped",
                   norm_of(NormKind::l2norm, d, 100, false, false, false),
                   {{rows, d}},
                   {rows, d}});
  cases.push_back({"scalenorm_clamped",
                   norm_of(NormKind::scalenorm, d, 100, true, false, false),
                   {{rows, d}, {1, 1}},
                   {rows, d}});
  cases.push_back({"rmsnorm_per_head",
                   norm_of(NormKind::rmsnorm, 4, 1e-6, true, false, false),
                   {{rows, 12}, {1, 4}},
                   {rows, 12}});
  cases.push_back({"layernorm_per_head",
                   norm_of(NormKind::layernorm, 4, 1e-6, true, true, false),
                   {{rows, 12}, {1, 4}, {1, 4}},
                   {rows, 12}});
  cases.push_back({"dyt",
                   norm_of(NormKind::dyt, d, 0, true, true, false),
                   {{rows, d}, {1, d}, {1, d}, {1, 1}},
                   {rows, d}});
  cases.push_back({"dyt_no_bias",
                   norm_of(NormKind::dyt, d, 0, true, false, false),
                   {{rows, d}, {1, d}, {1, 1}},
                   {rows, d}});
  cases.push_back({"derf",
                   norm_of(NormKind::derf, d, 0, true, true, false),
                   {{rows, d}, {1, d}, {1, d}, {1, 1}, {1, 1}},
                   {rows, d}});
  cases.push_back({"derf_no_bias",
                   norm_of(NormKind::derf, d, 0, true, false, false),
                   {{rows, d}, {1, d}, {1, 1}, {1, 1}},
                   {rows, d}});
  return cases;
}

std::vector<NodeCase> attention_cases() {
  std::vector<NodeCase> cases;
  for (const bool causal : {true, false}) {
    for (const bool masked : {true, false}) {
      const std::string tail =
          std::string(causal ? "_causal" : "_full") + (masked ? "_masked" : "");
      const std::vector<testing_nodes::Size> qkv = {{rows, 12}, {rows, 6}, {rows, 6}};
      std::vector<testing_nodes::Size> with_table = qkv;
      with_table.push_back({8, 4});
      cases.push_back(
          {"attention" + tail, attention_of(causal, 0, false, 0), qkv, {rows, 12}, 0, 1, masked});
      cases.push_back({"attention_softcap" + tail,
                       attention_of(causal, 2, false, 0),
                       qkv,
                       {rows, 12},
                       0,
                       1,
                       masked});
      cases.push_back({"attention_alibi" + tail,
                       attention_of(causal, 0, true, 0),
                       qkv,
                       {rows, 12},
                       0,
                       1,
                       masked});
      cases.push_back({"attention_t5" + tail,
                       attention_of(causal, 1.5, false, 8),
                       with_table,
                       {rows, 12},
                       0,
                       1,
                       masked});
      Attention cross = attention_of(false, 0, false, 0);
      cross.keys = Rows::source;
      if (!causal) {
        cases.push_back({"cross_attention" + tail,
                         cross,
                         {{rows, 12}, {source_rows, 6}, {source_rows, 6}},
                         {rows, 12},
                         0,
                         1,
                         masked});
      }
    }
  }
  Attention scheduled = attention_of(true, 0, false, 0);
  scheduled.scale = Scalar{0, 0};
  cases.push_back(
      {"attention_scale_in_t", scheduled, {{rows, 12}, {rows, 6}, {rows, 6}}, {rows, 12}});
  return cases;
}

std::vector<NodeCase> elementwise_cases() {
  std::vector<NodeCase> cases;
  const std::vector<std::pair<std::string, UnaryKind>> smooth = {
      {"sigmoid", UnaryKind::sigmoid}, {"silu", UnaryKind::silu},
      {"tanh", UnaryKind::tanh},       {"erf", UnaryKind::erf},
      {"relu", UnaryKind::relu},       {"relu2", UnaryKind::relu2},
      {"gelu", UnaryKind::gelu},       {"gelu_tanh", UnaryKind::gelu_tanh},
      {"abs", UnaryKind::abs},         {"exp", UnaryKind::exp}};
  for (const auto& [name, kind] : smooth) {
    cases.push_back({name, Unary{kind, {}, {}}, {{rows, 7}}, {rows, 7}, 0, 1.5});
  }
  cases.push_back({"sqrt", Unary{UnaryKind::sqrt, {}, {}}, {{rows, 3}}, {rows, 3}, 5, 0.5});
  cases.push_back({"log", Unary{UnaryKind::log, {}, {}}, {{rows, 3}}, {rows, 3}, 5, 0.5});
  cases.push_back(
      {"clip", Unary{UnaryKind::clip, Scalar{-0.5}, Scalar{0, 0}}, {{rows, 7}}, {rows, 7}});
  cases.push_back({"power_3", Unary{UnaryKind::power, Scalar{3}, {}}, {{rows, 7}}, {rows, 7}});
  cases.push_back({"power_0", Unary{UnaryKind::power, Scalar{0}, {}}, {{rows, 7}}, {rows, 7}});
  cases.push_back(
      {"power_half", Unary{UnaryKind::power, Scalar{0.5}, {}}, {{rows, 7}}, {rows, 7}, 5, 0.5});
  cases.push_back(
      {"softcap", Unary{UnaryKind::softcap, Scalar{2}, {}}, {{rows, 7}}, {rows, 7}, 0, 3});
  const std::vector<std::pair<std::string, testing_nodes::Size>> others = {
      {"tensor", {rows, 4}}, {"vector", {1, 4}}, {"column", {rows, 1}}, {"number", {1, 1}}};
  for (const auto& [name, size] : others) {
    for (const auto& [op, kind] :
         {std::pair{"product", BinaryKind::product}, std::pair{"quotient", BinaryKind::quotient},
          std::pair{"minimum", BinaryKind::minimum}, std::pair{"maximum", BinaryKind::maximum}}) {
      const double shift = kind == BinaryKind::quotient ? 4 : 0;
      cases.push_back(
          {std::string(op) + "_" + name, Binary{kind}, {{rows, 4}, size}, {rows, 4}, shift, 0.7});
      cases.push_back({std::string(op) + "_from_" + name,
                       Binary{kind},
                       {size, {rows, 4}},
                       {rows, 4},
                       shift,
                       0.7});
    }
    Sum sum;
    sum.constant = Scalar{0.3};
    sum.weights = {Scalar{1.5}, Scalar{-2}, Scalar{0, 0}};
    cases.push_back({"sum_" + name, sum, {{rows, 4}, size, {rows, 4}}, {rows, 4}});
  }
  cases.push_back({"dot", Dot{}, {{rows, 4}, {rows, 4}}, {rows, 1}});
  cases.push_back({"dot_vector", Dot{}, {{rows, 4}, {1, 4}}, {rows, 1}});
  cases.push_back({"dot_from_vector", Dot{}, {{1, 4}, {rows, 4}}, {rows, 1}});
  cases.push_back({"rms", Rms{}, {{rows, 4}}, {rows, 1}});
  cases.push_back({"detach", Detach{}, {{rows, 4}}, {rows, 4}});
  cases.push_back({"drop_evaluation", Drop{0.4, 3, Rows::target}, {{rows, 4}}, {rows, 4}});
  cases.push_back(
      {"drop_training", Drop{0.4, 3, Rows::target}, {{rows, 4}}, {rows, 4}, 0, 1, false, true});
  return cases;
}

std::vector<NodeCase> other_cases() {
  std::vector<NodeCase> cases;
  cases.push_back({"embedding", Embedding{Rows::target, false}, {{5, 3}}, {rows, 3}});
  cases.push_back({"embedding_source", Embedding{Rows::source, false}, {{5, 3}}, {source_rows, 3}});
  cases.push_back({"embedding_position", Embedding{Rows::target, true}, {{3, 3}}, {rows, 3}});
  cases.push_back({"sinusoidal", SinusoidalPositions{Rows::target, 4}, {}, {rows, 4}});
  cases.push_back({"linear", Linear{}, {{rows, 4}, {3, 4}}, {rows, 3}});
  cases.push_back({"linear_bias", Linear{}, {{rows, 4}, {3, 4}, {1, 3}}, {rows, 3}});
  cases.push_back({"head_scale", HeadScale{3}, {{rows, 12}, {1, 4}}, {rows, 12}});
  for (const bool interleaved : {false, true}) {
    Rotary rotary;
    rotary.head_dim = 6;
    rotary.rotary_dim = 4;
    rotary.interleaved = interleaved;
    cases.push_back(
        {interleaved ? "rotary_interleaved" : "rotary_half", rotary, {{rows, 12}}, {rows, 12}});
  }
  cases.push_back({"cross_entropy", CrossEntropy{}, {{rows, 5}}, {1, 1}});
  return cases;
}

std::vector<NodeCase> all_cases() {
  std::vector<NodeCase> all;
  for (auto part : {norm_cases(), attention_cases(), elementwise_cases(), other_cases()}) {
    all.insert(all.end(), part.begin(), part.end());
  }
  return all;
}

class NodeGradient : public testing::TestWithParam<NodeCase> {};

TEST_P(NodeGradient, ComplexStep) {
  std::visit(
      [&](const auto& op) {
        const auto result = Checker(GetParam(), op).complex_step();
        EXPECT_LE(result.worst, 1e-11) << result.where;
      },
      GetParam().op);
}
TEST_P(NodeGradient, CentralDifferences) {
  if (std::holds_alternative<Detach>(GetParam().op)) return;  // moves with its input, by design
  std::visit(
      [&](const auto& op) {
        const auto result = Checker(GetParam(), op).central_differences();
        EXPECT_LE(result.worst, 2e-6) << result.where;
      },
      GetParam().op);
}
INSTANTIATE_TEST_SUITE_P(Kinds, NodeGradient, testing::ValuesIn(all_cases()),
                         [](const auto& node) { return node.param.name; });

TEST(NodeKinds, EveryKindIsChecked) {
  std::vector<bool> seen(std::variant_size_v<Op>, false);
  for (const NodeCase& one : all_cases()) seen[one.op.index()] = true;
  for (size_t i = 0; i < seen.size(); ++i) EXPECT_TRUE(seen[i]) << "no case for kind " << i;
}

// Mutations: backward passes that are wrong in ways seen in print or in code must be found.
struct WrongJacobian : Norm {  // the outer product without 1/d
  template <class T>
  void backward(const Backward<T>& io) const {
    for (int64_t r = 0; r < io.out.rows; ++r) {
      const auto s = statistics(io.in[0].row(r));
      T mean_h = T(0), product = T(0);
      for (int64_t j = 0; j < width; ++j) {
        const T h = gain(io.in, j) * io.grad_out.row(r)[j];
        const T x = (io.in[0].row(r)[j] - s.mean) * s.inverse;
        mean_h += h / T(static_cast<double>(width));
        product += h * x;
        io.grad_in[1].data[j] += io.grad_out.row(r)[j] * x;
        io.grad_in[2].data[j] += io.grad_out.row(r)[j];
      }
      for (int64_t j = 0; j < width; ++j) {
        const T x = (io.in[0].row(r)[j] - s.mean) * s.inverse;
        io.grad_in[0].row(r)[j] +=
            (gain(io.in, j) * io.grad_out.row(r)[j] - mean_h - x * product) * s.inverse;
      }
    }
  }
};

struct RightGain : Norm {  // J*diag(gain) instead of diag(gain)*J
  template <class T>
  void backward(const Backward<T>& io) const {
    Norm::backward(io);
    for (int64_t i = 0; i < io.grad_in[0].size(); ++i) io.grad_in[0].data[i] = T(0);
    Norm plain = *this;
    plain.affine = plain.bias = false;
    plain.backward(io);
    for (int64_t r = 0; r < io.out.rows; ++r) {
      for (int64_t j = 0; j < width; ++j) io.grad_in[0].row(r)[j] *= gain(io.in, j);
    }
  }
};

struct UnsummedBias : Linear {  // the bias gets the gradient of the last row only
  template <class T>
  void backward(const Backward<T>& io) const {
    Linear::backward(io);
    for (int64_t o = 0; o < io.grad_out.cols; ++o)
      io.grad_in[2].data[o] = io.grad_out.row(io.grad_out.rows - 1)[o];
  }
};

template <class Wrong, class Right>
void expect_found(const Right& right, const NodeCase& one) {
  Wrong wrong;
  static_cast<Right&>(wrong) = right;
  EXPECT_LE(Checker(one, right).complex_step().worst, 1e-11);
  EXPECT_GE(Checker(one, wrong).complex_step().worst, 1e-2)
      << one.name << ": the check passes a wrong gradient";
}

TEST(Mutations, WrongGradientsAreFound) {
  const int64_t d = 8;
  const Norm norm = norm_of(NormKind::layernorm, d, 1e-5, true, true, false);
  const NodeCase norm_case{"mutation_norm", norm, {{rows, d}, {1, d}, {1, d}}, {rows, d}};
  expect_found<WrongJacobian>(norm, norm_case);
  expect_found<RightGain>(norm, norm_case);
  const NodeCase linear_case{"mutation_linear", Linear{}, {{rows, 4}, {3, 4}, {1, 3}}, {rows, 3}};
  expect_found<UnsummedBias>(Linear{}, linear_case);
}

}  // namespace
}  // namespace addnorm
