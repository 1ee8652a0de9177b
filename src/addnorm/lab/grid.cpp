#include "addnorm/lab/grid.h"

#include <algorithm>
#include <cctype>

#include "addnorm/base/error.h"
#include "addnorm/base/text.h"

namespace addnorm::lab {
namespace {

constexpr const char* wiring_key = "model.wiring";

bool is_wiring(const std::string& key) {
  return key == wiring_key || key == "model.encoder_wiring" || key == "model.decoder_wiring";
}

// Pieces at every `separator` that stands outside (), [], '' and "".
std::vector<std::string> split_outside(const std::string& text, bool (*separator)(char),
                                       const std::string& where) {
  std::vector<std::string> pieces(1);
  int depth = 0;
  char quote = 0;
  for (const char c : text) {
    if (quote != 0) {
      if (c == quote) quote = 0;
    } else if (c == '"' || c == '\'') {
      quote = c;
    } else if (c == '(' || c == '[') {
      ++depth;
    } else if (c == ')' || c == ']') {
      --depth;
    } else if (depth == 0 && separator(c)) {
      pieces.emplace_back();
      continue;
    }
    if (depth < 0) break;
    pieces.back() += c;
  }
  if (quote != 0) fail_input(where, std::string("expected a closing ") + quote + ", got the end");
  if (depth != 0) fail_input(where, "expected brackets in pairs, got \"" + text + "\"");
  return pieces;
}

std::string unquoted(const std::string& text) {
  const std::string t = trim(text);
  if (t.size() < 2 || (t.front() != '\'' && t.front() != '"') || t.back() != t.front()) return t;
  const std::string inner = t.substr(1, t.size() - 2);
  return inner.find(t.front()) == std::string::npos ? inner : t;
}

void set(Settings& settings, const std::string& key, const std::string& value) {
  settings.emplace_back(key, value);
  std::stable_partition(settings.begin(), settings.end(),
                        [](const auto& pair) { return is_wiring(pair.first); });
}

bool has(const Settings& settings, const std::string& key) {
  return std::any_of(settings.begin(), settings.end(),
                     [&](const auto& pair) { return pair.first == key; });
}

std::string text_of(const Settings& settings) {
  std::vector<std::string> parts;
  for (const auto& [key, value] : settings) parts.push_back(key + "=" + value);
  return join(parts, " ");
}

struct Axis {
  std::string key;
  std::vector<std::string> values;
};

std::vector<Axis> axes_of(const GridRequest& request) {
  std::vector<Axis> axes;
  if (!request.wirings.empty()) axes.push_back({wiring_key, request.wirings});
  for (const auto& [key, text] : request.axes) {
    const std::string where = "--" + key;
    for (const Axis& axis : axes) {
      if (axis.key == key)
        fail_input(where, "expected each key once, got it twice; join the values with commas");
    }
    axes.push_back(
        {key, is_wiring(key) ? std::vector<std::string>{text} : split_values(text, where)});
  }
  return axes;
}

}  // namespace

const std::string* Cell::find(const std::string& key) const {
  for (const auto& [name, value] : settings) {
    if (name == key) return &value;
  }
  return nullptr;
}

std::vector<std::string> split_values(const std::string& text, const std::string& where) {
  auto pieces = split_outside(text, [](char c) { return c == ','; }, where);
  for (std::string& piece : pieces) {
    piece = unquoted(piece);
    if (piece.empty()) {
      fail_input(where, "expected values with commas between them, got \"" + text + "\"");
    }
  }
  return pieces;
}

Settings parse_cell(const std::string& text) {
  const std::string where = "--cell \"" + text + "\"";
  Settings settings;
  for (const std::string& word : split_outside(
           text, [](char c) { return std::isspace(static_cast<unsigned char>(c)) != 0; }, where)) {
    if (word.empty()) continue;
    const size_t equals = word.find('=');
    std::string key = word.substr(0, equals);
    if (key == "wiring") key = wiring_key;
    const bool key_like = key.find('.') != std::string::npos &&
                          std::all_of(key.begin(), key.end(), [](unsigned char c) {
                            return std::isalnum(c) != 0 || c == '_' || c == '.';
                          });
    if (equals == std::string::npos || equals + 1 == word.size() || !key_like) {
      fail_input(where,
                 "expected SECTION.KEY=VALUE or wiring=VALUE, got \"" + word +
                     "\"; a formula with blanks stands in quotes: wiring='x = norm(x + f(x))'");
    }
    if (has(settings, key)) fail_input(where, "expected each key once, got " + key + " twice");
    set(settings, key, unquoted(word.substr(equals + 1)));
  }
  if (settings.empty()) fail_input(where, "expected at least one SECTION.KEY=VALUE, got none");
  return settings;
}

std::vector<Cell> make_grid(const GridRequest& request) {
  const std::vector<Axis> axes = axes_of(request);
  std::vector<Cell> cells;
  const bool only_cells = request.wirings.empty() && !request.cells.empty() &&
                          std::all_of(axes.begin(), axes.end(),
                                      [](const Axis& axis) { return axis.values.size() == 1; });
  if (!only_cells) {
    cells.emplace_back();
    for (const Axis& axis : axes) {
      std::vector<Cell> next;
      for (const Cell& cell : cells) {
        for (const std::string& value : axis.values) {
          next.push_back(cell);
          set(next.back().settings, axis.key, value);
        }
      }
      cells = std::move(next);
    }
  }
  for (const std::string& text : request.cells) {
    Cell cell{parse_cell(text)};
    for (const Axis& axis : axes) {
      if (axis.values.size() == 1 && !has(cell.settings, axis.key)) {
        set(cell.settings, axis.key, axis.values.front());
      }
    }
    cells.push_back(std::move(cell));
  }
  std::vector<std::string> seen;
  for (const Cell& cell : cells) {
    Settings sorted = cell.settings;
    std::sort(sorted.begin(), sorted.end());
    seen.push_back(text_of(sorted));
  }
  for (size_t i = 0; i < seen.size(); ++i) {
    if (std::find(seen.begin(), seen.begin() + static_cast<std::ptrdiff_t>(i), seen[i]) !=
        seen.begin() + static_cast<std::ptrdiff_t>(i)) {
      fail_input("sweep", "expected different cells, got this one twice: " + seen[i]);
    }
  }
  return cells;
}

}  // namespace addnorm::lab
