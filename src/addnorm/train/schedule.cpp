#include "addnorm/train/schedule.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numbers>

#include "addnorm/base/error.h"
#include "addnorm/base/text.h"

namespace addnorm::train {
namespace {

Schedule::Shape parse_shape(const std::string& name) {
  if (name == "constant") return Schedule::Shape::constant;
  if (name == "linear") return Schedule::Shape::linear;
  if (name == "cosine") return Schedule::Shape::cosine;
  if (name == "inverse_sqrt") return Schedule::Shape::inverse_sqrt;
  if (name == "wsd") return Schedule::Shape::wsd;
  fail_input(
      "train.schedule",
      fmt::format("expected constant, linear, cosine, inverse_sqrt or wsd, got \"{}\"", name));
}

// Shares of the specification ("5%") are resolved anew for another number of steps.
Schedule with_steps(model::TrainSection train, int64_t steps) {
  train.steps = steps;
  return make_schedule(train);
}

}  // namespace

double Schedule::rate(int64_t t) const {
  if (t <= warmup) return lr * static_cast<double>(t) / static_cast<double>(warmup);
  const double done = static_cast<double>(t - warmup) / static_cast<double>(steps - warmup);
  switch (shape) {
    case Shape::constant:
      return lr;
    case Shape::linear:
      return lr + (min_lr - lr) * done;
    case Shape::cosine:
      return min_lr + (lr - min_lr) * 0.5 * (1 + std::cos(std::numbers::pi * done));
    case Shape::inverse_sqrt:
      return std::max(min_lr, lr * std::sqrt(static_cast<double>(std::max<int64_t>(warmup, 1)) /
                                             static_cast<double>(t)));
    case Shape::wsd: {
      const int64_t start = steps - decay;
      if (t <= start) return lr;
      return lr + (min_lr - lr) * static_cast<double>(t - start) / static_cast<double>(decay);
    }
  }
  return lr;
}

Schedule make_schedule(const model::TrainSection& train) {
  Schedule schedule;
  schedule.shape = parse_shape(train.schedule);
  schedule.lr = train.lr;
  schedule.min_lr = train.min_lr;
  schedule.steps = train.steps;
  schedule.warmup = model::warmup_steps(train);
  schedule.decay = schedule.shape == Schedule::Shape::wsd ? model::decay_steps(train) : 0;
  return schedule;
}

const char* extend_name(Extend how) {
  switch (how) {
    case Extend::keep:
      return "keep";
    case Extend::rewarm:
      return "rewarm";
    case Extend::stretch:
      return "stretch";
  }
  return "";
}

Extend parse_extend(const std::string& name) {
  for (const Extend how : {Extend::keep, Extend::rewarm, Extend::stretch}) {
    if (name == extend_name(how)) return how;
  }
  fail_input("--extend", fmt::format("expected keep, rewarm or stretch, got \"{}\"", name));
}

Rates::Rates(const model::TrainSection& train, std::vector<Extension> extensions)
    : train_(train), base_(make_schedule(train)), extensions_(std::move(extensions)) {
  for (const Extension& one : extensions_) {
    const int64_t steps = one.how == Extend::rewarm ? one.added : one.after + one.added;
    extended_.push_back(with_steps(train_, steps));
  }
}

double Rates::rate(int64_t t, size_t extensions) const {
  while (extensions > 0 && t <= extensions_[extensions - 1].after) --extensions;
  if (extensions == 0) return base_.rate(t);
  const Extension& one = extensions_[extensions - 1];
  const Schedule& schedule = extended_[extensions - 1];
  switch (one.how) {
    case Extend::keep:
      return rate(std::max<int64_t>(one.after, 1), extensions - 1);
    case Extend::rewarm:
      return schedule.rate(t - one.after);
    case Extend::stretch:
      return schedule.rate(t);
  }
  return 0;
}

std::array<ExtendChoice, 3> extend_choices(const model::TrainSection& train,
                                           const std::vector<Extension>& extensions, int64_t after,
                                           int64_t added) {
  std::array<ExtendChoice, 3> choices;
  size_t next = 0;
  for (const Extend how : {Extend::keep, Extend::rewarm, Extend::stretch}) {
    std::vector<Extension> longer = extensions;
    longer.push_back({after, added, how});
    const Rates rates(train, longer);
    ExtendChoice& choice = choices[next++];
    choice.how = how;
    choice.first = after + 1;
    choice.middle = after + (added + 1) / 2;
    choice.last = after + added;
    choice.first_rate = rates.rate(choice.first);
    choice.middle_rate = rates.rate(choice.middle);
    choice.last_rate = rates.rate(choice.last);
  }
  return choices;
}

bool at_lowest_rate(const model::TrainSection& train, double rate) {
  // Cosines and sums reach the end up to rounding.
  return train.schedule != "constant" && rate - train.min_lr <= 1e-9 * train.lr &&
         train.min_lr < train.lr;
}

std::string extend_table(const std::array<ExtendChoice, 3>& choices) {
  const auto update = [](int64_t t) { return fmt::format("update {}", t); };
  const auto rate = [](double value) { return fmt::format("{:.6g}", value); };
  std::string table =
      fmt::format("  {:<18} {:>22} {:>22} {:>22}\n", "learning rate at", update(choices[0].first),
                  update(choices[0].middle), update(choices[0].last));
  for (const ExtendChoice& choice : choices) {
    table += fmt::format("  --extend {:<9} {:>22} {:>22} {:>22}\n", extend_name(choice.how),
                         rate(choice.first_rate), rate(choice.middle_rate), rate(choice.last_rate));
  }
  return table;
}

}  // namespace addnorm::train
