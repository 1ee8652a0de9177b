// From nodes of the graph to arguments of kernels.
#pragma once

#include "addnorm/graph/graph.h"
#include "addnorm/kernels/kernels.h"

namespace addnorm::engine {

inline kernels::Unary unary_kind(nodes::UnaryKind kind) {
  switch (kind) {
    case nodes::UnaryKind::sigmoid:
      return kernels::Unary::sigmoid;
    case nodes::UnaryKind::silu:
      return kernels::Unary::silu;
    case nodes::UnaryKind::tanh:
      return kernels::Unary::tanh;
    case nodes::UnaryKind::erf:
      return kernels::Unary::erf;
    case nodes::UnaryKind::relu:
      return kernels::Unary::relu;
    case nodes::UnaryKind::relu2:
      return kernels::Unary::relu2;
    case nodes::UnaryKind::gelu:
      return kernels::Unary::gelu;
    case nodes::UnaryKind::gelu_tanh:
      return kernels::Unary::gelu_tanh;
    case nodes::UnaryKind::abs:
      return kernels::Unary::abs;
    case nodes::UnaryKind::sqrt:
      return kernels::Unary::sqrt;
    case nodes::UnaryKind::log:
      return kernels::Unary::log;
    case nodes::UnaryKind::exp:
      return kernels::Unary::exp;
    case nodes::UnaryKind::clip:
      return kernels::Unary::clip;
    case nodes::UnaryKind::power:
      return kernels::Unary::power;
    case nodes::UnaryKind::softcap:
      break;  // only in the head
  }
  return kernels::Unary::identity;
}

// The activation of a fused step: a unary node without scalars.
inline kernels::Function activation(const graph::Node& node) {
  return {unary_kind(std::get<nodes::Unary>(node.op).kind), 0, 0};
}

inline kernels::Shape operand_shape(const graph::Shape& a, const graph::Shape& out) {
  const bool rows = a.per_token() == out.per_token();
  const bool cols = a.cols == out.cols;
  if (rows) return cols ? kernels::Shape::tensor : kernels::Shape::column;
  return cols ? kernels::Shape::vector : kernels::Shape::number;
}

}  // namespace addnorm::engine
