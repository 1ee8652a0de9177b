// From checked programs and a model's sizes to a graph.
#pragma once

#include <optional>
#include <set>
#include <string>

#include "addnorm/formula/check.h"
#include "addnorm/graph/graph.h"

namespace addnorm::graph {

enum class Activation : uint8_t {
  gelu,
  gelu_tanh,
  relu,
  relu2,
  silu,
  swiglu,
  geglu,
  geglu_tanh,
  reglu
};
enum class Positions : uint8_t { learned, sinusoidal, rope, alibi, t5, none };
enum class ModelKind : uint8_t { decoder, encoder, encoder_decoder };

struct StackProgram {
  formula::Program program;
  formula::Scalars let_overrides;
  int layers = 0;
};

// Everything the graph depends on, as numbers. Built from a specification by model/.
struct ModelShape {
  ModelKind kind = ModelKind::decoder;
  StackProgram encoder;  // of a pair only
  StackProgram decoder;  // of a pair, or the only stack
  int64_t width = 0, heads = 0, kv_heads = 0, head_dim = 0, ffn = 0;
  Activation activation = Activation::gelu;
  Positions positions = Positions::learned;
  nodes::NormKind norm = nodes::NormKind::layernorm;
  std::optional<double> norm_eps;  // absent: each kind's own default
  bool norm_bias = true;
  bool norm_unit_offset = false;
  std::set<Role> bias_roles;  // linear layers with a bias; Role::linear for linear(..)
  bool head_bias = false;
  bool tie_embeddings = true;
  bool share_embeddings = false;
  double embed_scale = 1;
  formula::ExprPtr attn_scale;  // may read t; null: 1/sqrt(head_dim)
  double logit_scale = 1;
  double attn_softcap = 0, logit_softcap = 0;  // 0: none
  bool rope_interleaved = false;
  double rope_base = 10000;
  int64_t rotary_dim = 0;  // 0: head_dim
  int64_t relative_buckets = 32, relative_distance = 128;
  int64_t vocab = 0, context = 0;
  double dropout = 0;
};

bool gated(Activation activation);
formula::Context context_of(const ModelShape& shape, StackSide side);

// Programs must have been checked for `context_of`; errors that only the model's kinds decide
// (options of norm(..) under its kind, a norm_* key without use) are the checker's too.
Graph lower(const ModelShape& shape);

}  // namespace addnorm::graph
