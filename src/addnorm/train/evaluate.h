// Token-weighted evaluation: one sum and one count over all targets, whatever the batches are.
#pragma once

#include <cstdint>
#include <functional>

#include "addnorm/engine/engine.h"
#include "addnorm/train/source.h"

namespace addnorm::train {

struct Evaluation {
  double sum = 0;      // of the cross-entropies, nats
  int64_t tokens = 0;  // targets that count
  int64_t bytes = 0;   // of the text behind them; 0: unknown

  double loss() const;           // sum / tokens, 0 without tokens
  double perplexity() const;     // exp(loss)
  double bits_per_byte() const;  // sum / (ln 2 * bytes), NaN without bytes
};

// Adds one batch: no dropout, no label smoothing, no z-loss. `t`: updates made, infinity for bare
// weights.
void evaluate_batch(engine::Engine<float>& engine, const nodes::Batch& batch, double t,
                    Evaluation& to);

// The validation part; `bytes` where all of it was read. Stops after the batch that reaches `most_tokens` (0: all).
Evaluation evaluate(engine::Engine<float>& engine, Source& source, double t, int64_t most_tokens);

}  // namespace addnorm::train
