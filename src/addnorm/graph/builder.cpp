#include "addnorm/graph/builder.h"

#include <algorithm>

#include "addnorm/base/error.h"
#include "addnorm/formula/scalar.h"

namespace addnorm::graph {

ValueId Builder::node(nodes::Op op, std::vector<ValueId> inputs, const std::string& label) {
  std::vector<Shape> shapes;
  for (const ValueId input : inputs) shapes.push_back(graph.shape(input));
  Value value;
  value.shape = std::visit([&](const auto& kind) { return kind.shape(shapes); }, op);
  value.node = static_cast<int>(graph.nodes.size());
  const auto id = static_cast<ValueId>(graph.values.size());
  graph.values.push_back(value);
  graph.nodes.push_back({std::move(op), std::move(inputs), id, prefix + label, at, side, layer});
  return id;
}

ValueId Builder::parameter(const std::string& name, Role role, std::vector<int64_t> dims,
                           double start) {
  Parameter parameter;
  parameter.name = name;
  parameter.role = role;
  parameter.side = side;
  parameter.layer = layer;
  parameter.start = start;
  Value value;
  value.shape = {Rows::fixed, dims.size() == 2 ? dims[0] : 1, dims.back()};
  value.parameter = static_cast<int>(graph.parameters.size());
  parameter.dims = std::move(dims);
  parameter.value = static_cast<ValueId>(graph.values.size());
  graph.values.push_back(value);
  graph.parameters.push_back(std::move(parameter));
  return graph.parameters.back().value;
}

ValueId Builder::matrix(const std::string& name, Role role, int64_t out, int64_t in) {
  const ValueId id = parameter(name, role, {out, in}, 0);
  graph.parameters.back().matrix = true;
  return id;
}

ValueId Builder::sum(std::vector<ValueId> addends, std::vector<Scalar> weights, Scalar constant) {
  nodes::Sum op;
  op.constant = constant;
  op.weights = std::move(weights);
  return node(std::move(op), std::move(addends), "sum");
}

ValueId Builder::linear(ValueId x, const std::string& name, Role role, int64_t out, bool bias) {
  std::vector<ValueId> inputs = {x,
                                 matrix(prefix + name + ".weight", role, out, graph.shape(x).cols)};
  if (bias) inputs.push_back(parameter(prefix + name + ".bias", Role::bias, {out}, 0));
  return node(nodes::Linear{}, std::move(inputs), name);
}

Scalar Builder::scalar(const formula::ExprPtr& folded) {
  const auto value = formula::evaluate(*folded, {});
  if (value.has_value()) return {*value, -1};
  for (size_t i = 0; i < graph.schedules.size(); ++i) {
    if (formula::same(*graph.schedules[i], *folded)) return {0, static_cast<int>(i)};
  }
  graph.schedules.push_back(folded);
  return {0, static_cast<int>(graph.schedules.size()) - 1};
}

nodes::NormKind norm_kind(const std::string& name) {
  if (name == "layernorm") return nodes::NormKind::layernorm;
  if (name == "rmsnorm") return nodes::NormKind::rmsnorm;
  if (name == "scalenorm") return nodes::NormKind::scalenorm;
  if (name == "l2norm") return nodes::NormKind::l2norm;
  if (name == "dyt") return nodes::NormKind::dyt;
  ADDNORM_ASSERT(name == "derf");
  return nodes::NormKind::derf;
}

bool norm_has_parameters(const ModelShape& shape, const std::string& kind,
                         const std::vector<formula::Option>& options) {
  if ((kind == "norm" ? shape.norm : norm_kind(kind)) == nodes::NormKind::l2norm) return false;
  return std::none_of(options.begin(), options.end(), [](const formula::Option& option) {
    return option.name == "affine" && option.word == "false";
  });
}

NormChoice norm_choice(const ModelShape& shape, const std::string& kind,
                       const std::vector<formula::Option>& options,
                       const formula::Scalars& scalars) {
  using nodes::NormKind;
  NormChoice choice;
  choice.kind = kind == "norm" ? shape.norm : norm_kind(kind);
  const bool elementwise = choice.kind == NormKind::dyt || choice.kind == NormKind::derf;
  const bool model_keys = !elementwise && choice.kind != NormKind::l2norm;
  choice.eps = choice.kind == NormKind::rmsnorm  ? 1e-6
               : choice.kind == NormKind::l2norm ? 1e-12
                                                 : 1e-5;
  if (model_keys) {
    choice.eps = shape.norm_eps.value_or(choice.eps);
    choice.unit_offset = shape.norm_unit_offset;
  }
  choice.bias = choice.kind == NormKind::layernorm ? shape.norm_bias : elementwise;
  for (const formula::Option& option : options) {
    const auto number = [&] {
      const auto value = formula::evaluate(*option.value, scalars);
      ADDNORM_ASSERT(value.has_value());
      return *value;
    };
    if (option.name == "eps") choice.eps = number();
    if (option.name == "gain") choice.gain = number();
    if (option.name == "alpha") choice.alpha = number();
    if (option.name == "shift") choice.shift = number();
    if (option.name == "affine") choice.affine = option.word == "true";
    if (option.name == "bias") choice.bias = option.word == "true";
    if (option.name == "unit_offset") choice.unit_offset = option.word == "true";
  }
  choice.bias = choice.bias && choice.affine;
  choice.unit_offset = choice.unit_offset && choice.affine;
  return choice;
}

ValueId add_norm(Builder& builder, const NormChoice& choice, ValueId x, int64_t width,
                 const std::string& name) {
  using nodes::NormKind;
  nodes::Norm op;
  op.kind = choice.kind;
  op.width = width;
  op.eps = choice.eps;
  op.affine = choice.affine;
  op.bias = choice.bias;
  op.unit_offset = choice.unit_offset;
  std::vector<ValueId> inputs = {x};
  const std::string full = builder.prefix + name;
  if (choice.affine && choice.kind != NormKind::l2norm) {
    const bool one = choice.kind == NormKind::scalenorm;
    const double gain = one ? choice.gain * std::sqrt(static_cast<double>(width)) : choice.gain;
    inputs.push_back(builder.parameter(full + ".weight", Role::norm, {one ? 1 : width},
                                       choice.unit_offset ? gain - 1 : gain));
    if (choice.bias) inputs.push_back(builder.parameter(full + ".bias", Role::bias, {width}, 0));
  }
  if (op.elementwise()) {
    inputs.push_back(builder.parameter(full + ".alpha", Role::param, {1}, choice.alpha));
    if (choice.kind == NormKind::derf) {
      inputs.push_back(builder.parameter(full + ".shift", Role::param, {1}, choice.shift));
    }
  }
  return builder.node(op, std::move(inputs), name);
}

}  // namespace addnorm::graph
