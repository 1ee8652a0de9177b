// From the cells of a grid to runs: every cell is resolved and judged before any starts.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "addnorm/lab/sweep.h"
#include "addnorm/model/specification.h"

namespace addnorm::lab {

// `specification` is a TOML file, or a text as `train` takes it. The problems of all cells come in one
// Error, each with the cell that has them. Runs are numbered from the specification's train.seed.
SweepPlan plan_sweep(const std::filesystem::path& specification, const std::vector<Cell>& cells,
                     int seeds, const formula::Catalogue& catalogue);

}  // namespace addnorm::lab
