// What became of a run: the rules of docs/sweeps.md, from its training losses alone.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "addnorm/lab/metrics.h"

namespace addnorm::lab {

enum class Outcome : uint8_t { learned, stalled, diverged, undecided, failed };
inline constexpr int outcome_count = 5;

const char* outcome_name(Outcome outcome);
std::optional<Outcome> outcome_from(const std::string& name);

// Margins in nat.
struct OutcomeRule {
  double learned_below = 0.3;   // m <= H1 - this
  double stalled_above = 0.1;   // m > H1 - this, and
  double stalled_moved = 0.1;   //   moved less than this in the second half
  double diverged_above = 0.5;  // m > H1 + this, and above its value at a tenth of the run
  int window = 20;              // updates in a mean
};

// Mean training loss of the `window` updates that end at update `step` (fewer where there are fewer);
// NaN without any. Step 0 is no update.
double mean_loss(const std::vector<StepRecord>& steps, int64_t step, int window = 20);
bool any_nonfinite(const std::vector<StepRecord>& steps);

// `unigram_entropy` H1 in nat per token. Without it only "diverged" (non-finite) and "undecided" can
// be told; without any update the run has failed.
Outcome judge(const Metrics& metrics, std::optional<double> unigram_entropy,
              const OutcomeRule& rule = {});

}  // namespace addnorm::lab
