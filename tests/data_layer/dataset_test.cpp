// Files, splits, rows and what is refused, from the [data] section on.
#include "addnorm/data/dataset.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmath>

#include "addnorm/text/utf8.h"
#include "support/temporary.h"

namespace addnorm::data {
namespace {

using test::failure_of;

class Datasets : public ::testing::Test {
 protected:
  std::string path(const std::string& name) const { return (folder_.path() / name).string(); }
  std::string write(const std::string& name, std::string_view content) const {
    fs::create_directories(fs::path(path(name)).parent_path());
    write_file_atomic(path(name), content);
    return path(name);
  }
  // Options for a decoder with context 4 and nothing held out.
  DatasetOptions options(std::vector<std::string> source, Task task = Task::next_token) const {
    DatasetOptions result;
    result.data.source = std::move(source);
    result.data.validation = "0";
    result.task = task;
    result.context = 4;
    return result;
  }
  static std::string refused(const DatasetOptions& options) {
    const auto [failure, message] = failure_of([&] { open_dataset(options); });
    EXPECT_EQ(failure, Failure::input) << message;
    return message;
  }
  static std::string tokens_of(const Rows& rows, const text::Tokenizer& tokenizer) {
    std::string all;
    Row row;
    for (int64_t i = 0; i < rows.count(); ++i) {
      rows.read(rows.place(i), row);
      all += tokenizer.decode(row.tokens) + ">" + tokenizer.decode(row.targets) + "|";
    }
    return all;
  }
  static bool has(const Findings& findings, const std::string& part) {
    return lines_of(findings).find(part) != std::string::npos;
  }

