#include "addnorm/nodes/batch.h"

#include <algorithm>

namespace addnorm::nodes {

int64_t Batch::target_count() const {
  int64_t count = 0;
  for (size_t i = 0; i < targets.size(); ++i) {
    count += targets[i] != ignored && (mask.empty() || mask[i] != 0);
  }
  return count;
}

int64_t rows_without_keys(const Batch& batch, bool causal) {
  int64_t count = 0;
  for (int64_t b = 0; b < batch.sequences; ++b) {
    if (!batch.mask.empty()) {
      const uint8_t* row = batch.mask.data() + b * batch.length;
      const int64_t before =
          std::find_if(row, row + batch.length, [](uint8_t m) { return m != 0; }) - row;
      count += before == batch.length ? batch.length : causal ? before : 0;
    }
    if (!batch.source_mask.empty()) {
      const uint8_t* row = batch.source_mask.data() + b * batch.source_length;
      const bool none =
          std::none_of(row, row + batch.source_length, [](uint8_t m) { return m != 0; });
      count += none ? batch.source_length + batch.length : 0;
    }
  }
  return count;
}

void fill_positions(const uint8_t* mask, int64_t sequences, int64_t length, int32_t* positions) {
  for (int64_t b = 0; b < sequences; ++b) {
    int64_t first = 0;
    if (mask != nullptr) {
      const uint8_t* row = mask + b * length;
      const uint8_t* found = std::find_if(row, row + length, [](uint8_t m) { return m != 0; });
      first = found == row + length ? 0 : found - row;
    }
    for (int64_t j = 0; j < length; ++j) {
      positions[b * length + j] = static_cast<int32_t>(std::max<int64_t>(0, j - first));
    }
  }
}

}  // namespace addnorm::nodes
