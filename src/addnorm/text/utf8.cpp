#include "addnorm/text/utf8.h"

#include <fmt/format.h>
#include <utf8proc.h>

#include <algorithm>
#include <cstring>

namespace addnorm::text {

size_t first_invalid_utf8(std::string_view text, size_t from) {
  size_t at = from;
  while (at < text.size()) {
    uint64_t eight = 0;
    if (text.size() - at >= 8) {
      std::memcpy(&eight, text.data() + at, 8);
      if ((eight & 0x8080808080808080) == 0) {
        at += 8;
        continue;
      }
    }
    const size_t start = at;
    if (next_code_point(text, at) < 0) return start;
  }
  return all_valid;
}

int32_t next_code_point(std::string_view text, size_t& at) {
  utf8proc_int32_t code_point = -1;
  const auto left = static_cast<utf8proc_ssize_t>(std::min<size_t>(text.size() - at, 4));
  const utf8proc_ssize_t size = utf8proc_iterate(
      reinterpret_cast<const utf8proc_uint8_t*>(text.data() + at), left, &code_point);
  if (size <= 0) {
    ++at;
    return -1;
  }
  at += static_cast<size_t>(size);
  return code_point;
}

void append_code_point(std::string& text, int32_t code_point) {
  utf8proc_uint8_t bytes[4];
  const utf8proc_ssize_t size = utf8proc_encode_char(code_point, bytes);
  text.append(reinterpret_cast<const char*>(bytes), static_cast<size_t>(size));
}

std::string repaired_utf8(std::string_view text, int64_t& replaced) {
  std::string result;
  result.reserve(text.size());
  replaced = 0;
  for (size_t at = 0; at < text.size();) {
    const size_t bad = std::min(first_invalid_utf8(text, at), text.size());
    result.append(text.substr(at, bad - at));
    if (bad == text.size()) break;
    append_code_point(result, 0xFFFD);
    ++replaced;
    at = bad + 1;
  }
  return result;
}

std::string quoted(std::string_view text, size_t limit) {
  std::string result = "\"";
  size_t at = 0;
  while (at < text.size() && at < limit) {
    const size_t start = at;
    const int32_t code_point = next_code_point(text, at);
    const bool control = code_point < 0x20 || (code_point >= 0x7f && code_point < 0xa0) ||
                         code_point == 0x2028 || code_point == 0x2029;
    if (control) {
      for (const char c : text.substr(start, at - start)) {
        result += fmt::format("\\x{:02X}", static_cast<unsigned char>(c));
      }
      continue;
    }
    if (code_point == '"' || code_point == '\\') result += '\\';
    result.append(text.substr(start, at - start));
  }
  return result + (at < text.size() ? "...\"" : "\"");
}

}  // namespace addnorm::text