  test::TemporaryFolder folder_;
};

TEST_F(Datasets, WindowsAreConsecutive) {
  const Dataset data = open_dataset(options({write("a.txt", "abcdefghijk")}));
  EXPECT_EQ(data.training->count(), 2);
  EXPECT_EQ(data.training->places(), 7);
  EXPECT_EQ(data.training->tokens(), 11);
  EXPECT_EQ(data.training->target_bytes(), 8u);
  EXPECT_EQ(tokens_of(*data.training, *data.tokenizer), "abcd>bcde|efgh>fghi|");
  EXPECT_EQ(data.validation, nullptr);
  EXPECT_TRUE(has(data.findings, "the last 2 tokens")) << lines_of(data.findings);
  EXPECT_EQ(data.training->origin(4), path("a.txt") + ": byte 4");
}

TEST_F(Datasets, ValidationIsTheEndRoundedDown) {
  DatasetOptions some = options({write("a.txt", "abcdefghijklmnopqrstuvwxyz012")});
  some.data.validation = "0.29";  // of 29: 8.41
  const Dataset data = open_dataset(some);
  EXPECT_EQ(data.training->tokens(), 21);
  EXPECT_EQ(data.validation->tokens(), 8);
  // The whole part is evaluated, its end in a shorter row.
  EXPECT_EQ(tokens_of(*data.validation, *data.tokenizer), "vwxy>wxyz|z01>012|");
  EXPECT_EQ(data.validation->target_bytes(), 7u);
  some.data.source = {write("b.txt", std::string(100, 'x'))};
  EXPECT_EQ(open_dataset(some).validation->tokens(), 29);  // 0.29 * 100 is 28.999...96
  some.data.validation = "0.001";
  EXPECT_TRUE(has(open_dataset(some).findings, "nothing is evaluated"));
}

TEST_F(Datasets, ValidationMayBeAFile) {
  DatasetOptions some = options({write("a.txt", "abcdefgh")});
  some.data.validation = write("v.txt", "xyz");
  const Dataset data = open_dataset(some);
  EXPECT_EQ(data.training->tokens(), 8);
  EXPECT_EQ(tokens_of(*data.validation, *data.tokenizer), "xy>yz|");
  EXPECT_EQ(data.validation->origin(0), path("v.txt") + ": byte 0");
  some.data.validation = path("none.txt");
  EXPECT_NE(refused(some).find("none.txt"), std::string::npos);
  for (const char* share : {"1", "-0.1", "nan", "2.5"}) {
    some.data.validation = share;
    EXPECT_NE(refused(some).find("data.validation"), std::string::npos) << share;
  }
}

TEST_F(Datasets, FoldersInByteOrderOfTheirPaths) {
  write("d/b.txt", "B");
  write("d/a/z.txt", "Z");
  write("d/a.txt", "A");
  write("d/C", "C");
  write("d/\xC3\xA9", "E");
  write("d/empty", "");
  write("d/.hidden", "H");
  write("d/picture", std::string("P\0G", 3));
  ASSERT_EQ(::mkfifo(path("d/fifo").c_str(), 0600), 0);
  fs::create_directory_symlink(".", path("d/loop"));
  fs::create_symlink("../x.txt", path("d/w.txt"));
  write("x.txt", "W");
  const Dataset data = open_dataset(options({path("d"), path("x.txt")}));
  EXPECT_EQ(data.training->tokens(), 7);
  // "a.txt" < "a/z.txt": byte '.' comes before '/'.
  EXPECT_EQ(tokens_of(*data.training, *data.tokenizer), "CAZB>AZBW|");
  for (const char* part : {"skipped 4 entries", ".hidden (hidden)", "picture (binary)",
                           "fifo (neither file nor folder)", "loop (a folder met before)",
                           "empty] the file is empty"}) {
    EXPECT_TRUE(has(data.findings, part)) << part << "\n" << lines_of(data.findings);
  }
}

TEST_F(Datasets, BytesTakeEverything) {
  const std::string binary("\x00\xFF\xFEz", 4);
  write("d/a", binary + "1");
  DatasetOptions some = options({path("d")});
  some.data.encoding = "bytes";
  const Dataset data = open_dataset(some);
  EXPECT_EQ(tokens_of(*data.training, *data.tokenizer), binary + ">" + binary.substr(1) + "1|");
  some.data.tokenizer = "chars";
  EXPECT_EQ(open_dataset(some).tokenizer->vocab_size(), 5);
}

TEST_F(Datasets, BadTextIsRefusedWithItsOffset) {
  DatasetOptions some = options({write("a.txt", "good text \xC3\x28 bad")});
  std::string message = refused(some);
  EXPECT_NE(message.find("a.txt] byte 10: expected UTF-8"), std::string::npos) << message;
  some.data.source = {write("b.bin", std::string("text \0 more", 11))};
  message = refused(some);
  EXPECT_NE(message.find("b.bin] byte 5"), std::string::npos) << message;
  some.data.source = {write("c.txt", "good text \xC3\x28 bad")};
  some.data.encoding = "replace";
  const Dataset data = open_dataset(some);
  EXPECT_TRUE(has(data.findings,
                  "1 bytes that are not UTF-8 were replaced by U+FFFD, the first at byte 10"));
  EXPECT_EQ(data.training->tokens(), 18);
  some.data.encoding = "latin-1";
  EXPECT_NE(refused(some).find("data.encoding"), std::string::npos);
}

TEST_F(Datasets, WhatIsNoTextIsRefused) {
  EXPECT_NE(refused(options({})).find("data.source"), std::string::npos);
  EXPECT_NE(refused(options({path("none")})).find("none"), std::string::npos);
  EXPECT_NE(refused(options({write("empty", "")})).find("an empty file"), std::string::npos);
  fs::create_directories(path("folder/below"));
  EXPECT_NE(refused(options({path("folder")})).find("expected text files"), std::string::npos);
  write("folder/below/.git", "x");
  EXPECT_NE(refused(options({path("folder")})).find("1 entries"), std::string::npos);
  ASSERT_EQ(::mkfifo(path("fifo").c_str(), 0600), 0);
  ::alarm(20);
  EXPECT_NE(refused(options({path("fifo")})).find("a FIFO"), std::string::npos);
  EXPECT_NE(refused(options({"/dev/zero"})).find("a device"), std::string::npos);
  ::alarm(0);
}

// A file that no memory can hold: mapped, refused at its first NUL byte, in no time.
TEST_F(Datasets, AHugeSparseFileIsRefusedAtOnce) {
  const std::string name = write("huge", "text");
  ASSERT_EQ(::truncate(name.c_str(), off_t{1} << 40), 0);
  const std::string message = refused(options({name}));
  EXPECT_NE(message.find("huge] byte 4"), std::string::npos) << message;
}

TEST_F(Datasets, ShorterThanTheContext) {
  EXPECT_EQ(open_dataset(options({write("a", "12345")})).training->count(), 1);
  std::string message = refused(options({write("a", "1234")}));
  EXPECT_NE(message.find("at least 5 tokens"), std::string::npos) << message;
  EXPECT_NE(message.find("got 4"), std::string::npos) << message;
  EXPECT_EQ(open_dataset(options({write("a", "1234")}, Task::masked)).training->count(), 1);
  EXPECT_NE(refused(options({write("a", "123")}, Task::masked)).find("at least 4 tokens"),
            std::string::npos);
  DatasetOptions some = options({write("a", "123456789")});
  some.data.validation = "0.6";
  EXPECT_NE(refused(some).find("got 4"), std::string::npos);
}

TEST_F(Datasets, CharactersComeFromTheTrainingPart) {
  DatasetOptions some = options({write("a", "b\xC3\xA9"), write("b", "caba\xE2\x82\xAC")});
  some.data.tokenizer = "chars";
  const Dataset data = open_dataset(some);
  EXPECT_EQ(data.tokenizer->vocab_size(), 5);
  EXPECT_EQ(data.training->tokens(), 7);
  EXPECT_EQ(tokens_of(*data.training, *data.tokenizer),
            "b\xC3\xA9"
            "ca>\xC3\xA9"
            "cab|");
  EXPECT_EQ(data.training->origin(3), path("b") + ": byte 1");
  some.data.validation = "0.15";  // one of seven: the euro sign, unknown to the training part
  EXPECT_TRUE(has(open_dataset(some).findings, "nothing is evaluated"));
  some.data.validation = "0.29";
  const std::string message = refused(some);
  EXPECT_NE(message.find(path("b") + "] byte 4: expected one of the 4 characters"),
            std::string::npos)
      << message;
}

TEST_F(Datasets, ARunsTokenizerIsKept) {
  DatasetOptions some = options({write("a", "abcde")});
  some.data.tokenizer = "chars";
  text::CharacterTable table(text::Encoding::utf8);
  table.add("abcdefg");
  some.tokenizer = table.tokenizer(false);
  EXPECT_EQ(open_dataset(some).tokenizer, some.tokenizer);
  Findings findings;
  EXPECT_EQ(open_evaluation({write("e", "gfe")}, some, findings)->count(), 1);
  EXPECT_EQ(
      failure_of([&] { open_evaluation({write("e", "xyz")}, some, findings)->count(); }).first,
      std::nullopt);  // the character is met when its row is read
  EXPECT_EQ(failure_of([&] { open_evaluation({write("e", "a")}, some, findings); }).first,
            Failure::input);
  some.task = Task::masked;
  EXPECT_EQ(failure_of([&] { open_dataset(some); }).first,
            Failure::input);  // it has no special ids
}

TEST_F(Datasets, LinesAreDocuments) {
  DatasetOptions some = options({write("a.txt", "abc\n\nx\r\ndefghij\nkl")});
  some.data.documents = "lines";
  const Dataset data = open_dataset(some);
  EXPECT_EQ(tokens_of(*data.training, *data.tokenizer), "ab>bc|defg>efgh|k>l|");
  EXPECT_EQ(data.training->origin(1), path("a.txt") + ": line 4");
  EXPECT_EQ(data.training->tokens(), 12);
  EXPECT_TRUE(has(data.findings, "a.txt: line 2] 2 lines of fewer than 2 tokens"))
      << lines_of(data.findings);
  EXPECT_TRUE(has(data.findings,
                  "a.txt: line 4] 1 lines are longer than model.context 4 and were cut by 2"))
      << lines_of(data.findings);
  EXPECT_EQ(data.entropies.targets, 7);
  some.data.validation = "0.2";  // 2.4 of 12 tokens: the last line has 2
  const Dataset split = open_dataset(some);
  EXPECT_EQ(tokens_of(*split.validation, *split.tokenizer), "k>l|");
  EXPECT_EQ(split.training->count(), 2);
  EXPECT_EQ(split.validation->target_bytes(), 1u);
  some.data.source = {write("b.txt", "a\nb\n")};
  EXPECT_NE(refused(some).find("at least one target"), std::string::npos);
  some.task = Task::masked;
  some.data.validation = "0";
  EXPECT_EQ(open_dataset(some).training->count(), 2);
}

TEST_F(Datasets, PairsFromTwoFiles) {
  DatasetOptions some = options({write("s", "ab\ncd\r\ne\n")}, Task::pairs);
  some.data.target = {write("t", "xy\nz\nxyz")};
  some.data.validation = "0.4";
  const Dataset data = open_dataset(some);
  EXPECT_EQ(data.training->count(), 2);
  EXPECT_EQ(data.validation->count(), 1);
  Row row;
  data.training->read(1, row);
  EXPECT_EQ(row.source, (std::vector<int32_t>{'c', 'd', 258}));
  EXPECT_EQ(row.tokens, (std::vector<int32_t>{257, 'z'}));
  EXPECT_EQ(row.targets, (std::vector<int32_t>{'z', 258}));
  EXPECT_EQ(data.training->length(1), 2);
  EXPECT_EQ(data.training->origin(1), path("s") + ": line 2, " + path("t") + ": line 2");
  data.validation->read(0, row);
  EXPECT_EQ(row.source, (std::vector<int32_t>{'e', 258}));  // D6: a source of one token
  EXPECT_EQ(data.validation->target_bytes(), 3u);
  EXPECT_EQ(data.entropies.targets, 5);
}

TEST_F(Datasets, PairsFromOneTabbedFile) {
  DatasetOptions some = options({write("p", "ab\tx\ncd\tyz\n")}, Task::pairs);
  some.data.tokenizer = "chars";
  const Dataset data = open_dataset(some);
  EXPECT_EQ(data.tokenizer->ordinary_ids(), 7);
  Row row;
  data.training->read(1, row);
  EXPECT_EQ(data.tokenizer->decode(row.source), "cd");
  EXPECT_EQ(data.tokenizer->decode(row.targets), "yz");
  EXPECT_EQ(data.training->origin(1), path("p") + ": line 2");
  some.data.source = {write("q", "ab\tx\nno tab\na\tb\tc\n")};
  const std::string message = refused(some);
  EXPECT_NE(message.find("q: line 2] expected source, one tab and target, got 0 tabs"),
            std::string::npos)
      << message;
  EXPECT_NE(message.find("q: line 3]"), std::string::npos) << message;
}

// T1: 3 source lines, 2 target lines.
TEST_F(Datasets, PairsOfDifferentCounts) {
  DatasetOptions some = options({write("s", "a\nb\nc\n")}, Task::pairs);
  some.data.target = {write("t", "x\ny\n")};
  const std::string message = refused(some);
  EXPECT_NE(message.find("expected 3 lines"), std::string::npos) << message;
  EXPECT_NE(message.find("got 2"), std::string::npos) << message;
  some.data.target = {path("t"), path("t")};
  EXPECT_NE(refused(some).find("expected 1 files like data.source, got 2"), std::string::npos);
  some.data.target = {write("t", "")};
  EXPECT_NE(refused(some).find("an empty file"), std::string::npos);
}

// D6 and T1: a blank line on one side only.
TEST_F(Datasets, BlankPairs) {
  DatasetOptions some = options({write("s", "a\n \nc\nd\n")}, Task::pairs);
  some.data.target = {write("t", "x\ny\n\nz\n")};
  std::string message = refused(some);
  EXPECT_NE(message.find("s: line 2] expected text on both sides"), std::string::npos) << message;
  EXPECT_NE(message.find("t: line 3] expected text on both sides"), std::string::npos) << message;
  some.drop_blank = true;
  const Dataset data = open_dataset(some);
  EXPECT_EQ(data.training->count(), 2);
  EXPECT_TRUE(has(data.findings, "s: line 2] 2 pairs with a blank line were dropped"))
      << lines_of(data.findings);
  some.drop_blank = false;
  some.data.source = {write("s", std::string(20, '\n'))};
  some.data.target = {write("t", std::string(20, '\n'))};
  message = refused(some);
  EXPECT_NE(message.find("10 more lines"), std::string::npos) << message;
}

// T1: one line of 5,000 tokens at context 256; all lines too long.
TEST_F(Datasets, LongPairs) {
  DatasetOptions some =
      options({write("s", "ab\n" + std::string(5000, 'a') + "\nabc\n")}, Task::pairs);
  some.data.target = {write("t", "x\ny\nz\n")};
  some.context = 256;
  const Dataset data = open_dataset(some);
  EXPECT_EQ(data.training->count(), 2);
  EXPECT_TRUE(has(data.findings, "s: line 2] 1 pairs are longer than model.context 256"))
      << lines_of(data.findings);
  some.context = 3;  // "ab" and its special id just fit
  EXPECT_EQ(open_dataset(some).training->count(), 1);
  some.context = 2;
  const std::string message = refused(some);
  EXPECT_NE(message.find("at most 2 tokens"), std::string::npos) << message;
  EXPECT_NE(message.find("the shortest of 3"), std::string::npos) << message;
}

TEST_F(Datasets, UnknownTokenizer) {
  DatasetOptions some = options({write("a", "abcdef")});
  some.data.tokenizer = "words";
  EXPECT_NE(refused(some).find("data.tokenizer"), std::string::npos);
}

// Every position of streams with characters of 1 to 4 bytes in files around the steps of the index.
TEST_F(Datasets, StreamsReadAnyPosition) {
  const std::string_view letters[] = {"a", "\xC3\xA9", "\xE2\x82\xAC", "\xF0\x9F\x98\x80", "\n"};
  std::vector<std::string> names;
  std::vector<std::string> characters;
  for (const int count : {1, 0, 1023, 1024, 1025, 3000}) {
    std::string content;
    for (int i = 0; i < count; ++i) {
      characters.emplace_back(letters[(characters.size() * 7 + characters.size() / 11) % 5]);
      content += characters.back();
    }
    names.push_back(write("f" + std::to_string(names.size()), content));
  }
  Findings findings;
  const TokenStream stream(open_texts(names, text::Encoding::utf8, "data.source", findings),
                           Unit::code_point);
  ASSERT_EQ(stream.size(), static_cast<int64_t>(characters.size()));
  text::CharacterTable table(text::Encoding::utf8);
  for (const std::string_view letter : letters) table.add(letter);
  const auto tokenizer = table.tokenizer(false);
  const Random random(1, "positions");
  for (uint64_t i = 0; i < 3000; ++i) {
    const auto position = static_cast<int64_t>(random.below(3 * i, characters.size() + 1));
    const auto most = std::min<uint64_t>(characters.size() - static_cast<size_t>(position), 1500);
    const auto count = static_cast<int64_t>(random.below(3 * i + 1, most + 1));
    std::string expected;
    for (int64_t j = 0; j < count; ++j) expected += characters[static_cast<size_t>(position + j)];
    std::vector<int32_t> ids;
    stream.read(*tokenizer, position, count, ids);
    ASSERT_EQ(tokenizer->decode(ids), expected) << position << " " << count;
    ASSERT_EQ(stream.bytes(position, count), expected.size());
    std::string joined;
    for (const std::string_view piece : stream.texts(position, count)) joined += piece;
    ASSERT_EQ(joined, expected);
  }
  EXPECT_EQ(stream.place(stream.size()).name, names.back());
  EXPECT_EQ(stream.place(2).name, names[2]);
}

// Small cases by hand: targets of "abab" + "b".
TEST_F(Datasets, EntropiesByHand) {
  DatasetOptions some = options({write("a", "ababb")});
  some.data.validation = write("v", "bac");
  const Entropies e = open_dataset(some).entropies;
  EXPECT_EQ(e.targets, 4);  // b a b b
  EXPECT_EQ(e.distinct, 2);
  EXPECT_NEAR(e.unigram, -(0.75 * std::log(0.75) + 0.25 * std::log(0.25)), 1e-14);
  EXPECT_NEAR(e.collision, 0.625, 1e-14);
  // After a: b twice; after b: a once, b once.
  EXPECT_NEAR(e.bigram, 0.5 * std::log(2.0), 1e-14);
  EXPECT_NEAR(e.unigram_validation, -0.5 * (std::log(2.0 / 260) + std::log(1.0 / 260)), 1e-14);
  EXPECT_NEAR(e.bigram_validation, -0.5 * (std::log(2.0 / 258) + std::log(1.0 / 258)), 1e-14);
  some.data.validation = "0";
  EXPECT_TRUE(std::isnan(open_dataset(some).entropies.unigram_validation));
}

// A large vocabulary takes the hash map; it must count like the table does.
TEST_F(Datasets, EntropiesOfManyCharacters) {
  std::string text;
  for (int32_t i = 0; i < 6000; ++i) text::append_code_point(text, 0x4E00 + i % 3000);
  DatasetOptions some = options({write("a", text)});
  some.data.tokenizer = "chars";
  const Dataset data = open_dataset(some);
  EXPECT_EQ(data.entropies.distinct, 3000);
  EXPECT_NEAR(data.entropies.unigram, std::log(3000.0), 1e-3);
  EXPECT_NEAR(data.entropies.bigram, 0, 1e-12);
}

}  // namespace
}  // namespace addnorm::data
