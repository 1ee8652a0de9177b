// Generating text from a model: one whole forward pass per token.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "addnorm/data/dataset.h"
#include "addnorm/engine/engine.h"
#include "addnorm/text/tokenizer.h"

namespace addnorm::train {

struct SampleOptions {
  std::string prompt;      // empty: a line break, or the first id where the tokenizer has none
  int64_t tokens = 200;    // to generate; a pair stops at eos
  double temperature = 1;  // 0: always the likeliest token
  uint64_t seed = 1;
  double t = 1;  // of schedules: updates made
};

// Calls `emit` with the text of each token as it comes (bytes of a code point may come one by one).
// Decoder: the prompt goes on, within the last `context` tokens. Encoder-decoder: the prompt is the
// source. An encoder generates nothing: Error. Deterministic for a seed, thread count and instruction
// set. Ids that the tokenizer does not have, and special ones, are never generated.
void sample(engine::Engine<float>& engine, const text::Tokenizer& tokenizer, data::Task task,
            const SampleOptions& options, const std::function<void(const std::string&)>& emit);

// The id chosen from the first `count` logits (and `extra`, where it is not negative) for a uniform
// number in [0, 1).
int32_t choose(std::span<const float> logits, int32_t count, int32_t extra, double temperature,
               double uniform);

}  // namespace addnorm::train
