// A program drawn as text: the stream runs down, branches stand beside it in double boxes, norms and
// other functions in single ones, sums are (+), factors are written on their line. A sublayer
// formula is drawn once for each branch of a layer.
#pragma once

#include <string>

#include "addnorm/formula/check.h"
#include "addnorm/formula/program.h"

namespace addnorm::formula {

// UTF-8, several lines. Every statement is in it: a name that is used in one place only is drawn
// into that place, the others as labels where a line begins and ends.
std::string diagram(const Program& program, Stack stack);

}  // namespace addnorm::formula
