// Ids and texts of the two tokenizers, their special ids, tokenizer.json, and what they refuse.
#include "addnorm/text/tokenizer.h"

#include <gtest/gtest.h>

#include "support/temporary.h"

namespace addnorm::text {
namespace {

using test::failure_of;

std::unique_ptr<Tokenizer> chars_of(std::string_view text, bool special,
                                    Encoding encoding = Encoding::utf8) {
  CharacterTable table(encoding);
  table.add(text);
  return table.tokenizer(special);
}

TEST(ByteTokenizer, IdsAreTheBytes) {
  std::string all;
  for (int i = 0; i < 256; ++i) all += static_cast<char>(i);
  const auto plain = byte_tokenizer(false);
  EXPECT_EQ(plain->vocab_size(), 256);
  EXPECT_EQ(plain->special().pad, -1);
  EXPECT_EQ(plain->padding_id(), 0);
  const auto ids = plain->encode(all);
  for (int i = 0; i < 256; ++i) EXPECT_EQ(ids[static_cast<size_t>(i)], i);
  EXPECT_EQ(plain->decode(ids), all);
  EXPECT_EQ(plain->token_bytes("\xC3\xA9"), 1u);
}

TEST(ByteTokenizer, SpecialIdsFollowTheBytes) {
  const auto special = byte_tokenizer(true);
  EXPECT_EQ(special->vocab_size(), 260);
  EXPECT_EQ(special->ordinary_ids(), 256);
  EXPECT_EQ(special->special().pad, 256);
  EXPECT_EQ(special->special().bos, 257);
  EXPECT_EQ(special->special().eos, 258);
  EXPECT_EQ(special->special().mask, 259);
  EXPECT_EQ(special->padding_id(), 256);
  EXPECT_EQ(special->decode(std::vector<int32_t>{257, 'h', 'i', 258, 256, 300, -1}), "hi");
}

TEST(CharTokenizer, IdsAreTheSortedCodePoints) {
  const auto tokenizer = chars_of(
      "b\xC3\xA9"
      "a\xF0\x9F\x98\x80\nba",
      true);
  EXPECT_EQ(tokenizer->ordinary_ids(), 5);
  EXPECT_EQ(tokenizer->vocab_size(), 9);
  EXPECT_EQ(tokenizer->special().pad, 5);
  EXPECT_EQ(tokenizer->special().mask, 8);
  const std::string text =
      "\n\xF0\x9F\x98\x80\xC3\xA9"
      "ab";
  EXPECT_EQ(tokenizer->encode(text), (std::vector<int32_t>{0, 4, 3, 1, 2}));
  EXPECT_EQ(tokenizer->decode(tokenizer->encode(text)), text);
  EXPECT_EQ(tokenizer->decode(std::vector<int32_t>{6, 1, 9, -1, 7}), "a");
  EXPECT_EQ(tokenizer->token_bytes("\xF0\x9F\x98\x80z"), 4u);
}

TEST(CharTokenizer, UnknownCharacterNamesItsOffset) {
  const auto tokenizer = chars_of("abc", false);
  const auto [failure, message] =
      failure_of([&] { tokenizer->encode("ab\xC3\xA9", Place{"book.txt", 1000}); });
  EXPECT_EQ(failure, Failure::input);
  EXPECT_NE(message.find("book.txt"), std::string::npos) << message;
  EXPECT_NE(message.find("byte 1002"), std::string::npos) << message;
  EXPECT_NE(message.find("U+00E9"), std::string::npos) << message;
  EXPECT_EQ(failure_of([&] { tokenizer->encode("a\xFF"); }).first, Failure::input);
  EXPECT_EQ(failure_of([&] { tokenizer->encode("B"); }).first, Failure::input);
}

TEST(CharTokenizer, BytesStandForThemselves) {
  const auto tokenizer = chars_of("a\xFF\xC3", false, Encoding::bytes);
  EXPECT_EQ(tokenizer->vocab_size(), 3);
  EXPECT_EQ(tokenizer->encode("\xC3\xFF"), (std::vector<int32_t>{1, 2}));
  EXPECT_EQ(tokenizer->decode(std::vector<int32_t>{2, 1, 0}),
            "\xFF\xC3"
            "a");
  EXPECT_EQ(tokenizer->token_bytes("\xC3\xA9"), 1u);
}

TEST(TokenizerJson, RoundTrips) {
  std::vector<std::unique_ptr<Tokenizer>> all;
  for (const bool special : {false, true}) {
    all.push_back(byte_tokenizer(special));
    all.push_back(chars_of("", special));
    all.push_back(chars_of("hello \xE2\x82\xAC\n", special));
    all.push_back(chars_of("hello \xFF", special, Encoding::bytes));
  }
  for (const auto& tokenizer : all) {
    const auto loaded = tokenizer_from_json(tokenizer->to_json(), "tokenizer.json");
    EXPECT_EQ(loaded->to_json(), tokenizer->to_json());
    EXPECT_EQ(loaded->kind(), tokenizer->kind());
    EXPECT_EQ(loaded->vocab_size(), tokenizer->vocab_size());
    EXPECT_EQ(loaded->special().mask, tokenizer->special().mask);
    if (tokenizer->ordinary_ids() > 1) {
      EXPECT_EQ(loaded->encode("hello"), tokenizer->encode("hello"));
    }
  }
}

TEST(TokenizerJson, RefusesWhatIsNotOne) {
  std::string deep = R"({"kind":"chars","special":false,"encoding":"utf-8","code_points":)";
  deep += std::string(100000, '[') + std::string(100000, ']') + "}";
  for (const std::string& json : std::vector<std::string>{
           "", "[]", "{}", "{", R"({"kind":"bytes"})", R"({"kind":"words","special":true})",
           R"({"kind":"chars","special":false})",
           R"({"kind":"chars","special":false,"encoding":"latin","code_points":[]})",
           R"({"kind":"chars","special":false,"encoding":"utf-8","code_points":[98,97]})",
           R"({"kind":"chars","special":false,"encoding":"utf-8","code_points":[97,97]})",
           R"({"kind":"chars","special":false,"encoding":"utf-8","code_points":[55296]})",
           R"({"kind":"chars","special":false,"encoding":"utf-8","code_points":[-1]})",
           R"({"kind":"chars","special":false,"encoding":"utf-8","code_points":[1114112]})",
           R"({"kind":"chars","special":false,"encoding":"bytes","code_points":[256]})",
           R"({"kind":"chars","special":false,"encoding":"utf-8","code_points":[1.5]})",
           R"({"kind":"chars","special":false,"encoding":"utf-8","code_points":"abc"})", deep}) {
    EXPECT_EQ(failure_of([&] { tokenizer_from_json(json, "tokenizer.json"); }).first,
              Failure::input)
        << json.substr(0, 100);
  }
}

TEST(Encodings, Names) {
  EXPECT_EQ(encoding_named("utf-8"), Encoding::utf8);
  EXPECT_EQ(encoding_named("bytes"), Encoding::bytes);
  EXPECT_EQ(encoding_named("replace"), Encoding::replace);
  const auto [failure, message] = failure_of([] { encoding_named("utf8"); });
  EXPECT_EQ(failure, Failure::input);
  EXPECT_NE(message.find("try utf-8"), std::string::npos) << message;
}

}  // namespace
}  // namespace addnorm::text
