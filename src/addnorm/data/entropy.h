// What a model can reach by counting alone (theory.md 3.16): entropy of the training targets by their
// frequency and by the token before them, and the cross-entropy of these counts, each raised by one, on
// the validation targets. Nats.
#pragma once

#include <cstdint>

#include "addnorm/data/rows.h"

namespace addnorm::data {

struct Entropies {
  double unigram = 0;             // H1: of the training targets
  double bigram = 0;              // of a training target given the token before it
  double unigram_validation = 0;  // cross-entropies on the validation targets; NaN without any
  double bigram_validation = 0;
  double collision = 0;  // probability that two training targets are the same token
  int64_t targets = 0;   // of the training part
  int64_t distinct = 0;  // tokens among them
};

// Reads both parts once. `validation` may be null; `vocab` bounds the ids and is the number of outcomes
// that the raised counts are spread over.
Entropies measure_entropies(const Rows& training, const Rows* validation, Task task, int64_t vocab);

}  // namespace addnorm::data
