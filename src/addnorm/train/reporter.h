// What the loop tells whoever watches. cli/ draws it; nothing here prints.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

namespace addnorm::train {

struct StepReport {
  int64_t step = 0;
  int64_t steps = 0;
  double loss = 0;
  double grad_norm = 0;
  double lr = 0;
  int64_t tokens = 0;           // since the start
  double seconds = 0;           // since the start
  double steps_per_second = 0;  // of this session's time in steps, without the first where possible
  double tokens_per_second = 0;
  double seconds_left = 0;
  bool skipped = false;
};

class Reporter {
 public:
  virtual ~Reporter() = default;
  virtual void started(const std::filesystem::path& /*run*/) {}
  virtual void step(const StepReport&) {}
  virtual void evaluated(int64_t /*step*/, double /*loss*/) {}
  virtual void saved(const std::filesystem::path&) {}
  virtual void note(const std::string&) {}  // one line: warnings, costs
};

}  // namespace addnorm::train
