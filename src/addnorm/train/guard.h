// What happens when a loss or a gradient is not finite.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "addnorm/engine/engine.h"
#include "addnorm/nodes/batch.h"

namespace addnorm::train {

enum class OnNonFinite : uint8_t { stop, skip };
OnNonFinite parse_on_nonfinite(const std::string& name);

// After so many bad steps in a row a run stops under `skip` too.
inline constexpr int most_skipped_in_row = 10;

// Why a step was bad, in one line: the first non-finite tensor in forward order (or in backward order,
// where the forward pass is finite), with sequence and token, and where that sequence comes from.
// Runs the micro-batches again; gradients are garbage afterwards. `request(i)` is the i-th one's.
std::string explain_non_finite(engine::Engine<float>& engine,
                               const std::vector<nodes::Batch>& micro_batches,
                               const std::function<engine::Request(size_t)>& request);

}  // namespace addnorm::train
