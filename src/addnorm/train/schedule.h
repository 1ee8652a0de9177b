// Learning rates by update: exact formulas (design section 3), and what becomes of them when a
// finished run is given more steps.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "addnorm/model/specification.h"

namespace addnorm::train {

// Updates count from 1. Up to `warmup` the rate is lr*t/warmup, whatever the shape.
struct Schedule {
  enum class Shape : uint8_t { constant, linear, cosine, inverse_sqrt, wsd };
  Shape shape = Shape::cosine;
  double lr = 0;
  double min_lr = 0;
  int64_t steps = 0;
  int64_t warmup = 0;
  int64_t decay = 0;  // wsd: the last so many updates

  double rate(int64_t t) const;
};

Schedule make_schedule(const model::TrainSection& train);

// How a run goes on after its last step.
//   keep     the last rate, unchanged
//   rewarm   the schedule anew, warm-up included, over the added steps
//   stretch  the schedule as if the run had been started with the new number of steps
enum class Extend : uint8_t { keep, rewarm, stretch };
const char* extend_name(Extend how);
Extend parse_extend(const std::string& name);  // Error lists the three

struct Extension {
  int64_t after = 0;  // updates made when it was asked for
  int64_t added = 0;  // updates from there to the new end
  Extend how = Extend::keep;
};

// The rates of a run: a schedule and its extensions, in the order they were made.
class Rates {
 public:
  explicit Rates(const model::TrainSection& train, std::vector<Extension> extensions = {});

  double rate(int64_t t) const { return rate(t, extensions_.size()); }
  const std::vector<Extension>& extensions() const { return extensions_; }
  const Schedule& schedule() const { return base_; }

 private:
  double rate(int64_t t, size_t extensions) const;

  model::TrainSection train_;
  Schedule base_;
  std::vector<Extension> extensions_;
  std::vector<Schedule> extended_;  // of rewarm and stretch
};

// What an extension would do: the first, middle and last rate of the added updates.
struct ExtendChoice {
  Extend how = Extend::keep;
  int64_t first = 0, middle = 0, last = 0;  // updates
  double first_rate = 0, middle_rate = 0, last_rate = 0;
};
std::array<ExtendChoice, 3> extend_choices(const model::TrainSection& train,
                                           const std::vector<Extension>& extensions, int64_t after,
                                           int64_t added);
// Whether the rate is the one at which a falling schedule ends: little or nothing is learned with it.
bool at_lowest_rate(const model::TrainSection& train, double rate);
std::string extend_table(const std::array<ExtendChoice, 3>& choices);  // lines for people

}  // namespace addnorm::train
