// A run folder as a whole: its specification, its machine, its metrics, and whether it ended.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "addnorm/lab/metrics.h"
#include "addnorm/lab/outcome.h"
#include "addnorm/model/specification.h"

namespace addnorm::lab {

struct RunRecord {
  std::filesystem::path folder;
  std::string specification_text;  // spec.toml as it stands
  model::Specification specification;
  Metrics metrics;
  std::string environment;  // env.json as it stands, "" without one

  int64_t planned_steps() const { return specification.train.steps; }
  bool ended() const { return metrics.last_step() >= planned_steps(); }
  Outcome outcome() const { return judge(metrics, metrics.unigram_entropy); }
};

bool is_run(const std::filesystem::path& folder);    // holds spec.toml
bool is_sweep(const std::filesystem::path& folder);  // holds sweep.json

// The runs of a sweep's folder, sorted.
std::vector<std::string> runs_below(const std::filesystem::path& sweep);

// What the catalogue has to say about the names that a run's formulas came from: nothing, unless an
// entry differs by now.
std::vector<std::string> changed_wirings(const model::Specification& specification);

// Works while the run goes on and after it was killed.
RunRecord read_run(const std::filesystem::path& folder, const formula::Catalogue& catalogue);

// "Did it learn?" and two sentences about one run.
std::string run_question(const RunRecord& run);
std::string run_answer(const RunRecord& run);

// "6", or "3+3" of a pair; the wirings of one stack or of both, as named or written.
std::string layers_text(const model::ModelSection& model);
std::string wiring_text(const model::ModelSection& model);

}  // namespace addnorm::lab
