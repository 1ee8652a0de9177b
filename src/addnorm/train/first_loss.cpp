#include "addnorm/train/first_loss.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "addnorm/train/evaluate.h"

namespace addnorm::train {
namespace {

constexpr int64_t most_logits = int64_t{1} << 22;

template <class T>
void keep(std::vector<T>& values, int64_t count) {
  if (!values.empty()) values.resize(static_cast<size_t>(count));
}

nodes::Batch first_sequences(nodes::Batch batch, int64_t vocab) {
  batch.sequences = std::clamp<int64_t>(most_logits / std::max<int64_t>(batch.length * vocab, 1), 1,
                                        batch.sequences);
  for (auto* ids : {&batch.tokens, &batch.targets}) keep(*ids, batch.sequences * batch.length);
  keep(batch.mask, batch.sequences * batch.length);
  keep(batch.source, batch.sequences * batch.source_length);
  keep(batch.source_mask, batch.sequences * batch.source_length);
  return batch;
}

double logit_deviation(engine::Engine<float>& engine, const nodes::Batch& batch) {
  engine::Request request;
  request.backward = false;
  request.keep_logits = true;
  engine.run(batch, request);
  double sum = 0;
  double squares = 0;
  const auto logits = engine.logits();
  for (const float logit : logits) {
    sum += static_cast<double>(logit);
    squares += static_cast<double>(logit) * static_cast<double>(logit);
  }
  const auto count = static_cast<double>(logits.size());
  return std::sqrt(std::max(0.0, squares / count - sum / count * sum / count));
}

}  // namespace

FirstLoss first_loss(engine::Engine<float>& engine,
                     const std::vector<nodes::Batch>& micro_batches) {
  FirstLoss first;
  Evaluation sum;
  for (const nodes::Batch& batch : micro_batches) evaluate_batch(engine, batch, 1, sum);
  if (sum.tokens == 0) return first;  // a step without targets has loss 0
  first.loss = sum.loss();
  const int64_t vocab = engine.graph().vocab;
  const double expected = std::log(static_cast<double>(vocab));
  // One that is not finite is explained by the first step, which refuses it.
  if (!std::isfinite(first.loss) || std::abs(first.loss - expected) <= 0.1 * expected) return first;
  const double deviation = logit_deviation(engine, first_sequences(micro_batches.front(), vocab));
  first.warning = fmt::format(
      "the loss before the first update is {:.4f}, more than 10 % off ln {} = {:.4f}; the logits' "
      "standard deviation is {:.3g} (near 0 is usual: see the init of the head)",
      first.loss, vocab, expected, deviation);
  return first;
}

}  // namespace addnorm::train
