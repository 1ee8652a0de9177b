#include "addnorm/lab/words.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "addnorm/base/text.h"

namespace addnorm::lab {
namespace {

std::string shortened(const std::string& text, size_t width) {
  return text.size() <= width ? text : text.substr(0, width - 2) + "..";
}

bool same_value(const Value* a, const Value* b) {
  return (a == nullptr) == (b == nullptr) && (a == nullptr || *a == *b);
}

std::vector<std::string> all_keys(const SweepResult& result) {
  std::vector<std::string> keys;
  for (const CellResult& cell : result.cells) {
    for (const auto& [key, value] : cell.keys) {
      if (std::find(keys.begin(), keys.end(), key) == keys.end()) keys.push_back(key);
    }
  }
  return keys;
}

bool everywhere(const SweepResult& result, const std::string& key) {
  return std::all_of(result.cells.begin(), result.cells.end(),
                     [&](const CellResult& cell) { return cell.find(key) != nullptr; });
}

bool varies(const SweepResult& result, const std::string& key) {
  return std::any_of(result.cells.begin(), result.cells.end(), [&](const CellResult& cell) {
    return !same_value(cell.find(key), result.cells.front().find(key));
  });
}

// The wiring and its initialization change together: a published rule belongs to its wiring.
std::string axis_of(const std::string& key) {
  return key == "wiring" || key.starts_with("init.") ? "wiring" : key;
}

// Keys of the two cells only: it is asked for every pair of a grid.
std::set<std::string> differing_axes(const CellResult& a, const CellResult& b) {
  std::set<std::string> axes;
  for (const CellResult* cell : {&a, &b}) {
    for (const auto& [key, value] : cell->keys) {
      if (!same_value(a.find(key), b.find(key))) axes.insert(axis_of(key));
    }
  }
  return axes;
}

std::string text_at(const CellResult& cell, const std::string& key) {
  const Value* value = cell.find(key);
  return value == nullptr ? "" : value_text(*value);
}

Outcome commonest(const CellResult& cell) {
  const auto counts = cell.counts();
  return static_cast<Outcome>(std::max_element(counts.begin(), counts.end()) - counts.begin());
}

// Trains the cell again with the changes: everything that the sweep set, at a seed that came out as most
// seeds of the cell did.
std::string command(const SweepResult& result, const CellResult& cell, const Settings& changes) {
  std::string text =
      "addnorm train " +
      shell_quoted(result.specification.empty() ? "spec.toml" : result.specification);
  const auto add = [&](const std::string& key, const std::string& value) {
    text += " --" + key + " " + shell_quoted(value);
  };
  const Outcome outcome = commonest(cell);
  const auto seed = std::find_if(cell.seeds.begin(), cell.seeds.end(),
                                 [&](const SeedResult& s) { return s.outcome == outcome; });
  for (const auto& [key, value] : cell.settings) {
    const bool changed = std::any_of(changes.begin(), changes.end(),
                                     [&](const auto& change) { return change.first == key; });
    if (!changed && key != "train.seed") add(key, value);
  }
  for (const auto& [key, value] : changes) add(key, value);
  if (seed != cell.seeds.end()) add("train.seed", std::to_string(seed->seed));
  if (!result.catalogue.empty()) text += " --catalogue " + shell_quoted(result.catalogue);
  return text;
}

// A third of the rate; its end cannot stay above it.
Settings lower_rate(const CellResult& cell) {
  const Value* lr = cell.find("lr");
  const double rate =
      lr != nullptr && std::holds_alternative<double>(*lr) ? std::get<double>(*lr) : 0;
  Settings changes = {{"train.lr", fmt::format("{:.2g}", rate / 3)}};
  if (cell.min_lr > 0) changes.emplace_back("train.min_lr", fmt::format("{:.2g}", cell.min_lr / 3));
  return changes;
}

std::string tally(const CellResult& cell) {
  const auto counts = cell.counts();
  std::vector<std::string> parts;
  for (int i = 0; i < outcome_count; ++i) {
    if (counts.at(static_cast<size_t>(i)) == 0) continue;
    parts.push_back(fmt::format("{} at {} of {} seeds", outcome_name(static_cast<Outcome>(i)),
                                counts.at(static_cast<size_t>(i)), cell.seeds.size()));
  }
  return parts.empty() ? "no finished seed yet" : join(parts, ", ");
}

std::string loss_text(const Spread& spread) {
  if (spread.count == 0) return "-";
  return spread.count == 1 ? fmt::format("{:.3f}", spread.mean)
                           : fmt::format("{:.3f} ± {:.3f}", spread.mean, spread.sd);
}

// Columns padded to their widest entry; "±" is one column and two bytes.
std::string aligned(const std::vector<std::vector<std::string>>& rows) {
  const auto columns_of = [](const std::string& text) {
    return std::count_if(text.begin(), text.end(),
                         [](unsigned char c) { return (c & 0xC0) != 0x80; });
  };
  std::vector<std::ptrdiff_t> widths;
  for (const auto& row : rows) {
    widths.resize(std::max(widths.size(), row.size()));
    for (size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], columns_of(row[i]));
  }
  std::string text;
  for (const auto& row : rows) {
    std::string line;
    for (size_t i = 0; i < row.size(); ++i) {
      line += row[i] + std::string(static_cast<size_t>(widths[i] - columns_of(row[i]) + 2), ' ');
    }
    text += line.substr(0, line.find_last_not_of(' ') + 1) + "\n";
  }
  return text;
}

// A cell that learned everywhere and differs from this one in one axis only: a setting of the training
// before the wiring before the model's size, which would be another model. -1 without one.
int learned_neighbour(const SweepResult& result, size_t cell) {
  int best = -1, best_rank = 3;
  for (size_t i = 0; i < result.cells.size(); ++i) {
    if (!result.cells[i].all(Outcome::learned)) continue;
    const auto axes = differing_axes(result.cells[cell], result.cells[i]);
    if (axes.size() != 1) continue;
    const std::string& axis = *axes.begin();
    const int rank = axis == "wiring" ? 1 : axis == "layers" || axis.starts_with("model.") ? 2 : 0;
    if (rank < best_rank) {
      best = static_cast<int>(i);
      best_rank = rank;
    }
  }
  return best;
}

std::string change_text(const CellResult& from, const CellResult& to, const std::string& axis) {
  if (axis == "wiring" && from.wiring() == to.wiring()) return "another initialization";
  return fmt::format("{} {} instead of {}", axis, shortened(text_at(to, axis), 48),
                     shortened(text_at(from, axis), 48));
}

}  // namespace

