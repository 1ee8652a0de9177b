#include "addnorm/data/entropy.h"

#include <cmath>
#include <limits>
#include <unordered_map>
#include <vector>

#include "addnorm/base/error.h"

namespace addnorm::data {
namespace {

constexpr int64_t dense_limit = int64_t{1} << 22;  // cells of a table of pairs, 32 MB

// Counts of pairs: a table while it is small, a hash map beyond.
class PairCounts {
 public:
  explicit PairCounts(int64_t vocab) : vocab_(vocab) {
    if (vocab * vocab <= dense_limit) dense_.resize(static_cast<size_t>(vocab * vocab));
  }
  void add(int32_t before, int32_t target) {
    const uint64_t key = key_of(before, target);
    ++(dense_.empty() ? sparse_[key] : dense_[key]);
  }
  int64_t of(int32_t before, int32_t target) const {
    const uint64_t key = key_of(before, target);
    if (!dense_.empty()) return dense_[key];
    const auto found = sparse_.find(key);
    return found == sparse_.end() ? 0 : found->second;
  }
  template <class Use>
  void for_each(const Use& use) const {  // use(before, count) where count > 0
    const auto before = [&](uint64_t key) {
      return static_cast<size_t>(key) / static_cast<size_t>(vocab_);
    };
    for (size_t key = 0; key < dense_.size(); ++key) {
      if (dense_[key] > 0) use(before(key), dense_[key]);
    }
    for (const auto& [key, count] : sparse_) use(before(key), count);
  }

 private:
  uint64_t key_of(int32_t before, int32_t target) const {
    return static_cast<uint64_t>(before) * static_cast<uint64_t>(vocab_) +
           static_cast<uint64_t>(target);
  }
  int64_t vocab_;
  std::vector<int64_t> dense_;
  std::unordered_map<uint64_t, int64_t> sparse_;
};

// Calls use(before, target) for every target of an epoch. What stands before a predicted token is the
// input at its position, in masked prediction the token to its left: -1 at the start of a row.
template <class Use>
void for_targets(const Rows& rows, Task task, int64_t vocab, const Use& use) {
  Row row;
  for (int64_t i = 0; i < rows.count(); ++i) {
    rows.read(rows.place(i), row);
    for (size_t j = 0; j < row.targets.size(); ++j) {
      const int32_t before = task != Task::masked ? row.tokens[j] : j > 0 ? row.tokens[j - 1] : -1;
      ADDNORM_ASSERT(row.targets[j] >= 0 && row.targets[j] < vocab && before < vocab);
      use(before, row.targets[j]);
    }
  }
}

}  // namespace

Entropies measure_entropies(const Rows& training, const Rows* validation, Task task,
                            int64_t vocab) {
  std::vector<int64_t> unigrams(static_cast<size_t>(vocab));
  std::vector<int64_t> befores(static_cast<size_t>(vocab));
  PairCounts pairs(vocab);
  Entropies result;
  int64_t pair_total = 0;
  for_targets(training, task, vocab, [&](int32_t before, int32_t target) {
    ++unigrams[static_cast<size_t>(target)];
    ++result.targets;
    if (before < 0) return;
    ++befores[static_cast<size_t>(before)];
    ++pair_total;
    pairs.add(before, target);
  });
  const auto total = static_cast<double>(result.targets);
  for (const int64_t count : unigrams) {
    if (count == 0) continue;
    const double share = static_cast<double>(count) / total;
    ++result.distinct;
    result.unigram -= share * std::log(share);
    result.collision += share * share;
  }
  pairs.for_each([&](size_t before, int64_t count) {
    result.bigram -= static_cast<double>(count) / static_cast<double>(pair_total) *
                     std::log(static_cast<double>(count) / static_cast<double>(befores[before]));
  });

  double unigram_sum = 0;
  double bigram_sum = 0;
  int64_t unigram_targets = 0;
  int64_t bigram_targets = 0;
  if (validation != nullptr) {
    for_targets(*validation, task, vocab, [&](int32_t before, int32_t target) {
      const auto outcomes = static_cast<double>(vocab);
      unigram_sum -= std::log((static_cast<double>(unigrams[static_cast<size_t>(target)]) + 1) /
                              (total + outcomes));
      ++unigram_targets;
      if (before < 0) return;
      bigram_sum -=
          std::log((static_cast<double>(pairs.of(before, target)) + 1) /
                   (static_cast<double>(befores[static_cast<size_t>(before)]) + outcomes));
      ++bigram_targets;
    });
  }
  const auto mean = [](double sum, int64_t count) {
    return count > 0 ? sum / static_cast<double>(count) : std::numeric_limits<double>::quiet_NaN();
  };
  result.unigram_validation = mean(unigram_sum, unigram_targets);
  result.bigram_validation = mean(bigram_sum, bigram_targets);
  return result;
}

}  // namespace addnorm::data
