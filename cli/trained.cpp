#include "trained.h"

#include <fmt/format.h>

#include "output.h"

namespace addnorm::cli {

int tell(const train::Outcome& outcome) {
  if (outcome.end == train::End::interrupted) {
    print_line(fmt::format("stopped after step {} of {}, saved; go on with: addnorm resume {}",
                           outcome.step, outcome.steps, outcome.run.string()));
  } else {
    print_line(fmt::format("finished {} steps in {}; next: addnorm report {}, addnorm generate {}",
                           outcome.step, outcome.run.string(), outcome.run.string(),
                           outcome.run.string()));
  }
  return 0;
}

}  // namespace addnorm::cli
