// The cells of a sweep, from what the command line says. docs/sweeps.md has the quoting rules.
#pragma once

#include <string>
#include <utility>
#include <vector>

namespace addnorm::lab {

// "model.layers" -> "12", as the training verb takes it with two dashes before the key.
using Settings = std::vector<std::pair<std::string, std::string>>;

struct GridRequest {
  std::vector<std::string> wirings;  // each a name or a formula, never split
  Settings axes;                     // "train.warmup" -> "0,100"
  std::vector<std::string> cells;    // "wiring=deepnorm model.layers=12"
};

// What one cell sets beyond the specification; "model.wiring" first where it is set.
struct Cell {
  Settings settings;
  const std::string* find(const std::string& key) const;
};

// At commas outside brackets and quotes; blanks around a piece and quotes around all of it go away.
// Empty pieces are an Error that names `where`.
std::vector<std::string> split_values(const std::string& text, const std::string& where);

// "wiring=A model.layers=12": pairs that blanks outside brackets and quotes separate. `wiring` is
// short for model.wiring. A formula with blanks outside parentheses stands in quotes.
Settings parse_cell(const std::string& text);

// All combinations of wirings and axes (later axes vary faster), then the cells of --cell. Those take
// the axes of one value too, unless they set the key themselves; for an axis of several values that
// they do not name they keep the specification's value. A cell that comes twice is an Error.
std::vector<Cell> make_grid(const GridRequest& request);

}  // namespace addnorm::lab
