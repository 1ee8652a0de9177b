// Valid and invalid UTF-8 at every offset modulo the stride of the fast path.
#include "addnorm/text/utf8.h"

#include <gtest/gtest.h>

namespace addnorm::text {
namespace {

TEST(Utf8, FindsTheFirstInvalidByte) {
  struct Case {
    const char* bytes;
    size_t invalid;  // all_valid: none
  };
  const Case cases[] = {{"", all_valid},
                        {"abc", all_valid},
                        {"\xC3\xA9", all_valid},
                        {"\xE2\x82\xAC", all_valid},
                        {"\xF0\x9F\x98\x80", all_valid},
                        {"\xF4\x8F\xBF\xBF", all_valid},
                        {"\xEF\xBF\xBF", all_valid},
                        {"\x80", 0},
                        {"\xFF", 0},
                        {"\xC3", 0},
                        {"\xC3z", 0},
                        {"\xC0\x80", 0},          // overlong
                        {"\xE0\x80\x80", 0},      // overlong
                        {"\xF0\x80\x80\x80", 0},  // overlong
                        {"\xED\xA0\x80", 0},      // a surrogate
                        {"\xF4\x90\x80\x80", 0},  // above U+10FFFF
                        {"\xE2\x82", 0},
                        {"\xF0\x9F\x98", 0},
                        {"\xC3\xA9\xA9", 2}};
  for (const Case& one : cases) {
    for (size_t before = 0; before < 20; ++before) {
      for (const size_t after : {0, 1, 9}) {
        const std::string text = std::string(before, 'x') + one.bytes + std::string(after, 'y');
        const size_t expected = one.invalid == all_valid ? all_valid : before + one.invalid;
        EXPECT_EQ(first_invalid_utf8(text), expected) << one.bytes << " after " << before;
      }
    }
  }
  EXPECT_EQ(first_invalid_utf8("\xFF"
                               "ab\xFF",
                               1),
            3u);
}

TEST(Utf8, CodePointsRoundTrip) {
  std::string text;
  const std::vector<int32_t> points = {0,     0x41,   0x7f,    0x80,    0x7ff,
                                       0x800, 0xfffd, 0x10000, 0x10ffff};
  for (const int32_t point : points) append_code_point(text, point);
  std::vector<int32_t> again;
  for (size_t at = 0; at < text.size();) again.push_back(next_code_point(text, at));
  EXPECT_EQ(again, points);
}

TEST(Utf8, Repairs) {
  int64_t replaced = -1;
  EXPECT_EQ(repaired_utf8("abc", replaced), "abc");
  EXPECT_EQ(replaced, 0);
  EXPECT_EQ(repaired_utf8("\xFFz\xC3\xC3\xA9", replaced),
            "\xEF\xBF\xBD"
            "z\xEF\xBF\xBD\xC3\xA9");
  EXPECT_EQ(replaced, 2);
}

TEST(Utf8, QuotesForMessages) {
  EXPECT_EQ(quoted("a\"b\\"), "\"a\\\"b\\\\\"");
  EXPECT_EQ(quoted("\n\xFF\xC3\xA9\x7f"), "\"\\x0A\\xFF\xC3\xA9\\x7F\"");
  EXPECT_EQ(quoted(std::string(200, 'a'), 3), "\"aaa...\"");
}

}  // namespace
}  // namespace addnorm::text
