// Batches as functions of (seed, step, row): epochs, accumulation, padding, masks.
#include "addnorm/data/batches.h"

#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <set>

#include "addnorm/data/dataset.h"
#include "addnorm/data/shuffle.h"
#include "support/temporary.h"

namespace addnorm::data {
namespace {

using nodes::Batch;

class BatchesOf : public ::testing::Test {
 protected:
  Dataset open(const std::string& content, int64_t context, Task task = Task::next_token,
               const std::string& documents = "stream", const std::string& validation = "0") {
    const fs::path path = folder_.path() / "text";
    write_file_atomic(path, content);
    DatasetOptions options;
    options.data.source = {path.string()};
    options.data.documents = documents;
    options.data.validation = validation;
    options.task = task;
    options.context = context;
    return open_dataset(options);
  }
  static Batches make(const Dataset& data, Order order, int64_t batch, int64_t accumulate = 1,
                      uint64_t seed = 1, Task task = Task::next_token) {
    return {data.training, data.tokenizer, task, {order, batch, accumulate, seed, 0.15}};
  }
  // All rows of a step as text, one entry per row, with the step's divisor checked on the way.
  static std::vector<std::string> step_rows(const Batches& batches, int64_t step) {
    std::vector<std::string> rows;
    Batch batch;
    int64_t targets = 0;
    for (int64_t micro = 0; micro < batches.micro_batches(step); ++micro) {
      batches.fill(step, micro, batch);
      targets += batch.target_count();
      for (int64_t i = 0; i < batch.sequences; ++i) {
        std::string row;
        for (int64_t j = 0; j < batch.length; ++j) {
          const auto at = static_cast<size_t>(i * batch.length + j);
          if (!batch.mask.empty() && batch.mask[at] == 0) continue;
          row += std::to_string(batch.tokens[at]) + ">" + std::to_string(batch.targets[at]) + " ";
        }
        rows.push_back(row);
      }
    }
    EXPECT_EQ(targets, batches.target_count(step)) << "step " << step;
    EXPECT_EQ(static_cast<int64_t>(rows.size()), batches.rows(step));
    return rows;
  }