std::string shell_quoted(const std::string& text) {
  const bool plain = !text.empty() && std::all_of(text.begin(), text.end(), [](unsigned char c) {
    return std::isalnum(c) != 0 ||
           std::string_view("_-./:+,=%@").find(static_cast<char>(c)) != std::string_view::npos;
  });
  if (plain) return text;
  std::string quoted = "'";
  for (const char c : text) quoted += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return quoted + "'";
}

std::vector<std::string> varied_keys(const SweepResult& result) {
  std::vector<std::string> keys;
  for (const std::string& key : all_keys(result)) {
    if (everywhere(result, key) && (key == "wiring" || varies(result, key))) keys.push_back(key);
  }
  return keys;
}

std::string cell_label(const SweepResult& result, size_t cell) {
  const CellResult& at = result.cells.at(cell);
  std::vector<std::string> parts;
  const std::vector<std::string> columns = varied_keys(result);
  for (const std::string& key : columns) {
    const std::string value = shortened(text_at(at, key), 48);
    parts.push_back(key == "wiring" ? value : key + " " + value);
  }
  // Extras that only some cells set, where the label alone would not tell two cells apart.
  for (size_t i = 0; i < result.cells.size(); ++i) {
    if (i == cell) continue;
    if (std::all_of(columns.begin(), columns.end(), [&](const std::string& key) {
          return same_value(at.find(key), result.cells[i].find(key));
        })) {
      for (const auto& [key, value] : at.keys) {
        if (!everywhere(result, key)) parts.push_back(key + " " + shortened(value_text(value), 32));
      }
      break;
    }
  }
  return join(parts, ", ");
}

std::string extras_text(const SweepResult& result, const CellResult& cell) {
  std::vector<std::pair<std::string, std::string>> groups;  // value, keys that have it
  for (const auto& [key, value] : cell.keys) {
    if (everywhere(result, key)) continue;
    const std::string text = value_text(value);
    const auto at =
        std::find_if(groups.begin(), groups.end(), [&](const auto& g) { return g.first == text; });
    if (at == groups.end()) {
      groups.emplace_back(text, key);
    } else {
      at->second += ", " + key;
    }
  }
  std::vector<std::string> parts;
  for (const auto& [value, keys] : groups) parts.push_back(keys + " = " + value);
  return join(parts, "; ");
}

std::string question(const SweepResult& result) {
  std::vector<std::string> wirings, settings;
  for (const CellResult& cell : result.cells) {
    const std::string name = shortened(cell.wiring(), 48);
    if (std::find(wirings.begin(), wirings.end(), name) == wirings.end()) wirings.push_back(name);
  }
  for (const std::string& key : varied_keys(result)) {
    if (key != "wiring") settings.push_back(key);
  }
  std::string text = wirings.size() == 1 ? "Does " + wirings.front() + " learn this text"
                                         : "Which of " + join(wirings, ", ") + " learn this text";
  if (!settings.empty()) text += ", and how does that depend on " + join(settings, " and ");
  return text + "?";
}

