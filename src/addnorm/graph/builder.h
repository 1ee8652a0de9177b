// Adds nodes and parameters to a graph while it is lowered.
#pragma once

#include <string>
#include <vector>

#include "addnorm/graph/graph.h"
#include "addnorm/graph/lower.h"

namespace addnorm::graph {

class Builder {
 public:
  Builder(Graph& to, const ModelShape& sizes) : graph(to), shape(sizes) {}

  Graph& graph;
  const ModelShape& shape;
  StackSide side = StackSide::single;
  std::string prefix;  // "", "encoder.", "decoder."
  int layer = -1;      // 0-based, -1 outside blocks
  formula::Place at{0, 0};

  Rows rows() const { return side == StackSide::encoder ? Rows::source : Rows::target; }
  bool is_tensor(ValueId id) const {
    return graph.shape(id).per_token() && graph.shape(id).cols == graph.width;
  }

  ValueId node(nodes::Op op, std::vector<ValueId> inputs, const std::string& label);
  // `name` gets the stack's prefix.
  ValueId parameter(const std::string& name, Role role, std::vector<int64_t> dims, double start);
  ValueId matrix(const std::string& name, Role role, int64_t out, int64_t in);

  // Weighted sum of values plus a constant; w*a alone where there is one addend.
  ValueId sum(std::vector<ValueId> addends, std::vector<Scalar> weights, Scalar constant = {});
  // A matrix `name.weight` and, where the role has one, `name.bias`.
  ValueId linear(ValueId x, const std::string& name, Role role, int64_t out, bool bias);
  // A scalar expression in which every name but t is known.
  Scalar scalar(const formula::ExprPtr& folded);
};

// What the options of one norm call say, with the model's defaults filled in.
struct NormChoice {
  nodes::NormKind kind = nodes::NormKind::layernorm;
  double eps = 0;
  bool affine = true, bias = true, unit_offset = false;
  double gain = 1, alpha = 0.5, shift = 0;
};
nodes::NormKind norm_kind(const std::string& name);  // not "norm"
NormChoice norm_choice(const ModelShape& shape, const std::string& kind,
                       const std::vector<formula::Option>& options,
                       const formula::Scalars& scalars);
bool norm_has_parameters(const ModelShape& shape, const std::string& kind,
                         const std::vector<formula::Option>& options);
// A norm over groups of `width` channels of `x`; its parameters are `name.weight`, ...
ValueId add_norm(Builder& builder, const NormChoice& choice, ValueId x, int64_t width,
                 const std::string& name);

// One branch call; returns its raw result. `options` are those of the call.
ValueId add_attention(Builder& builder, const std::string& name, bool cross, ValueId x,
                      ValueId memory, const std::vector<formula::Option>& options,
                      const formula::Scalars& scalars);
ValueId add_ffn(Builder& builder, const std::string& name, ValueId x,
                const std::vector<formula::Option>& options, const formula::Scalars& scalars);

}  // namespace addnorm::graph
