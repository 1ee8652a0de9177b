#include "addnorm/train/sample.h"

#include <algorithm>
#include <cmath>

#include "addnorm/base/error.h"
#include "addnorm/base/random.h"

namespace addnorm::train {
namespace {

std::vector<int32_t> prompt_ids(const text::Tokenizer& tokenizer, const std::string& prompt) {
  if (!prompt.empty()) return tokenizer.encode(prompt, {"--prompt", 0});
  try {
    return tokenizer.encode("\n");
  } catch (const Error&) {
    return {0};
  }
}

// One row whose targets do not count.
nodes::Batch row_of(std::span<const int32_t> ids) {
  nodes::Batch batch;
  batch.sequences = 1;
  batch.length = static_cast<int64_t>(ids.size());
  batch.tokens.assign(ids.begin(), ids.end());
  batch.targets.assign(ids.size(), nodes::Batch::ignored);
  return batch;
}

}  // namespace

int32_t choose(std::span<const float> logits, int32_t count, int32_t extra, double temperature,
               double uniform) {
  std::vector<int32_t> ids(static_cast<size_t>(count));
  for (int32_t id = 0; id < count; ++id) ids[static_cast<size_t>(id)] = id;
  if (extra >= count) ids.push_back(extra);
  const auto logit = [&](int32_t id) {
    return static_cast<double>(logits[static_cast<size_t>(id)]);
  };
  const int32_t best = *std::max_element(ids.begin(), ids.end(),
                                         [&](int32_t a, int32_t b) { return logit(a) < logit(b); });
  if (temperature == 0) return best;
  double total = 0;
  std::vector<double> weights;
  for (const int32_t id : ids) {
    weights.push_back(std::exp((logit(id) - logit(best)) / temperature));
    total += weights.back();
  }
  double left = uniform * total;
  for (size_t i = 0; i < ids.size(); ++i) {
    left -= weights[i];
    if (left < 0) return ids[i];
  }
  return best;  // rounding
}

void sample(engine::Engine<float>& engine, const text::Tokenizer& tokenizer, data::Task task,
            const SampleOptions& options, const std::function<void(const std::string&)>& emit) {
  if (task == data::Task::masked) {
    fail_input("model.kind",
               "expected a decoder or an encoder-decoder to generate text, got an encoder");
  }
  const bool pair = task == data::Task::pairs;
  std::vector<int32_t> ids = prompt_ids(tokenizer, options.prompt);
  std::vector<int32_t> source;
  if (pair) {
    source = std::move(ids);
    source.push_back(tokenizer.special().eos);
    ids = {tokenizer.special().bos};
  }
  const auto context = static_cast<size_t>(engine.graph().context);
  const Random random(options.seed, "generate");
  engine::Request request;
  request.backward = false;
  request.keep_logits = true;
  request.t = options.t;
  for (int64_t i = 0; i < options.tokens; ++i) {
    if (pair && ids.size() >= context) return;
    const size_t seen = std::min(ids.size(), context);
    nodes::Batch batch = row_of(std::span<const int32_t>(ids).last(seen));
    batch.source = source;
    batch.source_length = static_cast<int64_t>(source.size());
    engine.run(batch, request);
    const auto last = engine.logits().last(static_cast<size_t>(engine.graph().vocab));
    const int32_t id = choose(last, tokenizer.ordinary_ids(), pair ? tokenizer.special().eos : -1,
                              options.temperature, random.uniform(static_cast<uint64_t>(i)));
    if (pair && id == tokenizer.special().eos) return;
    ids.push_back(id);
    emit(tokenizer.decode(std::span<const int32_t>(ids).last(1)));
  }
}

}  // namespace addnorm::train
