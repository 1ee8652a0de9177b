// The branches attn, cross and ffn as nodes.
#include "addnorm/base/error.h"
#include "addnorm/formula/scalar.h"
#include "addnorm/graph/builder.h"

namespace addnorm::graph {
namespace {

const formula::Option* find(const std::vector<formula::Option>& options, const std::string& name) {
  for (const formula::Option& option : options) {
    if (option.name == name) return &option;
  }
  return nullptr;
}

ValueId option_norm(Builder& builder, const formula::Option& option,
                    const formula::Scalars& scalars, ValueId x, int64_t width,
                    const std::string& name) {
  const NormChoice choice = norm_choice(builder.shape, option.word, option.inner, scalars);
  return add_norm(builder, choice, x, width, name);
}

nodes::UnaryKind unary_of(Activation activation) {
  switch (activation) {
    case Activation::gelu:
    case Activation::geglu:
      return nodes::UnaryKind::gelu;
    case Activation::gelu_tanh:
    case Activation::geglu_tanh:
      return nodes::UnaryKind::gelu_tanh;
    case Activation::relu:
    case Activation::reglu:
      return nodes::UnaryKind::relu;
    case Activation::relu2:
      return nodes::UnaryKind::relu2;
    case Activation::silu:
    case Activation::swiglu:
      return nodes::UnaryKind::silu;
  }
  return nodes::UnaryKind::gelu;
}

}  // namespace

bool gated(Activation activation) {
  return activation == Activation::swiglu || activation == Activation::geglu ||
         activation == Activation::geglu_tanh || activation == Activation::reglu;
}

ValueId add_attention(Builder& b, const std::string& name, bool cross, ValueId x, ValueId memory,
                      const std::vector<formula::Option>& options,
                      const formula::Scalars& scalars) {
  const ModelShape& m = b.shape;
  const ValueId from = cross ? memory : x;
  const int64_t width = m.heads * m.head_dim, kv_width = m.kv_heads * m.head_dim;
  const auto has_bias = [&](Role role) { return m.bias_roles.count(role) > 0; };
  const Role roles[] = {cross ? Role::cross_q : Role::q, cross ? Role::cross_k : Role::k,
                        cross ? Role::cross_v : Role::v, cross ? Role::cross_out : Role::attn_out};
  ValueId q = b.linear(x, name + ".q", roles[0], width, has_bias(roles[0]));
  ValueId k = b.linear(from, name + ".k", roles[1], kv_width, has_bias(roles[1]));
  ValueId v = b.linear(from, name + ".v", roles[2], kv_width, has_bias(roles[2]));
  if (const auto* qk = find(options, "qk")) {
    q = option_norm(b, *qk, scalars, q, m.head_dim, name + ".qk_q");
    k = option_norm(b, *qk, scalars, k, m.head_dim, name + ".qk_k");
  }
  if (const auto* full = find(options, "qk_full")) {
    q = option_norm(b, *full, scalars, q, width, name + ".qk_q");
    k = option_norm(b, *full, scalars, k, kv_width, name + ".qk_k");
  }
  if (const auto* values = find(options, "v")) {
    v = option_norm(b, *values, scalars, v, m.head_dim, name + ".v_norm");
  }
  if (m.positions == Positions::rope && !cross) {
    nodes::Rotary rotary;
    rotary.head_dim = m.head_dim;
    rotary.rotary_dim = m.rotary_dim > 0 ? m.rotary_dim : m.head_dim;
    rotary.base = m.rope_base;
    rotary.interleaved = m.rope_interleaved;
    rotary.rows = b.rows();
    q = b.node(rotary, {q}, name + ".q rotated");
    k = b.node(rotary, {k}, name + ".k rotated");
  }
  nodes::Attention attention;
  attention.heads = m.heads;
  attention.kv_heads = m.kv_heads;
  attention.head_dim = m.head_dim;
  attention.scale = m.attn_scale ? b.scalar(formula::fold(*m.attn_scale, scalars))
                                 : Scalar{1 / std::sqrt(static_cast<double>(m.head_dim)), -1};
  attention.softcap = m.attn_softcap;
  attention.causal = !cross && m.kind != ModelKind::encoder && b.side != StackSide::encoder;
  attention.queries = b.rows();
  attention.keys = cross ? Rows::source : b.rows();
  std::vector<ValueId> inputs = {q, k, v};
  if (!cross) {
    attention.alibi = m.positions == Positions::alibi;
    if (m.positions == Positions::t5) {
      attention.buckets = m.relative_buckets;
      attention.distance = m.relative_distance;
      for (const Parameter& parameter : b.graph.parameters) {
        if (parameter.name == b.prefix + "embed.relative.weight") inputs.push_back(parameter.value);
      }
    }
  }
  ValueId mixed = b.node(attention, std::move(inputs), name + ": attention");
  if (const auto* heads = find(options, "heads")) {
    const auto start = formula::evaluate(*heads->value->args[0], scalars);
    ADDNORM_ASSERT(start.has_value());
    nodes::HeadScale scale;
    scale.head_dim = m.head_dim;
    mixed = b.node(scale,
                   {mixed, b.parameter(b.prefix + name + ".heads", Role::param, {m.heads}, *start)},
                   name + ".heads");
  }
  if (const auto* inner = find(options, "inner")) {
    mixed = option_norm(b, *inner, scalars, mixed, width, name + ".inner");
  }
  return b.linear(mixed, name + ".o", roles[3], m.width, has_bias(roles[3]));
}

ValueId add_ffn(Builder& b, const std::string& name, ValueId x,
                const std::vector<formula::Option>& options, const formula::Scalars& scalars) {
  const ModelShape& m = b.shape;
  const auto has_bias = [&](Role role) { return m.bias_roles.count(role) > 0; };
  nodes::Unary activation;
  activation.kind = unary_of(m.activation);
  ValueId hidden = b.linear(x, name + ".in", Role::ffn_in, m.ffn, has_bias(Role::ffn_in));
  if (gated(m.activation)) {
    ValueId gate = b.linear(x, name + ".gate", Role::ffn_gate, m.ffn, has_bias(Role::ffn_gate));
    gate = b.node(activation, {gate}, name + ": activation");
    hidden = b.node(nodes::Binary{nodes::BinaryKind::product}, {gate, hidden}, name + ": gated");
  } else {
    hidden = b.node(activation, {hidden}, name + ": activation");
  }
  if (const auto* inner = find(options, "inner")) {
    hidden = option_norm(b, *inner, scalars, hidden, m.ffn, name + ".inner");
  }
  return b.linear(hidden, name + ".out", Role::ffn_out, m.width, has_bias(Role::ffn_out));
}

}  // namespace addnorm::graph
