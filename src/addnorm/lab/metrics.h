// What a run wrote into metrics.jsonl, read back: complete lines only, so that it works while the run
// goes on and after a kill. Unknown events and keys are kept out, never an error.
#pragma once

#include <cstdint>
#include <filesystem>
#include <limits>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace addnorm::lab {

inline constexpr double missing = std::numeric_limits<double>::quiet_NaN();

struct StepRecord {
  int64_t step = 0;  // step 0: the loss of the first batch before any update
  double loss = missing;
  std::optional<double> lr, grad_norm;  // grad_norm: before clipping
  double clipped = 0;                   // share of the last 100 updates that were clipped
  double seconds = 0;
  int64_t tokens = 0, nonfinite_steps = 0;
};

struct EvalRecord {
  int64_t step = 0;
  double val_loss = missing;
};

// One place of a stack in a "diag" line; NaN where it was not measured.
struct DiagLayer {
  int layer = -1;                     // counted from 0; -1: after the last layer
  std::string stack;                  // "", "encoder" or "decoder"
  double stream_ms = missing;         // mean square of the stream before the layer
  double stream_grad_norm = missing;  // norm of the loss's gradient at the stream
  double grad_norm = missing;         // over the layer's weights, before clipping
  double update_ratio = missing;      // |change of the weights| / |weights|
  double correlation = missing;       // of tokens, after the last layer (theory.md, Symbols)
};

struct DiagRole {
  double grad_norm = missing, update_ratio = missing;
};

struct DiagRecord {
  int64_t step = 0;
  std::vector<DiagLayer> layers;  // of each stack in order, then its end
  std::map<std::string, DiagRole> roles;
};

struct Note {
  int64_t step = 0;
  std::string text;
};

struct Metrics {
  bool absent = false;  // there is no file
  std::vector<StepRecord> steps;
  std::vector<EvalRecord> evals;
  std::vector<DiagRecord> diags;
  std::vector<Note> notes;
  // theory.md 3.16, nat per token: entropies of the training targets, cross-entropies (add-one
  // counts) on the validation part.
  std::optional<double> unigram_entropy, unigram_validation, bigram_entropy, bigram_validation;
  bool torn = false;  // the last line was not complete and is left out

  int64_t last_step() const { return steps.empty() ? 0 : steps.back().step; }
};

// Throws Error with file and line for a complete line that is not a JSON object.
Metrics parse_metrics(std::string_view text, const std::string& file);
// A file that does not exist gives no records.
Metrics read_metrics(const std::filesystem::path& file);
// The step of the last complete "step" line, read from the end of the file; 0 without one.
int64_t last_step(const std::filesystem::path& file);

}  // namespace addnorm::lab
