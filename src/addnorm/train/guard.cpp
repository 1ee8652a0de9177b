#include "addnorm/train/guard.h"

#include <fmt/format.h>

#include <cmath>

#include "addnorm/base/error.h"
#include "addnorm/kernels/kernels.h"

namespace addnorm::train {
namespace {

// A parameter whose gradient holds a non-finite number, "" where none does.
std::string bad_gradient(engine::Engine<float>& engine) {
  for (size_t i = 0; i < engine.graph().parameters.size(); ++i) {
    const auto gradient = engine.gradient(i);
    const auto at =
        kernels::first_nonfinite(static_cast<kernels::Index>(gradient.size()), gradient.data());
    if (at >= 0) return fmt::format("{} (element {})", engine.graph().parameters[i].name, at);
  }
  return "";
}

}  // namespace

OnNonFinite parse_on_nonfinite(const std::string& name) {
  if (name == "stop") return OnNonFinite::stop;
  if (name == "skip") return OnNonFinite::skip;
  fail_input("train.on_nonfinite", fmt::format("expected stop or skip, got \"{}\"", name));
}

std::string explain_non_finite(engine::Engine<float>& engine,
                               const std::vector<nodes::Batch>& micro_batches,
                               const std::function<engine::Request(size_t)>& request) {
  for (size_t i = 0; i < micro_batches.size(); ++i) {
    engine.zero_gradients();
    const engine::NonFinite found = engine.find_non_finite(micro_batches[i], request(i));
    if (found.tensor.empty()) continue;
    std::string text = fmt::format("the first non-finite tensor is {} ({}): {}", found.tensor,
                                   found.in_backward ? "backward" : "forward", found.detail);
    if (micro_batches.size() > 1) text += fmt::format("; micro-batch {}", i + 1);
    const auto row = static_cast<size_t>(found.sequence);
    if (found.sequence >= 0 && row < micro_batches[i].origin.size()) {
      text += "; that sequence is from " + micro_batches[i].origin[row];
    }
    return text;
  }
  // Every micro-batch alone is finite: their sum is not.
  engine.zero_gradients();
  for (size_t i = 0; i < micro_batches.size(); ++i) engine.run(micro_batches[i], request(i));
  const std::string parameter = bad_gradient(engine);
  if (!parameter.empty()) {
    return "the first non-finite tensor is the gradient of " + parameter +
           ": the sum of the micro-batches' gradients";
  }
  return "no single tensor is non-finite when the step is computed again";
}

}  // namespace addnorm::train
