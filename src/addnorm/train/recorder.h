// Everything the loop writes: metrics.jsonl, checkpoints, reports to whoever watches.
#pragma once

#include <chrono>
#include <string>

#include "addnorm/train/diagnostics.h"
#include "addnorm/train/evaluate.h"
#include "addnorm/train/first_loss.h"
#include "addnorm/train/loop.h"
#include "addnorm/train/metrics.h"

namespace addnorm::train {

struct StepRecord {
  double loss = 0;
  double lr = 0;
  double grad_norm = 0;  // before clipping
  double clip = 1;       // applied factor
  double clipped = 0;    // share of the last 100 updates that were clipped
  bool refused = false;  // not finite: nothing was updated, nothing of the gradient applied
};

class Recorder {
 public:
  // `run` and `state` must outlive it.
  Recorder(const Run& run, checkpoint::TrainState& state);

  void start(const FirstLoss& first);  // step 0
  void begin_step(bool measured);      // before its batch is read
  // A call of the engine, timed, so that the cost of measuring can be told.
  template <class Work>
  double timed(const Work& work) {
    const auto begin = Clock::now();
    const double result = work();
    engine_seconds_ += since(begin);
    return result;
  }
  void step(const StepRecord& record);
  void note(int64_t step, const std::string& text);
  void diagnosis(const Diagnostics& diagnostics);
  void evaluation(const Evaluation& evaluation);
  void save();

 private:
  using Clock = std::chrono::steady_clock;
  static double since(Clock::time_point begin) {
    return std::chrono::duration<double>(Clock::now() - begin).count();
  }
  double seconds() const { return seconds_before_ + since(begin_); }
  void write(const Line& line) { metrics_.write(line); }
  void count_time(StepReport& report);

  const Run& run_;
  checkpoint::TrainState& state_;
  MetricsFile metrics_;
  Clock::time_point begin_ = Clock::now();
  const double seconds_before_;
  const int64_t step_before_;
  const int64_t tokens_before_;

  Clock::time_point step_begin_ = begin_;
  bool measured_ = false;
  bool cost_told_ = false;
  double engine_seconds_ = 0;  // of the step in work
  double step_seconds_ = 0;    // of the last step
  double plain_seconds_ = 0;   // of all steps without measurement
  int64_t plain_steps_ = 0;
  // Of the steps after the first of this session, which pays for memory and plans.
  Clock::time_point first_end_ = begin_;
  int64_t first_tokens_ = 0;
  double stepping_seconds_ = 0;
};

}  // namespace addnorm::train
