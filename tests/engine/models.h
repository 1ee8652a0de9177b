// Small models and batches for tests of graphs and engines.
#pragma once

#include <string>

#include "addnorm/base/random.h"
#include "addnorm/formula/program.h"
#include "addnorm/graph/lower.h"
#include "addnorm/nodes/batch.h"

namespace addnorm::testing_models {

inline graph::ModelShape small_shape(graph::ModelKind kind, const std::string& formula,
                                     int layers = 2) {
  graph::ModelShape shape;
  shape.kind = kind;
  shape.decoder = {formula::parse(formula), {}, layers};
  const bool pair = kind == graph::ModelKind::encoder_decoder;
  // The encoder of a pair has no cross-attention to write down.
  const bool crosses = formula.find("cross(") != std::string::npos;
  if (pair)
    shape.encoder = {
        formula::parse(crosses ? "x = x + f(norm(x)); out = norm(x)" : formula), {}, layers};
  shape.width = 16;
  shape.heads = 4;
  shape.kv_heads = 2;
  shape.head_dim = 4;
  shape.ffn = 24;
  for (const graph::Role role : graph::all_roles()) shape.bias_roles.insert(role);
  shape.vocab = 19;
  shape.context = 12;
  shape.tie_embeddings = false;
  return shape;
}

inline nodes::Batch make_batch(const graph::ModelShape& shape, int64_t sequences, int64_t length,
                               bool masked) {
  const Random random(17, "batch");
  uint64_t draws = 0;
  nodes::Batch batch;
  batch.sequences = sequences;
  batch.length = length;
  const auto vocab = static_cast<uint64_t>(shape.vocab);
  const auto id = [&] { return static_cast<int32_t>(random.below(draws++, vocab)); };
  for (int64_t i = 0; i < sequences * length; ++i) {
    batch.tokens.push_back(id());
    batch.targets.push_back(i % 4 == 3 ? nodes::Batch::ignored : id());
    if (masked) batch.mask.push_back(i % length >= i / length % 3);
  }
  if (shape.kind == graph::ModelKind::encoder_decoder) {
    batch.source_length = length - 1;
    for (int64_t i = 0; i < sequences * batch.source_length; ++i) {
      batch.source.push_back(id());
      if (masked) batch.source_mask.push_back(i % batch.source_length < 3);
    }
  }
  return batch;
}

}  // namespace addnorm::testing_models
