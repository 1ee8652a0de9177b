// One micro-batch as the engines read it, and the part of it that a node computes on.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace addnorm::nodes {

// Row-major [sequences, length]. Masks are empty where every token is real.
struct Batch {
  int64_t sequences = 0;
  int64_t length = 0;                // T, of the decoder (or of the only stack)
  int64_t source_length = 0;         // Ts, 0 where there is no encoder beside a decoder
  std::vector<int32_t> tokens;       // [B, T]
  std::vector<int32_t> targets;      // [B, T], -100 = ignored
  std::vector<int32_t> source;       // [B, Ts]
  std::vector<uint8_t> mask;         // [B, T], 1 = real token
  std::vector<uint8_t> source_mask;  // [B, Ts]
  std::vector<std::string> origin;   // where each row comes from, for messages; may be empty

  static constexpr int32_t ignored = -100;
  int64_t target_count() const;  // targets that are neither ignored nor under mask 0
};

// The sequences [first_sequence, first_sequence + sequences) of a batch. Masks are null where all
// tokens are real, the source pointers where there is no encoder beside a decoder.
struct BatchView {
  int64_t first_sequence = 0;
  int64_t sequences = 0;
  int64_t length = 0;
  int64_t source_length = 0;
  const int32_t* tokens = nullptr;
  const int32_t* targets = nullptr;  // ignored ones and those under mask 0 are -100
  const int32_t* source = nullptr;
  const uint8_t* mask = nullptr;
  const uint8_t* source_mask = nullptr;
  const int32_t* positions = nullptr;         // [sequences, length]
  const int32_t* source_positions = nullptr;  // [sequences, source_length]
  double divisor = 1;                         // number of targets of the whole optimizer step
  double label_smoothing = 0;
  double z_loss = 0;
  bool training = false;  // dropout acts
  uint64_t dropout_seed = 0;
  const double* schedules = nullptr;  // values of the graph's expressions in t
};

// Query rows of self- or cross-attention all of whose keys are masked.
int64_t rows_without_keys(const Batch& batch, bool causal);

// Position of column j = max(0, j - f), f the row's first real column (0 if there is none).
void fill_positions(const uint8_t* mask, int64_t sequences, int64_t length, int32_t* positions);

}  // namespace addnorm::nodes
