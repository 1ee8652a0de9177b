// Everything there is to say about one wiring: its entry, its drawing, and what it becomes in a model
// of stated sizes.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "addnorm/base/error.h"
#include "addnorm/formula/catalogue.h"
#include "addnorm/model/specification.h"
#include "json.h"

namespace addnorm::cli {

struct InitRow {
  std::string roles, rule;
  double std = 0;  // in the stated model, of the first layer
};

struct LayerParameters {
  std::string layers;                                  // "1-6"
  std::vector<std::pair<std::string, int64_t>> parts;  // "attn", "ffn", "norm", ..
  int64_t total = 0;
};

struct WiringSheet {
  formula::Wiring wiring;
  formula::Stack stack = formula::Stack::decoder;
  std::string model;  // the sizes in words
  std::string drawing;
  std::vector<InitRow> init;
  bool published_init = false;
  std::vector<LayerParameters> layers;
  std::vector<std::pair<std::string, int64_t>> outside;  // parameters of begin, end, shared
  Findings findings;
};

// `overrides` change the model that parameters and rules are stated for (6 layers of width 256).
WiringSheet wiring_sheet(const std::string& name_or_formula, const formula::Catalogue& catalogue,
                         const model::Overrides& overrides);

Json entry_json(const formula::Entry& entry);
Json sheet_json(const WiringSheet& sheet);
std::string sheet_text(const WiringSheet& sheet);

}  // namespace addnorm::cli
