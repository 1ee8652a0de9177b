// What a person sees while a run trains: a bar on a terminal, plain lines otherwise; standard error.
#pragma once

#include <chrono>
#include <filesystem>
#include <string>

#include "addnorm/train/reporter.h"

namespace addnorm::cli {

class Progress : public train::Reporter {
 public:
  Progress();
  ~Progress() override;

  void started(const std::filesystem::path& run) override;
  void step(const train::StepReport& report) override;
  void evaluated(int64_t step, double loss) override;
  void saved(const std::filesystem::path& checkpoint) override;
  void note(const std::string& text) override;

 private:
  void line(const std::string& text);  // above the bar
  void clear_bar();

  bool terminal_;
  bool bar_shown_ = false;
  std::string last_evaluation_;
  std::chrono::steady_clock::time_point shown_{};
};

// "12 s", "3 min 20 s", "2 h 5 min".
std::string duration_text(double seconds);

}  // namespace addnorm::cli
