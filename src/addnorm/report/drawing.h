// The wirings of a specification: name, formula, and the block drawn as text.
#pragma once

#include <string>
#include <vector>

#include "addnorm/model/specification.h"

namespace addnorm::report {

struct Drawing {
  std::string name;     // "" for a formula of one's own
  std::string formula;  // one statement per line
  std::string picture;
};

// One for the single stack, one per stack of a pair.
std::vector<Drawing> drawings_of(const model::Specification& specification,
                                 const formula::Catalogue& catalogue);

}  // namespace addnorm::report
