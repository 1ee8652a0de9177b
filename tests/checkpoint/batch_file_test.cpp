// Batches from files: what is accepted, what is refused, and with which words (case T3).
#include "addnorm/checkpoint/batch_file.h"

#include <gtest/gtest.h>

#include "support/temporary.h"

namespace addnorm::checkpoint {
namespace {

using test::failure_of;

class BatchFiles : public ::testing::Test {
 protected:
  fs::path path() const { return folder_.path() / "batch.safetensors"; }
  // A tensor [rows, ids / rows] of 64-bit ids.
  void add(const std::string& name, std::vector<int64_t> ids, int64_t rows) {
    kept_.push_back(std::make_unique<std::vector<int64_t>>(std::move(ids)));
    const auto& data = *kept_.back();
    tensors_.push_back({name,
                        ElementType::i64,
                        {rows, static_cast<int64_t>(data.size()) / rows},
                        data.data(),
                        {}});
  }
  void add_mask(const std::string& name, std::vector<uint8_t> mask, int64_t rows,
                ElementType type = ElementType::u8) {
    masks_.push_back(std::make_unique<std::vector<uint8_t>>(std::move(mask)));
    const auto& data = *masks_.back();
    tensors_.push_back(
        {name, type, {rows, static_cast<int64_t>(data.size()) / rows}, data.data(), {}});
  }
  BatchFile read(const BatchLimits& limits) {
    write_safetensors(path(), tensors_);
    return read_batch(path(), limits);
  }
  std::string refused(const BatchLimits& limits) {
    const auto [failure, message] = failure_of([&] { read(limits); });
    EXPECT_EQ(failure, Failure::input);
    EXPECT_NE(message.find(path().string()), std::string::npos) << message;
    return message;
  }

