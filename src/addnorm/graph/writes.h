// Which operand of a `+` or `-` a branch call finally adds to a stream (design section 4, `.write`).
#pragma once

#include <map>

#include "addnorm/formula/program.h"

namespace addnorm::graph {

// For every branch call of a block that has one: the operand that is its write. Several calls may
// share an operand.
using Writes = std::multimap<const formula::Expr*, const formula::Expr*>;  // operand -> call
Writes find_writes(const formula::Block& block);

}  // namespace addnorm::graph
