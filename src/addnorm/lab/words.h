// A sweep in words and as a table: for the terminal and for the report, which say the same.
#pragma once

#include <string>
#include <vector>

#include "addnorm/lab/record.h"

namespace addnorm::lab {

// Keys that differ between cells and that every cell has ("wiring" always), in order.
std::vector<std::string> varied_keys(const SweepResult& result);
// "post-ln, layers 6, warmup 0": the varied keys and what only some cells set.
std::string cell_label(const SweepResult& result, size_t cell);

// What only some cells set: "init.v, init.ffn_out = zeros; train.clip = 1", "" where there is nothing.
std::string extras_text(const SweepResult& result, const CellResult& cell);

std::string question(const SweepResult& result);
// Two sentences: what came out, and which single changes made the difference.
std::string answer(const SweepResult& result);

// One line of text, and a command that can be pasted into a shell.
struct Advice {
  std::string text;
  std::string command;
};
// For a cell where not every seed learned; an empty text otherwise.
Advice advise(const SweepResult& result, size_t cell);

// A plain-text table: per cell the seeds per outcome, mean and spread of the losses; what all cells
// share above it, one line of advice per failed cell below it.
std::string sweep_table(const SweepResult& result);

std::string shell_quoted(const std::string& text);

}  // namespace addnorm::lab
