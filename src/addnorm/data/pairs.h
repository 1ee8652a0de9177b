// Lines in two languages: read side by side from two lists of files or from tab-separated ones, and
// judged together.
#pragma once

#include <cstdint>
#include <memory>

#include "addnorm/base/error.h"
#include "addnorm/data/rows.h"

namespace addnorm::data {

struct PairLines {
  Lines source;
  Lines target;
};

// File i of one list with file i of the other, line by line; different numbers of files or lines are an
// Error with both counts.
PairLines parallel_pairs(std::shared_ptr<const TextFiles> source,
                         std::shared_ptr<const TextFiles> target, Unit unit);
// Lines of the form source, tab, target; others are an Error with file and line.
PairLines tabbed_pairs(std::shared_ptr<const TextFiles> files, Unit unit);

// Blank lines on either side are an Error with file and line, or dropped and counted. Pairs with a side
// that does not fit the context with its special id are dropped and counted, with the first place; an
// Error with the limit and the shortest length where none fits.
PairLines usable_pairs(PairLines pairs, int64_t context, bool drop_blank, Findings& findings);

PairLines split_off(PairLines& pairs, int64_t count);  // takes the last `count` pairs away

}  // namespace addnorm::data
