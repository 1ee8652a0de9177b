// Rows become batches. A batch is a function of (seed, step, row) alone: nothing is drawn in advance and
// nothing is remembered, so resuming needs only the number of the step.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "addnorm/base/random.h"
#include "addnorm/data/rows.h"
#include "addnorm/data/shuffle.h"
#include "addnorm/nodes/batch.h"

namespace addnorm::data {

enum class Order {
  epoch,     // every row once per epoch, shuffled anew each time; no step crosses an epoch
  random,    // each row starts anywhere
  sequence,  // the rows as they stand, once: validation
};

struct BatchOptions {
  Order order = Order::epoch;
  int64_t batch = 1;       // rows of a micro-batch
  int64_t accumulate = 1;  // micro-batches of a step
  uint64_t seed = 1;
  double mask_rate = 0;  // Task::masked: share of the positions predicted
};

// One thread at a time, also through const functions. The rows of a sequence hold at least one target:
// where no position of masked prediction was drawn, the first position of the first row is predicted.
class Batches {
 public:
  Batches(std::shared_ptr<const Rows> rows, std::shared_ptr<const text::Tokenizer> tokenizer,
          Task task, const BatchOptions& options);

  // Steps of an epoch or of the whole sequence; 0 for Order::random, which has no epochs.
  int64_t steps_per_epoch() const;
  // Steps count from 1. The last step of an epoch may have fewer rows and micro-batches.
  int64_t rows(int64_t step) const;
  int64_t micro_batches(int64_t step) const;
  // The divisor of the whole step: the targets of all its micro-batches.
  int64_t target_count(int64_t step) const;
  // Micro-batch `micro` (from 0) of a step; reuses the memory of `batch`, leaves `origin` empty.
  // Shorter rows are padded on the right: padding id (0 where there is none), mask 0, target -100;
  // masks are empty where all rows are equally long.
  void fill(int64_t step, int64_t micro, nodes::Batch& batch) const;
  // Where row `row` of the step comes from, for messages: "corpus.txt: byte 4096".
  std::string origin(int64_t step, int64_t row) const;
  const Rows& source() const { return *rows_; }

 private:
  int64_t place(int64_t step, int64_t row) const;
  Random mask_random(int64_t step, int64_t row) const;
  void mask(int64_t step, int64_t row, Row& tokens) const;
  bool predicted(const Random& random, int64_t step, int64_t row, size_t position) const;
  bool any_predicted() const;

  std::shared_ptr<const Rows> rows_;
  std::shared_ptr<const text::Tokenizer> tokenizer_;
  Task task_;
  BatchOptions options_;
  bool force_first_ = false;  // a sequence in which no position was drawn
  // Only to save work: what comes out does not depend on them. One thread at a time.
  mutable std::vector<Row> scratch_;
  mutable std::optional<Shuffle> shuffle_;
  mutable int64_t shuffled_epoch_ = 0;
};

}  // namespace addnorm::data
