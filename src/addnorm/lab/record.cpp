#include "addnorm/lab/record.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <nlohmann/json.hpp>

#include "addnorm/base/error.h"
#include "addnorm/base/text.h"

namespace addnorm::lab {
namespace {

using nlohmann::ordered_json;

// Infinite values are strings, as in metrics.jsonl; a value that does not exist is null.
ordered_json number_json(double value) {
  if (std::isnan(value)) return nullptr;
  if (std::isinf(value)) return shortest(value);
  if (value == std::floor(value) && std::abs(value) < 1e15) return static_cast<int64_t>(value);
  return value;
}

double number_from(const ordered_json& object, const char* key) {
  const auto at = object.find(key);
  if (at == object.end() || at->is_null()) return missing;
  if (at->is_number()) return at->get<double>();
  return at->is_string() ? std::strtod(at->get<std::string>().c_str(), nullptr) : missing;
}

SeedResult seed_from(const ordered_json& object) {
  SeedResult seed;
  seed.seed = object.at("seed").get<int64_t>();
  const std::string name = object.at("outcome").get<std::string>();
  const auto outcome = outcome_from(name);
  if (!outcome) throw std::invalid_argument("no outcome is called \"" + name + "\"");
  seed.outcome = *outcome;
  seed.train_loss = number_from(object, "train_loss");
  seed.val_loss = number_from(object, "val_loss");
  seed.steps = object.value("steps", int64_t{0});
  seed.seconds = object.value("seconds", 0.0);
  seed.run = object.value("run", std::string());
  return seed;
}

}  // namespace

std::string value_text(const Value& value) {
  if (const auto* number = std::get_if<double>(&value)) return shortest(*number);
  return std::get<std::string>(value);
}

Value value_of(const std::string& text) {
  char* end = nullptr;
  const double number = std::strtod(text.c_str(), &end);
  if (!text.empty() && *end == '\0' && std::isfinite(number)) return number;
  return text;
}

const Value* CellResult::find(const std::string& key) const {
  for (const auto& [name, value] : keys) {
    if (name == key) return &value;
  }
  return nullptr;
}

std::string CellResult::wiring() const {
  const Value* value = find("wiring");
  return value == nullptr ? "" : value_text(*value);
}

std::array<int, outcome_count> CellResult::counts() const {
  std::array<int, outcome_count> counts{};
  for (const SeedResult& seed : seeds) ++counts.at(static_cast<size_t>(seed.outcome));
  return counts;
}

bool CellResult::all(Outcome outcome) const {
  return !seeds.empty() &&
         counts().at(static_cast<size_t>(outcome)) == static_cast<int>(seeds.size());
}

bool SweepResult::complete() const {
  return std::all_of(cells.begin(), cells.end(), [this](const CellResult& cell) {
    return static_cast<int>(cell.seeds.size()) >= planned_seeds;
  });
}

Spread spread_of(const std::vector<double>& values) {
  Spread spread;
  double sum = 0;
  for (const double value : values) {
    if (!std::isfinite(value)) continue;
    sum += value;
    ++spread.count;
  }
  if (spread.count == 0) return spread;
  spread.mean = sum / spread.count;
  double squares = 0;
  for (const double value : values) {
    if (std::isfinite(value)) squares += (value - spread.mean) * (value - spread.mean);
  }
  if (spread.count > 1) spread.sd = std::sqrt(squares / (spread.count - 1));
  return spread;
}

Spread validation_spread(const CellResult& cell) {
  std::vector<double> values;
  for (const SeedResult& seed : cell.seeds) values.push_back(seed.val_loss);
  return spread_of(values);
}

Spread training_spread(const CellResult& cell) {
  std::vector<double> values;
  for (const SeedResult& seed : cell.seeds) values.push_back(seed.train_loss);
  return spread_of(values);
}

std::string sweep_json(const SweepResult& result) {
  ordered_json root;
  root["unigram_entropy"] = result.unigram_entropy ? number_json(*result.unigram_entropy) : nullptr;
  root["specification"] = result.specification;
  if (!result.catalogue.empty()) root["catalogue"] = result.catalogue;
  root["planned_seeds"] = result.planned_seeds;
  root["complete"] = result.complete();
  root["cells"] = ordered_json::array();
  for (const CellResult& cell : result.cells) {
    ordered_json& object = root["cells"].emplace_back();
    for (const auto& [key, value] : cell.keys) {
      if (const auto* number = std::get_if<double>(&value)) {
        object[key] = number_json(*number);
      } else {
        object[key] = std::get<std::string>(value);
      }
    }
    object["settings"] = ordered_json::object();
    for (const auto& [key, value] : cell.settings) object["settings"][key] = value;
    object["min_lr"] = number_json(cell.min_lr);
    object["seeds"] = ordered_json::array();
    for (const SeedResult& seed : cell.seeds) {
      object["seeds"].push_back({{"seed", seed.seed},
                                 {"outcome", outcome_name(seed.outcome)},
                                 {"train_loss", number_json(seed.train_loss)},
                                 {"val_loss", number_json(seed.val_loss)},
                                 {"steps", seed.steps},
                                 {"seconds", number_json(seed.seconds)},
                                 {"run", seed.run}});
    }
  }
  return root.dump(1, ' ', false, ordered_json::error_handler_t::replace) + "\n";
}

SweepResult parse_sweep(const std::string& text, const std::string& file) {
  try {
    const auto root =
        ordered_json::parse(text, [](int depth, ordered_json::parse_event_t, ordered_json&) {
          if (depth > 16) throw std::length_error("nested too deeply");
          return true;
        });
    SweepResult result;
    result.specification = root.value("specification", std::string());
    result.catalogue = root.value("catalogue", std::string());
    result.planned_seeds = root.value("planned_seeds", 0);
    if (const double h1 = number_from(root, "unigram_entropy"); std::isfinite(h1)) {
      result.unigram_entropy = h1;
    }
    for (const ordered_json& object : root.at("cells")) {
      CellResult& cell = result.cells.emplace_back();
      for (const auto& [key, value] : object.items()) {
        if (key == "min_lr") continue;
        if (value.is_number()) cell.keys.emplace_back(key, value.get<double>());
        if (value.is_string()) cell.keys.emplace_back(key, value.get<std::string>());
      }
      cell.min_lr = object.value("min_lr", 0.0);
      if (const auto settings = object.find("settings"); settings != object.end()) {
        for (const auto& [key, value] : settings->items()) {
          cell.settings.emplace_back(key, value.get<std::string>());
        }
      }
      for (const ordered_json& seed : object.at("seeds")) cell.seeds.push_back(seed_from(seed));
    }
    return result;
  } catch (const std::exception& problem) {
    fail_input(file, std::string("expected a sweep's record, got: ") + problem.what() +
                         "; run the sweep again to write it anew");
  }
}

}  // namespace addnorm::lab
