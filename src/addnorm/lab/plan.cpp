#include "addnorm/lab/plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <map>
#include <set>

#include "addnorm/base/files.h"
#include "addnorm/base/text.h"
#include "addnorm/data/dataset.h"
#include "addnorm/lab/run.h"

namespace addnorm::lab {
namespace {

// Keys whose value stands in a column of its own name.
std::string column_of(const std::string& key) {
  if (key == "model.wiring" || key == "model.layers" || key == "train.lr" ||
      key == "train.warmup") {
    return key.substr(key.find('.') + 1);
  }
  return key;
}

bool in_column(const std::string& key) {
  return key.starts_with("model.") ? key.ends_with("wiring") || key.ends_with("layers")
                                   : column_of(key) != key;
}

// Letters, digits and dashes, for a folder's name.
std::string slug(const std::string& text) {
  std::string name;
  for (const char c : text) {
    if (std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '+') {
      name += c;
    } else if (!name.empty() && name.back() != '-') {
      name += '-';
    }
    if (name.size() >= 40) break;
  }
  return name;
}

// A function of all that decides the run's result except its seed, so that a changed specification is
// never taken for the old one. The lines of comments name where values came from, which does not count.
std::string fingerprint(const model::Specification& specification) {
  std::string text;
  for (const std::string& line : split(model::resolved_toml(specification), '\n')) {
    const std::string content = trim(line);
    if (content.empty() || content.starts_with("#") || content.starts_with("seed =")) continue;
    // A comment after the value; values of ours hold no '#' outside formulas, which keep theirs.
    const size_t comment = content.rfind("  #");
    text += content.substr(0, comment) + "\n";
  }
  return sha256(text).substr(0, 8);
}

// Roughly the work of a training: layers, tokens, width squared.
double cost_of(const model::Specification& specification) {
  const auto& m = specification.model;
  const auto& t = specification.train;
  const double layers = m.layers + m.encoder_layers + 1.5 * m.decoder_layers;
  return layers * static_cast<double>(t.steps) * static_cast<double>(t.batch * t.accumulate) *
         static_cast<double>(m.context) * static_cast<double>(m.width);
}

PlannedCell planned(const Cell& cell, const model::Specification& specification) {
  PlannedCell result;
  result.cell = cell;
  result.steps = specification.train.steps;
  result.cost = cost_of(specification);
  result.record.settings = cell.settings;
  result.record.min_lr = specification.train.min_lr;
  auto& keys = result.record.keys;
  // A formula of one's own stands as it was typed; a name as the catalogue has it.
  keys.emplace_back("wiring", wiring_text(specification.model));
  keys.emplace_back("layers", value_of(layers_text(specification.model)));
  keys.emplace_back("lr", specification.train.lr);
  keys.emplace_back("warmup", value_of(specification.train.warmup));
  for (const auto& [key, value] : cell.settings) {
    if (!in_column(key)) keys.emplace_back(key, value_of(value));
  }
  result.folder = slug(fmt::format("{} {} w{}", wiring_text(specification.model),
                                   layers_text(specification.model), specification.train.warmup)) +
                  "-" + fingerprint(specification);
  return result;
}

std::string name_of(const Cell& cell) {
  std::vector<std::string> words;
  for (const auto& [key, value] : cell.settings) words.push_back(key + "=" + value);
  return "cell " + (words.empty() ? "of the specification" : join(words, " "));
}

// What is wrong with the cells, each finding with the cell that has it; what is wrong with all of them
// stands once, without one.
Findings together(const std::vector<Cell>& cells, const std::vector<Findings>& of_cells) {
  std::map<std::string, std::set<size_t>> cells_with;  // by the text of a finding
  for (size_t i = 0; i < cells.size(); ++i) {
    for (const Finding& finding : of_cells[i]) cells_with[finding.text()].insert(i);
  }
  Findings all;
  for (size_t i = 0; i < cells.size(); ++i) {
    for (Finding finding : of_cells[i]) {
      const bool shared = cells_with.at(finding.text()).size() == cells.size();
      if (shared && i > 0) continue;
      if (!shared) {
        finding.where = name_of(cells[i]) + (finding.where.empty() ? "" : ", ") + finding.where;
      }
      all.push_back(finding);
    }
  }
  return all;
}

}  // namespace

SweepPlan plan_sweep(const std::filesystem::path& specification, const std::vector<Cell>& cells,
                     int seeds, const formula::Catalogue& catalogue) {
  if (seeds < 1) fail_input("--seeds", fmt::format("expected at least 1, got {}", seeds));
  SweepPlan plan;
  plan.specification = specification;
  plan.seeds = seeds;
  std::vector<Findings> problems(cells.size());
  for (size_t i = 0; i < cells.size(); ++i) {
    try {
      const auto resolved = model::for_training(specification, cells[i].settings, catalogue);
      model::shape(resolved, catalogue);
      data::require_texts(resolved.data);
      plan.first_seed = static_cast<int64_t>(resolved.train.seed);
      PlannedCell cell = planned(cells[i], resolved);
      for (const PlannedCell& other : plan.cells) {
        if (other.folder != cell.folder) continue;
        problems[i].push_back(
            {Level::error, "",
             "expected cells that differ in more than the seed, got the same as " +
                 name_of(other.cell) + "; try --seeds N for several seeds of every cell"});
      }
      plan.cells.push_back(std::move(cell));
    } catch (const Error& error) {
      if (error.findings().empty()) throw;  // not of the specification: the system
      problems[i] = error.findings();
    }
  }
  const Findings all = together(cells, problems);
  if (has_errors(all)) throw Error(all);
  return plan;
}

}  // namespace addnorm::lab