std::string answer(const SweepResult& result) {
  std::vector<std::string> others;
  for (size_t i = 0; i < result.cells.size(); ++i) {
    if (result.cells[i].all(Outcome::learned)) continue;
    others.push_back(cell_label(result, i) + " (" + tally(result.cells[i]) + ")");
  }
  const size_t learned = result.cells.size() - others.size();
  std::string first = learned == 0 ? "No cell learned at every seed"
                                   : fmt::format("{} of {} cells learned at every seed", learned,
                                                 result.cells.size());
  if (!others.empty()) first += (learned == 0 ? ": " : "; not so ") + join(others, " and ");
  first += ".";
  std::vector<std::string> differences;
  for (size_t i = 0; i < result.cells.size(); ++i) {
    const CellResult& cell = result.cells[i];
    if (cell.seeds.empty() || cell.counts().at(static_cast<size_t>(Outcome::learned)) > 0) continue;
    std::vector<std::string> changes;
    for (const CellResult& other : result.cells) {
      const auto axes = differing_axes(cell, other);
      if (!other.all(Outcome::learned) || axes.size() != 1) continue;
      changes.push_back(change_text(cell, other, *axes.begin()));
    }
    if (!changes.empty())
      differences.push_back("in " + cell_label(result, i) + ": " + join(changes, ", or "));
  }
  if (!differences.empty()) {
    return first + " What alone turned failure into learning, " + join(differences, "; ") + ".";
  }
  size_t best = result.cells.size();
  for (size_t i = 0; i < result.cells.size(); ++i) {
    if (validation_spread(result.cells[i]).count == 0) continue;
    if (best == result.cells.size() ||
        validation_spread(result.cells[i]).mean < validation_spread(result.cells[best]).mean) {
      best = i;
    }
  }
  if (best == result.cells.size()) return first + " There is no validation loss to compare.";
  return first + fmt::format(" The lowest mean validation loss, {} nat per token, belongs to {}.",
                             loss_text(validation_spread(result.cells[best])),
                             cell_label(result, best));
}

Advice advise(const SweepResult& result, size_t cell) {
  const CellResult& at = result.cells.at(cell);
  if (at.seeds.empty() || at.all(Outcome::learned)) return {};
  const Outcome outcome = commonest(at);
  if (outcome == Outcome::failed) {
    return {"the program itself failed, see " + at.seeds.front().run + ".log; try it alone",
            command(result, at, {})};
  }
  if (const int near = learned_neighbour(result, cell); near >= 0) {
    const CellResult& other = result.cells[static_cast<size_t>(near)];
    const std::string axis = *differing_axes(at, other).begin();
    return {"try " + change_text(at, other, axis) + ", which learned here at every seed",
            command(result, other, {})};
  }
  if (text_at(at, "warmup") == "0") {
    return {"try a warm-up over the first half of the run",
            command(result, at, {{"train.warmup", "50%"}})};
  }
  if (outcome == Outcome::diverged) {
    Settings changes = lower_rate(at);
    changes.emplace_back("train.clip", "1");
    return {"try a third of the learning rate, with clipping", command(result, at, changes)};
  }
  if (outcome == Outcome::undecided || outcome == Outcome::learned) {
    const int64_t steps = at.seeds.front().steps;
    return {"try twice as many updates",
            command(result, at, {{"train.steps", std::to_string(2 * steps)}})};
  }
  return {"try a third of the learning rate, or fewer layers, or another wiring",
          command(result, at, lower_rate(at))};
}

std::string sweep_table(const SweepResult& result) {
  std::string text;
  std::vector<std::string> shared;
  for (const std::string& key : all_keys(result)) {
    if (everywhere(result, key) && !varies(result, key)) {
      shared.push_back(key + " " + shortened(text_at(result.cells.front(), key), 48));
    }
  }
  if (!shared.empty()) text += "all cells: " + join(shared, ", ") + "\n";
  if (result.unigram_entropy) {
    text += fmt::format(
        "unigram entropy {:.3f} nat per token: a loss that stays near it has learned "
        "token frequencies only\n",
        *result.unigram_entropy);
  }
  const auto columns = varied_keys(result);
  std::vector<std::vector<std::string>> rows(1, columns);
  for (const char* name : {"seeds", "learned", "stalled", "diverged", "undecided", "failed",
                           "training loss", "validation loss"}) {
    rows.front().emplace_back(name);
  }
  std::vector<std::string> extras;
  for (const CellResult& cell : result.cells) {
    auto& row = rows.emplace_back();
    for (const std::string& key : columns) row.push_back(shortened(text_at(cell, key), 48));
    if (const std::string own = extras_text(result, cell); !own.empty()) {
      auto found = std::find(extras.begin(), extras.end(), own);
      if (found == extras.end()) found = extras.insert(extras.end(), own);
      row.front() += fmt::format(" [{}]", found - extras.begin() + 1);
    }
    row.push_back(fmt::format(
        "{}/{}", cell.seeds.size(),
        std::max<size_t>(static_cast<size_t>(result.planned_seeds), cell.seeds.size())));
    for (const int count : cell.counts()) row.push_back(std::to_string(count));
    row.push_back(loss_text(training_spread(cell)));
    row.push_back(loss_text(validation_spread(cell)));
  }
  text += "\n" + aligned(rows);
  for (size_t i = 0; i < extras.size(); ++i) text += fmt::format("[{}] {}\n", i + 1, extras[i]);
  bool first = true;
  for (size_t i = 0; i < result.cells.size(); ++i) {
    const Advice advice = advise(result, i);
    if (advice.text.empty()) continue;
    if (first) text += "\n";
    first = false;
    text += fmt::format("{}: {}: {}\n", cell_label(result, i), advice.text, advice.command);
  }
  return text;
}

}  // namespace addnorm::lab
