// Batches as safetensors files: tokens and targets I64 [B,T], mask U8 [B,T]; in an encoder-decoder also
// source I64 [B,Ts] and source_mask U8 [B,Ts]. Target -100 = ignored, mask 1 = real token, an absent
// mask = all real. I32 ids and BOOL masks are accepted.
#pragma once

#include <cstdint>
#include <filesystem>

#include "addnorm/base/error.h"
#include "addnorm/checkpoint/safetensors.h"
#include "addnorm/nodes/batch.h"

namespace addnorm::checkpoint {

// What the model can take.
struct BatchLimits {
  int64_t vocab = 0;    // ids are 0..vocab-1, also under the mask
  int64_t context = 0;  // the longest sequence, of source and tokens
  bool pair = false;    // an encoder-decoder: source is required, otherwise refused
};

struct BatchFile {
  nodes::Batch batch;
  int64_t targets_under_mask = 0;  // ignored, and not in the divisor
  Findings findings;               // warnings
};

// All problems at once (of ids the first 10 of each tensor): missing, unknown or wrongly shaped
// tensors, ids with sequence, position and range, mask values other than 0 and 1.
BatchFile read_batch(const fs::path& path, const BatchLimits& limits);
BatchFile read_batch(const SafetensorsFile& file, const BatchLimits& limits);

void write_batch(const fs::path& path, const nodes::Batch& batch);

}  // namespace addnorm::checkpoint
