#include "addnorm/graph/lower.h"

#include "addnorm/base/error.h"
#include "addnorm/graph/builder.h"
#include "addnorm/graph/simplify.h"
#include "addnorm/graph/stack.h"

namespace addnorm::graph {
namespace {

const char* kind_name(nodes::NormKind kind) {
  static constexpr const char* names[] = {"layernorm", "rmsnorm", "scalenorm",
                                          "l2norm",    "dyt",     "derf"};
  return names[static_cast<size_t>(kind)];
}

struct Embedded {
  ValueId table = -1;
  ValueId embed = -1;
};

// Token table times embed_scale plus positions. `table` is given where both stacks share one.
Embedded add_embedding(Builder& b, ValueId table) {
  const ModelShape& m = b.shape;
  Embedded result;
  const std::string prefix = m.share_embeddings ? "" : b.prefix;
  result.table =
      table >= 0 ? table : b.matrix(prefix + "embed.tokens.weight", Role::embed, m.vocab, m.width);
  ValueId x = b.node(nodes::Embedding{b.rows(), false}, {result.table}, "embed: tokens");
  std::vector<ValueId> addends = {x};
  std::vector<Scalar> weights = {Scalar{m.embed_scale}};
  if (m.positions == Positions::learned) {
    const ValueId positions =
        b.matrix(b.prefix + "embed.positions.weight", Role::positions, m.context, m.width);
    addends.push_back(b.node(nodes::Embedding{b.rows(), true}, {positions}, "embed: positions"));
    weights.push_back(Scalar{1});
  } else if (m.positions == Positions::sinusoidal) {
    addends.push_back(
        b.node(nodes::SinusoidalPositions{b.rows(), m.width}, {}, "embed: positions"));
    weights.push_back(Scalar{1});
  } else if (m.positions == Positions::t5) {
    b.matrix(b.prefix + "embed.relative.weight", Role::positions, m.relative_buckets, m.heads);
  }
  if (addends.size() > 1 || m.embed_scale != 1) x = b.sum(addends, weights);
  result.embed = x;
  return result;
}

Embedded add_stack(Builder& b, const StackProgram& program, StackSide side, ValueId table,
                   ValueId memory) {
  b.side = side;
  b.prefix = side == StackSide::single ? "" : side == StackSide::encoder ? "encoder." : "decoder.";
  b.layer = -1;
  const formula::Context context = context_of(b.shape, side);
  const formula::Layout layout = formula::layout(program.program, context);
  const Embedded embedded = add_embedding(b, table);
  StackLowering lowering(b, program, layout, formula::branches(context.stack));
  b.graph.stacks.push_back(lowering.run(embedded.embed, memory));
  return embedded;
}

}  // namespace

formula::Context context_of(const ModelShape& shape, StackSide side) {
  formula::Context context;
  const bool pair = side != StackSide::single;
  const StackProgram& own = side == StackSide::encoder ? shape.encoder : shape.decoder;
  context.stack = side == StackSide::encoder         ? formula::Stack::pair_encoder
                  : side == StackSide::decoder       ? formula::Stack::pair_decoder
                  : shape.kind == ModelKind::encoder ? formula::Stack::encoder
                                                     : formula::Stack::decoder;
  context.layers = own.layers;
  context.encoder_layers = pair ? shape.encoder.layers : own.layers;
  context.decoder_layers = pair ? shape.decoder.layers : own.layers;
  context.width = static_cast<double>(shape.width);
  context.head_dim = static_cast<double>(shape.head_dim);
  context.norm = kind_name(shape.norm);
  context.let_overrides = own.let_overrides;
  return context;
}

Graph lower(const ModelShape& shape) {
  Graph graph;
  graph.width = shape.width;
  graph.vocab = shape.vocab;
  graph.context = shape.context;
  Builder b(graph, shape);
  ValueId table = -1, memory = -1;
  if (shape.kind == ModelKind::encoder_decoder) {
    const Embedded encoder = add_stack(b, shape.encoder, StackSide::encoder, -1, -1);
    memory = graph.stacks.back().out;
    table = add_stack(b, shape.decoder, StackSide::decoder,
                      shape.share_embeddings ? encoder.table : -1, memory)
                .table;
  } else {
    table = add_stack(b, shape.decoder, StackSide::single, -1, -1).table;
  }
  b.side = shape.kind == ModelKind::encoder_decoder ? StackSide::decoder : StackSide::single;
  b.prefix = "";
  b.layer = -1;
  if (!shape.tie_embeddings) table = b.matrix("head.weight", Role::head, shape.vocab, shape.width);
  std::vector<ValueId> inputs = {graph.stacks.back().out, table};
  if (shape.head_bias) inputs.push_back(b.parameter("head.bias", Role::bias, {shape.vocab}, 0));
  ValueId logits = b.node(nodes::Linear{}, inputs, "head");
  if (shape.logit_scale != 1) logits = b.sum({logits}, {Scalar{shape.logit_scale}});
  if (shape.logit_softcap > 0) {
    nodes::Unary cap;
    cap.kind = nodes::UnaryKind::softcap;
    cap.low = Scalar{shape.logit_softcap};
    logits = b.node(cap, {logits}, "head: softcap");
  }
  graph.logits = logits;
  graph.points["logits"] = logits;
  graph.loss = b.node(nodes::CrossEntropy{}, {logits}, "loss");
  simplify(graph);
  return graph;
}

}  // namespace addnorm::graph
