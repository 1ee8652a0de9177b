// Which instruction set the kernels run on.
#include <string>
#include <vector>

#include "addnorm/base/error.h"
#include "addnorm/kernels/cpu/targets.h"
#include "addnorm/kernels/kernels.h"
// Highway's list of compiled targets needs the macros of its main header.
#include "hwy/highway.h"

namespace addnorm::kernels {

std::vector<std::string> instruction_sets() {
  std::vector<std::string> names;
  for (const int64_t target : hwy::SupportedAndGeneratedTargets()) {
    names.emplace_back(hwy::TargetName(target));
  }
  return names;
}

std::string instruction_set() { return instruction_sets().front(); }

void force_instruction_set(const std::string& name) {
  hwy::SetSupportedTargetsForTest(0);
  if (!name.empty()) {
    int64_t allowed = 0;
    bool found = false;
    for (const int64_t target : hwy::SupportedAndGeneratedTargets()) {
      found = found || hwy::TargetName(target) == name;
      if (found) allowed |= target;  // this one and those that it falls back to
    }
    if (!found) {
      fail_input("instruction set", "expected one of this processor's, got " + name);
    }
    hwy::SetSupportedTargetsForTest(allowed);
  }
  hwy::GetChosenTarget().Update(hwy::SupportedTargets());
}

}  // namespace addnorm::kernels
