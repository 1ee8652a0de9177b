#include "addnorm/train/evaluate.h"

#include <cmath>
#include <limits>
#include <numbers>

namespace addnorm::train {
namespace {
constexpr double none = std::numeric_limits<double>::quiet_NaN();
}

double Evaluation::loss() const { return tokens > 0 ? sum / static_cast<double>(tokens) : 0; }

double Evaluation::perplexity() const { return std::exp(loss()); }

double Evaluation::bits_per_byte() const {
  return bytes > 0 ? sum / (std::numbers::ln2 * static_cast<double>(bytes)) : none;
}

void evaluate_batch(engine::Engine<float>& engine, const nodes::Batch& batch, double t,
                    Evaluation& to) {
  const int64_t targets = batch.target_count();
  if (targets == 0) return;
  engine::Request request;
  request.backward = false;
  request.t = t;
  request.divisor = 1;  // the engine's loss is then the sum
  to.sum += engine.run(batch, request);
  to.tokens += targets;
}

Evaluation evaluate(engine::Engine<float>& engine, Source& source, double t, int64_t most_tokens) {
  Evaluation result;
  nodes::Batch batch;
  result.bytes = source.validation_bytes();
  for (int64_t index = 0; index < source.validation_batches(); ++index) {
    if (most_tokens > 0 && result.tokens >= most_tokens) {
      result.bytes = 0;
      break;
    }
    source.validation(index, batch);
    evaluate_batch(engine, batch, t, result);
  }
  return result;
}

}  // namespace addnorm::train
