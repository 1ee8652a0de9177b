// What the loop trains and evaluates on. data/ has the real ones.
#pragma once

#include <cstdint>
#include <vector>

#include "addnorm/nodes/batch.h"

namespace addnorm::train {

class Source {
 public:
  virtual ~Source() = default;

  // The micro-batches of a step (from 1): at most `accumulate` of them, fewer at the end of an epoch.
  // A function of the step alone, so a resumed run sees what an uninterrupted one does.
  virtual void step(int64_t step, std::vector<nodes::Batch>& micro_batches) = 0;

  // Fills `origin` of the rows of a step's micro-batches: where each comes from, for messages.
  virtual void name_origins(int64_t /*step*/, std::vector<nodes::Batch>& /*micro_batches*/) const {}

  // The validation part in batches, in order; 0 where none is held out.
  virtual int64_t validation_batches() const = 0;
  virtual void validation(int64_t index, nodes::Batch& batch) = 0;
  // Bytes of text behind the targets of the whole part, for bits per byte; 0: unknown.
  virtual int64_t validation_bytes() const = 0;
};

}  // namespace addnorm::train
