// UTF-8 as the Unicode standard defines it: no surrogates, no overlong forms, nothing above U+10FFFF.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace addnorm::text {

inline constexpr size_t all_valid = static_cast<size_t>(-1);

// Offset of the first byte that is not part of valid UTF-8, all_valid where there is none.
size_t first_invalid_utf8(std::string_view text, size_t from = 0);

// Reads the code point at `at` and moves `at` behind it. An invalid byte gives -1 and moves by 1.
int32_t next_code_point(std::string_view text, size_t& at);

void append_code_point(std::string& text, int32_t code_point);  // a valid one

// The text with every invalid byte replaced by U+FFFD; `replaced` counts them.
std::string repaired_utf8(std::string_view text, int64_t& replaced);

// The text on one line between double quotes, for messages: control characters and invalid bytes as
// \xNN, cut at `limit` bytes with "...".
std::string quoted(std::string_view text, size_t limit = 120);

}  // namespace addnorm::text