  test::TemporaryFolder folder_;
  std::vector<TensorOut> tensors_;
  std::vector<std::unique_ptr<std::vector<int64_t>>> kept_;
  std::vector<std::unique_ptr<std::vector<uint8_t>>> masks_;
};

TEST_F(BatchFiles, ReadsTokensTargetsAndMask) {
  add("tokens", {0, 1, 2, 99, 4, 5}, 2);
  add("targets", {1, -100, 3, 4, 99, 6}, 2);
  add_mask("mask", {1, 1, 1, 1, 0, 0}, 2);
  const BatchFile file = read({100, 3, false});
  EXPECT_EQ(file.batch.sequences, 2);
  EXPECT_EQ(file.batch.length, 3);
  EXPECT_EQ(file.batch.tokens, (std::vector<int32_t>{0, 1, 2, 99, 4, 5}));
  EXPECT_EQ(file.batch.targets, (std::vector<int32_t>{1, -100, 3, 4, -100, -100}));
  EXPECT_EQ(file.batch.mask, (std::vector<uint8_t>{1, 1, 1, 1, 0, 0}));
  EXPECT_EQ(file.targets_under_mask, 2);
  EXPECT_EQ(file.batch.target_count(), 3);
  ASSERT_EQ(file.findings.size(), 1u);
  EXPECT_EQ(file.findings[0].level, Level::warning);
  EXPECT_NE(file.findings[0].message.find("2 targets"), std::string::npos);
}

TEST_F(BatchFiles, AcceptsNarrowIdsAndBool) {
  const int32_t tokens[] = {1, 2};
  tensors_.push_back({"tokens", ElementType::i32, {1, 2}, tokens, {}});
  tensors_.push_back({"targets", ElementType::i32, {1, 2}, tokens, {}});
  add_mask("mask", {0, 1}, 1, ElementType::boolean);
  EXPECT_EQ(read({3, 2, false}).batch.target_count(), 1);
}

TEST_F(BatchFiles, ReadsPairs) {
  add("tokens", {1, 2}, 2);
  add("targets", {2, 1}, 2);
  add("source", {1, 2, 3, 4, 5, 6}, 2);
  add_mask("source_mask", {1, 1, 1, 1, 0, 0}, 2);
  const BatchFile file = read({7, 3, true});
  EXPECT_EQ(file.batch.source_length, 3);
  EXPECT_EQ(file.batch.source, (std::vector<int32_t>{1, 2, 3, 4, 5, 6}));
  EXPECT_EQ(file.batch.source_mask, (std::vector<uint8_t>{1, 1, 1, 1, 0, 0}));
  const std::string message = refused({7, 3, false});
  EXPECT_NE(message.find("\"source\""), std::string::npos) << message;
  write_batch(path(), file.batch);
  const BatchFile again = read_batch(path(), {7, 3, true});
  EXPECT_EQ(again.batch.tokens, file.batch.tokens);
  EXPECT_EQ(again.batch.targets, file.batch.targets);
  EXPECT_EQ(again.batch.source, file.batch.source);
  EXPECT_EQ(again.batch.source_mask, file.batch.source_mask);
  EXPECT_TRUE(again.batch.mask.empty());
}

// T3: vocab 100; 99 passes, -1, 100 and 2^31 do not, also under the mask.
TEST_F(BatchFiles, IdsOutsideTheVocabularyAreAllNamed) {
  add("tokens", {99, -1, 100, int64_t{1} << 31}, 2);
  add("targets", {0, 100, -101, -100}, 2);
  add_mask("mask", {1, 0, 0, 0}, 2);
  const std::string message = refused({100, 8, false});
  for (const char* part :
       {"tokens] sequence 0, position 1: expected an id in 0..99, got -1",
        "tokens] sequence 1, position 0: expected an id in 0..99, got 100",
        "tokens] sequence 1, position 1: expected an id in 0..99, got 2147483648",
        "targets] sequence 0, position 1: expected an id in 0..99 or -100, got 100",
        "targets] sequence 1, position 0: expected an id in 0..99 or -100, got -101"}) {
    EXPECT_NE(message.find(part), std::string::npos) << part << "\n" << message;
  }
  EXPECT_EQ(std::count(message.begin(), message.end(), '\n'), 4) << message;
}

TEST_F(BatchFiles, ManyBadIdsAreCounted) {
  add("tokens", std::vector<int64_t>(50, 7), 1);
  add("targets", std::vector<int64_t>(50, 0), 1);
  const std::string message = refused({7, 50, false});
  EXPECT_NE(message.find("40 more ids"), std::string::npos) << message;
}

TEST_F(BatchFiles, RefusesWrongShapesAndTypesAtOnce) {
  add("tokens", {1, 2, 3, 4}, 2);
  add("targets", {1, 2, 3, 4}, 1);
  add_mask("mask", {1, 1, 1, 2}, 2);
  add("token", {1}, 1);
  const std::string message = refused({9, 8, true});
  EXPECT_NE(message.find("targets] expected the shape [2,2]"), std::string::npos) << message;
  EXPECT_NE(message.find("sequence 1, position 1: expected 0 or 1, got 2"), std::string::npos)
      << message;
  EXPECT_NE(message.find("try tokens"), std::string::npos) << message;
  EXPECT_NE(message.find("source] expected this tensor"), std::string::npos) << message;
}

TEST_F(BatchFiles, RefusesFloatsLongAndEmptyOnes) {
  const float numbers[] = {1, 2};
  tensors_.push_back({"tokens", ElementType::f32, {1, 2}, numbers, {}});
  add("targets", {1, 1}, 1);
  EXPECT_NE(refused({9, 8, false}).find("expected I64 or I32, got F32"), std::string::npos);
  tensors_.clear();
  add("tokens", {1, 2, 3}, 1);
  add("targets", {1, 2, 3}, 1);
  EXPECT_NE(refused({9, 2, false}).find("at most 2 positions"), std::string::npos);
  tensors_ = {{"tokens", ElementType::i64, {0, 3}, nullptr, {}},
              {"targets", ElementType::i64, {0, 3}, nullptr, {}}};
  EXPECT_NE(refused({9, 8, false}).find("at least 1"), std::string::npos);
  tensors_ = {};
  EXPECT_NE(refused({9, 8, false}).find("tokens] expected this tensor"), std::string::npos);
}

TEST(GoldenBatches, AllLoad) {
  int count = 0;
  for (const auto& entry : fs::directory_iterator(fs::path(ADDNORM_TEST_DATA) / "golden")) {
    const fs::path path = entry.path() / "batch.safetensors";
    if (!fs::exists(path)) continue;
    const auto file = SafetensorsFile::open(path);
    const bool pair = file.find("source") != nullptr;
    EXPECT_GT(read_batch(file, {1000, 1000, pair}).batch.target_count(), 0) << path;
    ++count;
  }
  EXPECT_EQ(count, 37);
}

}  // namespace
}  // namespace addnorm::checkpoint
