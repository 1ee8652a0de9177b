// sweep.json: what a sweep found, cell by cell and seed by seed.
#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "addnorm/lab/grid.h"
#include "addnorm/lab/metrics.h"
#include "addnorm/lab/outcome.h"

namespace addnorm::lab {

using Value = std::variant<double, std::string>;
std::string value_text(const Value& value);
Value value_of(const std::string& text);  // a number where all of the text is one

struct SeedResult {
  int64_t seed = 0;
  Outcome outcome = Outcome::failed;
  double train_loss = missing;  // mean of the last 20 updates
  double val_loss = missing;    // of the last evaluation
  int64_t steps = 0;            // updates made
  double seconds = 0;
  std::string run;  // folder, relative to the sweep's
};

struct CellResult {
  // "wiring", "layers", "lr" and "warmup" of every cell, then what else the grid sets for it under
  // its full key.
  std::vector<std::pair<std::string, Value>> keys;
  Settings settings;  // all of them, as flags of the training verb: with these it is the same cell
  double min_lr = 0;
  std::vector<SeedResult> seeds;  // finished ones

  const Value* find(const std::string& key) const;
  std::string wiring() const;
  std::array<int, outcome_count> counts() const;
  bool all(Outcome outcome) const;  // at least one seed, and every seed
};

struct SweepResult {
  std::string specification;  // path as the user gave it
  std::string catalogue;      // likewise; "" without one
  int planned_seeds = 0;
  std::optional<double> unigram_entropy;  // nat per token
  std::vector<CellResult> cells;

  bool complete() const;  // every cell has all its seeds
};

// Mean and sample standard deviation of finite values (spread 0 for one value).
struct Spread {
  int count = 0;
  double mean = missing;
  double sd = 0;
};
Spread spread_of(const std::vector<double>& values);
Spread validation_spread(const CellResult& cell);
Spread training_spread(const CellResult& cell);

std::string sweep_json(const SweepResult& result);
SweepResult parse_sweep(const std::string& text, const std::string& file);

}  // namespace addnorm::lab
