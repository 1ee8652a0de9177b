// How `train` and `resume` say how a run ended.
#pragma once

#include "addnorm/train/session.h"

namespace addnorm::cli {

int tell(const train::Outcome& outcome);  // the exit code

}  // namespace addnorm::cli
