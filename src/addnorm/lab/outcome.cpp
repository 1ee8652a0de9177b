#include "addnorm/lab/outcome.h"

#include <algorithm>
#include <array>
#include <cmath>

namespace addnorm::lab {
namespace {

constexpr std::array<const char*, outcome_count> names = {"learned", "stalled", "diverged",
                                                          "undecided", "failed"};

bool bad(const StepRecord& record) {
  return !std::isfinite(record.loss) || (record.grad_norm && !std::isfinite(*record.grad_norm));
}

}  // namespace

const char* outcome_name(Outcome outcome) { return names.at(static_cast<size_t>(outcome)); }

std::optional<Outcome> outcome_from(const std::string& name) {
  const auto at = std::find(names.begin(), names.end(), name);
  if (at == names.end()) return std::nullopt;
  return static_cast<Outcome>(at - names.begin());
}

double mean_loss(const std::vector<StepRecord>& steps, int64_t step, int window) {
  double sum = 0;
  int count = 0;
  for (auto at = steps.rbegin(); at != steps.rend() && count < window; ++at) {
    if (at->step > step || at->step == 0) continue;
    sum += at->loss;
    ++count;
  }
  return count == 0 ? missing : sum / count;
}

bool any_nonfinite(const std::vector<StepRecord>& steps) {
  return std::any_of(steps.begin(), steps.end(), bad);
}

Outcome judge(const Metrics& metrics, std::optional<double> unigram_entropy,
              const OutcomeRule& rule) {
  const int64_t last = metrics.last_step();
  // A skipped bad step is in nonfinite_steps; one that the run did not survive is the last line.
  if (!metrics.steps.empty() && bad(metrics.steps.back())) return Outcome::diverged;
  if (last == 0) return Outcome::failed;
  const double m = mean_loss(metrics.steps, last, rule.window);
  if (!std::isfinite(m)) return Outcome::diverged;
  if (!unigram_entropy) return Outcome::undecided;
  const double h1 = *unigram_entropy;
  const double early = mean_loss(metrics.steps, std::max<int64_t>(1, last / 10), rule.window);
  if (m > h1 + rule.diverged_above && m > early) return Outcome::diverged;
  if (m <= h1 - rule.learned_below) return Outcome::learned;
  const double half = mean_loss(metrics.steps, std::max<int64_t>(1, last / 2), rule.window);
  if (m > h1 - rule.stalled_above && std::abs(m - half) < rule.stalled_moved) {
    return Outcome::stalled;
  }
  return Outcome::undecided;
}

}  // namespace addnorm::lab