  test::TemporaryFolder folder_;
};

std::string numbered(int count) {
  std::string text;
  for (int i = 0; i < count; ++i) text += static_cast<char>(32 + i % 90);
  return text;
}

TEST_F(BatchesOf, AnEpochVisitsEveryRowOnce) {
  const Dataset data = open(numbered(81), 4);  // 20 windows
  const Batches batches = make(data, Order::epoch, 3);
  ASSERT_EQ(batches.steps_per_epoch(), 7);
  std::vector<std::vector<std::string>> epochs;
  for (int epoch = 0; epoch < 3; ++epoch) {
    std::vector<std::string> all;
    for (int64_t step = 1; step <= 7; ++step) {
      const int64_t number = epoch * 7 + step;
      EXPECT_EQ(batches.rows(number), step == 7 ? 2 : 3);  // no step crosses an epoch
      for (const std::string& row : step_rows(batches, number)) all.push_back(row);
    }
    EXPECT_EQ(std::set<std::string>(all.begin(), all.end()).size(), 20u);
    epochs.push_back(all);
  }
  EXPECT_NE(epochs[0], epochs[1]);
  EXPECT_NE(epochs[1], epochs[2]);
}

TEST_F(BatchesOf, AreFunctionsOfSeedAndStep) {
  const Dataset data = open(numbered(200), 4);
  for (const Order order : {Order::epoch, Order::random}) {
    const Batches one = make(data, order, 4);
    const Batches other = make(data, order, 4);
    const auto late = step_rows(one, 17);
    for (int64_t step = 1; step < 17; ++step) step_rows(other, step);
    EXPECT_EQ(step_rows(other, 17), late);
    EXPECT_NE(step_rows(make(data, order, 4, 1, 2), 17), late);
    EXPECT_NE(step_rows(one, 16), late);
  }
}

// N4: micro-batches of one step are the rows of the large batch.
TEST_F(BatchesOf, AccumulationChangesNothingButTheCut) {
  const Dataset data = open(numbered(200), 4);
  for (const Order order : {Order::epoch, Order::random}) {
    const Batches whole = make(data, order, 6);
    for (const int64_t batch : {1, 2, 3}) {
      const Batches parts = make(data, order, batch, 6 / batch);
      for (int64_t step = 1; step <= 10; ++step)
        EXPECT_EQ(step_rows(parts, step), step_rows(whole, step));
    }
  }
}

// N4: documents of 11 and 101 tokens have 10 and 100 targets, whatever the micro-batches.
TEST_F(BatchesOf, LinesSharePaddingAndDivisor) {
  const Dataset data = open(std::string(11, 'a') + "\n" + std::string(101, 'b') + "\n", 128,
                            Task::next_token, "lines");
  Batch batch;
  const Batches large = make(data, Order::epoch, 2);
  EXPECT_EQ(large.target_count(1), 110);
  large.fill(1, 0, batch);
  EXPECT_EQ(batch.sequences, 2);
  EXPECT_EQ(batch.length, 100);
  ASSERT_EQ(batch.mask.size(), 200u);
  int64_t padding = 0;
  for (size_t i = 0; i < 200; ++i) {
    if (batch.mask[i] != 0) continue;
    ++padding;
    EXPECT_EQ(batch.tokens[i], 0);  // a decoder's bytes have no pad id
    EXPECT_EQ(batch.targets[i], Batch::ignored);
  }
  EXPECT_EQ(padding, 90);
  const Batches small = make(data, Order::epoch, 1, 2);
  EXPECT_EQ(small.micro_batches(1), 2);
  EXPECT_EQ(small.target_count(1), 110);
  small.fill(1, 0, batch);
  EXPECT_TRUE(batch.mask.empty());
  EXPECT_EQ(step_rows(small, 1), step_rows(large, 1));
}

// N4: three documents, two rows a step: the last step of the epoch has one, with its own divisor.
TEST_F(BatchesOf, TheLastStepOfAnEpochIsSmaller) {
  const Dataset data = open("aaa\nbbbb\nccccc\n", 128, Task::next_token, "lines");
  const Batches batches = make(data, Order::epoch, 1, 2);
  EXPECT_EQ(batches.steps_per_epoch(), 2);
  EXPECT_EQ(batches.micro_batches(1), 2);
  EXPECT_EQ(batches.micro_batches(2), 1);
  EXPECT_EQ(batches.target_count(1) + batches.target_count(2), 9);
  EXPECT_EQ(batches.target_count(3) + batches.target_count(4), 9);
  EXPECT_EQ(step_rows(batches, 2), step_rows(make(data, Order::epoch, 2), 2));
}

TEST_F(BatchesOf, RandomWindowsReachEveryStart) {
  const Dataset data = open("abcdefghij", 4);  // starts 0..5
  const Batches batches = make(data, Order::random, 10);
  EXPECT_EQ(batches.steps_per_epoch(), 0);
  std::map<std::string, int> counts;
  for (int64_t step = 1; step <= 600; ++step) {
    for (const std::string& row : step_rows(batches, step)) ++counts[row];
  }
  ASSERT_EQ(counts.size(), 6u);
  for (const auto& [row, count] : counts) EXPECT_NEAR(count, 1000, 5 * std::sqrt(1000.0)) << row;
}

// N6: validation rows cover every target once, whatever the batch.
TEST_F(BatchesOf, ValidationIsCompleteAtEveryBatchSize) {
  const Dataset data = open(numbered(150), 8, Task::next_token, "stream", "0.5");
  for (const int64_t size : {1, 2, 3, 100}) {
    const Batches batches = data.validation_batches(Task::next_token, {}, size);
    std::vector<std::string> all;
    int64_t targets = 0;
    for (int64_t step = 1; step <= batches.steps_per_epoch(); ++step) {
      targets += batches.target_count(step);
      for (const std::string& row : step_rows(batches, step)) all.push_back(row);
    }
    EXPECT_EQ(targets, 74);
    EXPECT_EQ(all.size(), 10u);
    EXPECT_EQ(all[0].substr(0, 6), "107>10");  // byte 75 of the text
    EXPECT_EQ(batches.origin(1, 0), (folder_.path() / "text").string() + ": byte 75");
  }
}

TEST_F(BatchesOf, MaskedPredictionHasTheStatedShares) {
  std::string text;
  for (int i = 0; i < 20000; ++i) text += "aeiou"[i % 5];
  const Dataset data = open(text, 100, Task::masked);
  const Batches batches = make(data, Order::epoch, 10, 2, 1, Task::masked);
  int64_t positions = 0, predicted = 0, masked = 0, kept = 0, random = 0;
  std::set<int32_t> drawn;
  Batch batch;
  for (int64_t step = 1; step <= 40; ++step) {
    int64_t targets = 0;
    for (int64_t micro = 0; micro < 2; ++micro) {
      batches.fill(step, micro, batch);
      EXPECT_EQ(batch.length, 100);
      targets += batch.target_count();
      for (size_t i = 0; i < batch.tokens.size(); ++i) {
        ++positions;
        if (batch.targets[i] == Batch::ignored) {
          EXPECT_EQ(batch.tokens[i], "aeiou"[i % 5]);  // windows begin at multiples of 5
          continue;
        }
        EXPECT_EQ(batch.targets[i], "aeiou"[i % 5]);
        ++predicted;
        masked += batch.tokens[i] == 259;
        kept += batch.tokens[i] == batch.targets[i];
        if (batch.tokens[i] != 259 && batch.tokens[i] != batch.targets[i]) {
          ++random;
          drawn.insert(batch.tokens[i]);
        }
      }
    }
    EXPECT_EQ(targets, batches.target_count(step));
  }
  const auto near = [](int64_t count, double share, int64_t total) {
    const double n = static_cast<double>(total);
    EXPECT_NEAR(static_cast<double>(count), share * n, 5 * std::sqrt(n * share * (1 - share)));
  };
  near(predicted, 0.15, positions);
  near(masked, 0.8, predicted);
  near(random, 0.1 * 255 / 256, predicted);
  near(kept, 0.1 + 0.1 / 256, predicted);
  EXPECT_GT(drawn.size(), 200u);  // of all 256 bytes, none of the special ids
  EXPECT_LT(*drawn.rbegin(), 256);
}

TEST_F(BatchesOf, MasksChangeFromEpochToEpochButNotWithTheCut) {
  const Dataset data = open(numbered(40), 40, Task::masked);  // one window
  const Batches batches = make(data, Order::epoch, 1, 1, 1, Task::masked);
  EXPECT_NE(step_rows(batches, 1), step_rows(batches, 2));
  const Dataset more = open(numbered(400), 40, Task::masked, "stream", "0.5");
  const Batches whole = make(more, Order::epoch, 4, 1, 1, Task::masked);
  const Batches parts = make(more, Order::epoch, 1, 4, 1, Task::masked);
  EXPECT_EQ(step_rows(whole, 1), step_rows(parts, 1));
  // Validation masks do not depend on the batch.
  std::vector<std::string> expected;
  for (const int64_t size : {1, 2, 5}) {
    const Batches validation = more.validation_batches(Task::masked, {}, size);
    std::vector<std::string> all;
    for (int64_t step = 1; step <= validation.steps_per_epoch(); ++step) {
      for (const std::string& row : step_rows(validation, step)) all.push_back(row);
    }
    if (expected.empty()) expected = all;
    EXPECT_EQ(all, expected);
  }
}

// A rate that draws nothing still leaves the validation part one target, at every batch size.
TEST_F(BatchesOf, ASequenceHasAtLeastOneMaskedTarget) {
  const Dataset data = open(std::string(40, 'a'), 8, Task::masked);
  for (const double rate : {1e-9, 0.15}) {
    for (const int64_t batch : {1, 2, 5}) {
      const Batches batches(data.training, data.tokenizer, Task::masked,
                            {Order::sequence, batch, 1, 0, rate});
      int64_t targets = 0, counted = 0;
      Batch one;
      for (int64_t step = 1; step <= batches.steps_per_epoch(); ++step) {
        batches.fill(step, 0, one);
        if (step == 1 && rate < 0.1) {
          EXPECT_EQ(one.targets.at(0), 'a');
        }
        targets += one.target_count();
        counted += batches.target_count(step);
      }
      EXPECT_EQ(targets, counted);
      EXPECT_GE(targets, 1);
      if (rate < 0.1) {
        EXPECT_EQ(targets, 1);
      }
    }
  }
}

TEST_F(BatchesOf, PairsArePaddedOnBothSides) {
  const Dataset data = open("a\txyz\nbcd\tx\n", 8, Task::pairs);
  const Batches batches = make(data, Order::sequence, 2, 1, 1, Task::pairs);
  Batch batch;
  batches.fill(1, 0, batch);
  EXPECT_EQ(batch.source_length, 4);
  EXPECT_EQ(batch.source, (std::vector<int32_t>{'a', 258, 256, 256, 'b', 'c', 'd', 258}));
  EXPECT_EQ(batch.source_mask, (std::vector<uint8_t>{1, 1, 0, 0, 1, 1, 1, 1}));
  EXPECT_EQ(batch.tokens, (std::vector<int32_t>{257, 'x', 'y', 'z', 257, 'x', 256, 256}));
  EXPECT_EQ(batch.targets, (std::vector<int32_t>{'x', 'y', 'z', 258, 'x', 258, -100, -100}));
  EXPECT_EQ(batch.mask, (std::vector<uint8_t>{1, 1, 1, 1, 1, 1, 0, 0}));
  EXPECT_EQ(batches.target_count(1), 6);
}

TEST_F(BatchesOf, FillReusesItsMemory) {
  const Dataset data = open(numbered(400), 16);
  const Batches batches = make(data, Order::epoch, 4);
  Batch batch;
  batches.fill(1, 0, batch);
  const int32_t* tokens = batch.tokens.data();
  const int32_t* targets = batch.targets.data();
  for (int64_t step = 2; step <= 12; ++step) {
    batches.fill(step, 0, batch);
    EXPECT_EQ(batch.tokens.data(), tokens);
    EXPECT_EQ(batch.targets.data(), targets);
  }
}

TEST(Shuffles, ArePermutations) {
  for (const int64_t n : {1, 2, 3, 7, 64, 1000}) {
    const Shuffle shuffle(Random(3, "test"), n);
    std::set<int64_t> seen;
    for (int64_t i = 0; i < n; ++i) seen.insert(shuffle(i));
    EXPECT_EQ(static_cast<int64_t>(seen.size()), n);
    EXPECT_EQ(*seen.begin(), 0);
    EXPECT_EQ(*seen.rbegin(), n - 1);
  }
}

// All 24 orders of 4 elements come equally often: chi-square with 23 degrees of freedom, far tail.
TEST(Shuffles, AreUniform) {
  std::map<std::string, int> counts;
  constexpr int rounds = 24000;
  for (uint64_t seed = 0; seed < rounds; ++seed) {
    const Shuffle shuffle(Random(seed, "test"), 4);
    std::string order;
    for (int64_t i = 0; i < 4; ++i) order += static_cast<char>('0' + shuffle(i));
    ++counts[order];
  }
  ASSERT_EQ(counts.size(), 24u);
  double chi_square = 0;
  for (const auto& [order, count] : counts)
    chi_square += (count - 1000.0) * (count - 1000.0) / 1000;
  EXPECT_LT(chi_square, 65);
}

TEST(Shuffles, WorkOnHugeRanges) {
  const int64_t n = (int64_t{1} << 40) + 12345;
  const Shuffle shuffle(Random(3, "test"), n);
  std::set<int64_t> seen;
  double sum = 0;
  for (int64_t i = 0; i < 2000; ++i) {
    const int64_t x = shuffle(i * (n / 2000));
    EXPECT_TRUE(x >= 0 && x < n);
    seen.insert(x);
    sum += static_cast<double>(x) / static_cast<double>(n);
  }
  EXPECT_EQ(seen.size(), 2000u);
  EXPECT_NEAR(sum / 2000, 0.5, 5 * 0.289 / std::sqrt(2000.0));
}

}  // namespace
}  // namespace addnorm::data
