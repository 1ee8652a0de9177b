#include "addnorm/data/batches.h"

#include <algorithm>

#include "addnorm/base/error.h"
#include "addnorm/base/random.h"

namespace addnorm::data {
namespace {

// Masked prediction: of the positions chosen, 80 % become the mask id, 10 % a random ordinary id, 10 %
// stay (Devlin et al., NAACL 2019).
constexpr double mask_share = 0.8;
constexpr double random_share = 0.1;

// A generator of its own for each (seed, name, step).
Random step_random(uint64_t seed, std::string_view name, int64_t step, uint64_t stream) {
  return Random(Random(seed, name).bits(static_cast<uint64_t>(step)), stream);
}

// Appends `row` and pads it to `length`.
void append(std::vector<int32_t>& all, const std::vector<int32_t>& row, size_t length,
            int32_t padding) {
  all.insert(all.end(), row.begin(), row.end());
  all.resize(all.size() + length - row.size(), padding);
}

void append_mask(std::vector<uint8_t>& all, size_t real, size_t length) {
  all.resize(all.size() + real, 1);
  all.resize(all.size() + length - real, 0);
}

}  // namespace

Batches::Batches(std::shared_ptr<const Rows> rows, std::shared_ptr<const text::Tokenizer> tokenizer,
                 Task task, const BatchOptions& options)
    : rows_(std::move(rows)), tokenizer_(std::move(tokenizer)), task_(task), options_(options) {
  ADDNORM_ASSERT(options.batch >= 1 && options.accumulate >= 1);
  ADDNORM_ASSERT(rows_->count() >= 1 || options.order == Order::sequence);
  ADDNORM_ASSERT(task != Task::masked || tokenizer_->special().mask >= 0);
  scratch_.resize(static_cast<size_t>(options.batch));
  force_first_ = task == Task::masked && options.order == Order::sequence && rows_->count() > 0 &&
                 !any_predicted();
}

bool Batches::any_predicted() const {
  for (int64_t step = 1; step <= steps_per_epoch(); ++step) {
    if (target_count(step) > 0) return true;
  }
  return false;
}

bool Batches::predicted(const Random& random, int64_t step, int64_t row, size_t position) const {
  return random.uniform(2 * position) < options_.mask_rate ||
         (force_first_ && step == 1 && row == 0 && position == 0);
}

int64_t Batches::steps_per_epoch() const {
  if (options_.order == Order::random) return 0;
  const int64_t per_step = options_.batch * options_.accumulate;
  return (rows_->count() + per_step - 1) / per_step;
}

int64_t Batches::rows(int64_t step) const {
  ADDNORM_ASSERT(step >= 1);
  const int64_t per_step = options_.batch * options_.accumulate;
  if (options_.order == Order::random) return per_step;
  ADDNORM_ASSERT(options_.order == Order::epoch || step <= steps_per_epoch());
  const int64_t before = (step - 1) % steps_per_epoch() * per_step;
  return std::min(per_step, rows_->count() - before);
}

int64_t Batches::micro_batches(int64_t step) const {
  return (rows(step) + options_.batch - 1) / options_.batch;
}

int64_t Batches::place(int64_t step, int64_t row) const {
  if (options_.order == Order::random) {
    const Random random =
        step_random(options_.seed, "data places", step, static_cast<uint64_t>(row));
    return static_cast<int64_t>(random.below(0, static_cast<uint64_t>(rows_->places())));
  }
  const int64_t per_step = options_.batch * options_.accumulate;
  const int64_t epoch = (step - 1) / steps_per_epoch();
  const int64_t position = (step - 1) % steps_per_epoch() * per_step + row;
  if (options_.order == Order::sequence) return rows_->place(position);
  if (!shuffle_ || shuffled_epoch_ != epoch) {
    shuffle_.emplace(step_random(options_.seed, "data epochs", epoch, 0), rows_->count());
    shuffled_epoch_ = epoch;
  }
  return rows_->place((*shuffle_)(position));
}

Random Batches::mask_random(int64_t step, int64_t row) const {
  if (options_.order != Order::sequence) {
    return step_random(options_.seed, "data mask", step, static_cast<uint64_t>(row));
  }
  // Validation masks belong to the row, so the size of the batch does not change them.
  const int64_t position = (step - 1) * options_.batch * options_.accumulate + row;
  return step_random(options_.seed, "data mask", 0, static_cast<uint64_t>(position));
}

void Batches::mask(int64_t step, int64_t row, Row& tokens) const {
  const Random random = mask_random(step, row);
  const auto ordinary = static_cast<uint64_t>(tokenizer_->ordinary_ids());
  for (size_t i = 0; i < tokens.tokens.size(); ++i) {
    if (!predicted(random, step, row, i)) {
      tokens.targets[i] = nodes::Batch::ignored;
      continue;
    }
    const double choice = random.uniform(2 * i + 1);
    if (choice < mask_share) {
      tokens.tokens[i] = tokenizer_->special().mask;
    } else if (choice < mask_share + random_share) {
      // What is left of the draw within its tenth is uniform as well.
      const double rest = (choice - mask_share) / random_share;
      tokens.tokens[i] = static_cast<int32_t>(std::min<uint64_t>(
          static_cast<uint64_t>(rest * static_cast<double>(ordinary)), ordinary - 1));
    }
  }
}

int64_t Batches::target_count(int64_t step) const {
  int64_t total = 0;
  for (int64_t row = 0; row < rows(step); ++row) {
    const int64_t length = rows_->length(place(step, row));
    if (task_ != Task::masked) {
      total += length;
      continue;
    }
    const Random random = mask_random(step, row);
    for (int64_t i = 0; i < length; ++i) {
      total += predicted(random, step, row, static_cast<size_t>(i));
    }
  }
  return total;
}

void Batches::fill(int64_t step, int64_t micro, nodes::Batch& batch) const {
  const int64_t first = micro * options_.batch;
  const int64_t count = std::min(options_.batch, rows(step) - first);
  ADDNORM_ASSERT(micro >= 0 && count > 0);
  size_t length = 0;
  size_t source_length = 0;
  bool padded = false;
  bool source_padded = false;
  for (int64_t i = 0; i < count; ++i) {
    Row& row = scratch_[static_cast<size_t>(i)];
    rows_->read(place(step, first + i), row);
    if (task_ == Task::masked) mask(step, first + i, row);
    padded |= i > 0 && row.tokens.size() != length;
    source_padded |= i > 0 && row.source.size() != source_length;
    length = std::max(length, row.tokens.size());
    source_length = std::max(source_length, row.source.size());
  }
  batch.sequences = count;
  batch.length = static_cast<int64_t>(length);
  batch.source_length = static_cast<int64_t>(source_length);
  batch.tokens.clear();
  batch.targets.clear();
  batch.source.clear();
  batch.mask.clear();
  batch.source_mask.clear();
  batch.origin.clear();
  for (int64_t i = 0; i < count; ++i) {
    const Row& row = scratch_[static_cast<size_t>(i)];
    append(batch.tokens, row.tokens, length, tokenizer_->padding_id());
    append(batch.targets, row.targets, length, nodes::Batch::ignored);
    if (padded) append_mask(batch.mask, row.tokens.size(), length);
    append(batch.source, row.source, source_length, tokenizer_->padding_id());
    if (source_padded) append_mask(batch.source_mask, row.source.size(), source_length);
  }
}

std::string Batches::origin(int64_t step, int64_t row) const {
  return rows_->origin(place(step, row));
}

}  // namespace addnorm::data
