// What every engine does with a batch before it computes: checks, positions, targets under the mask.
#pragma once

#include <vector>

#include "addnorm/engine/engine.h"

namespace addnorm::engine {

// A batch ready to be computed on. Keeps its arrays between batches, so that it does not allocate
// once the largest batch has come.
class PreparedBatch {
 public:
  // Throws Error(input) naming id, sequence, position and the allowed range.
  void prepare(const graph::Graph& graph, const nodes::Batch& batch, const Request& request);
  // The view of sequences [first, first + count).
  nodes::BatchView view(int64_t first, int64_t count) const;
  int64_t sequences() const { return batch_->sequences; }
  int64_t target_count() const { return targets_counted_; }
  double divisor() const { return divisor_; }
  int64_t rows(graph::Rows rows) const;  // of the whole batch; 1 for `fixed`

 private:
  const nodes::Batch* batch_ = nullptr;
  const Request* request_ = nullptr;
  std::vector<int32_t> positions_, source_positions_, targets_;
  std::vector<double> schedules_;
  formula::Scalars at_t_ = {{"t", 1}};
  int64_t targets_counted_ = 0;
  double divisor_ = 1;
};

}  // namespace addnorm::engine
