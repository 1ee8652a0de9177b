#include "addnorm/checkpoint/json_header.h"

#include "addnorm/text/utf8.h"

#include <fmt/format.h>

namespace addnorm::checkpoint {
namespace {

bool is_digit(char c) { return c >= '0' && c <= '9'; }

int32_t hexadecimal(std::string_view digits) {
  int32_t value = 0;
  for (const char c : digits) {
    const int32_t digit = is_digit(c)              ? c - '0'
                          : (c >= 'a' && c <= 'f') ? c - 'a' + 10
                          : (c >= 'A' && c <= 'F') ? c - 'A' + 10
                                                   : -1;
    if (digit < 0) return -1;
    value = value * 16 + digit;
  }
  return value;
}

bool is_high_surrogate(int32_t unit) { return unit >= 0xD800 && unit < 0xDC00; }
bool is_low_surrogate(int32_t unit) { return unit >= 0xDC00 && unit < 0xE000; }

}  // namespace

void JsonCursor::skip_space() {
  while (at_ < text_.size() &&
         (text_[at_] == ' ' || text_[at_] == '\t' || text_[at_] == '\n' || text_[at_] == '\r')) {
    ++at_;
  }
}

char JsonCursor::peek() {
  skip_space();
  return at_ < text_.size() ? text_[at_] : '\0';
}

bool JsonCursor::accept(char c) {
  if (peek() != c || at_ == text_.size()) return false;
  ++at_;
  return true;
}

void JsonCursor::expect(char c, std::string_view what) {
  if (!accept(c)) fail(at_, fmt::format("expected {}, got {}", what, found(at_)));
}

std::string JsonCursor::found(size_t at) const {
  if (at >= text_.size()) return "the end of the header";
  return text::quoted(text_.substr(at, 24), 16);
}

void JsonCursor::fail(size_t at, std::string message) const {
  throw JsonProblem{at, std::move(message)};
}

int32_t JsonCursor::four_digits(size_t at) const {
  return at + 4 <= text_.size() ? hexadecimal(text_.substr(at, 4)) : -1;
}

std::string_view JsonCursor::raw_string(std::string_view what) {
  expect('"', what);
  const size_t start = at_;
  while (at_ < text_.size() && text_[at_] != '"') {
    const char c = text_[at_];
    if (static_cast<unsigned char>(c) < 0x20) {
      fail(at_, "expected a string without control characters, got " + found(at_));
    }
    if (c != '\\') {
      ++at_;
      continue;
    }
    const char kind = at_ + 1 < text_.size() ? text_[at_ + 1] : '\0';
    if (kind != 'u') {
      if (kind == '\0' || std::string_view("\"\\/bfnrt").find(kind) == std::string_view::npos) {
        fail(at_, "expected an escape of JSON, got " + found(at_));
      }
      at_ += 2;
      continue;
    }
    const int32_t unit = four_digits(at_ + 2);
    if (unit < 0) fail(at_, "expected \\u and four hexadecimal digits, got " + found(at_));
    if (is_low_surrogate(unit) ||
        (is_high_surrogate(unit) &&
         !(text_.substr(at_ + 6, 2) == "\\u" && is_low_surrogate(four_digits(at_ + 8))))) {
      fail(at_, "expected a pair of surrogates, got " + found(at_));
    }
    at_ += is_high_surrogate(unit) ? 12 : 6;
  }
  if (at_ >= text_.size()) fail(start - 1, "expected the closing quote of a string, got the end");
  return text_.substr(start, at_++ - start);
}

std::optional<uint64_t> JsonCursor::unsigned_integer() {
  skip_space();
  size_t end = at_;
  while (end < text_.size() && is_digit(text_[end])) ++end;
  const std::string_view digits = text_.substr(at_, end - at_);
  const char next = end < text_.size() ? text_[end] : '\0';
  if (digits.empty() || (digits.size() > 1 && digits[0] == '0') || next == '.' || next == 'e' ||
      next == 'E') {
    return std::nullopt;
  }
  uint64_t value = 0;
  for (const char c : digits) {
    const auto digit = static_cast<uint64_t>(c - '0');
    value = value > (UINT64_MAX - digit) / 10 ? UINT64_MAX : value * 10 + digit;
  }
  at_ = end;
  return value;
}

std::string JsonCursor::unescaped(std::string_view raw) {
  std::string result;
  result.reserve(raw.size());
  for (size_t at = 0; at < raw.size();) {
    const size_t escape = std::min(raw.find('\\', at), raw.size());
    result.append(raw.substr(at, escape - at));
    if (escape == raw.size()) break;
    const char kind = raw[escape + 1];
    at = escape + 2;
    switch (kind) {
      case 'b':
        result += '\b';
        break;
      case 'f':
        result += '\f';
        break;
      case 'n':
        result += '\n';
        break;
      case 'r':
        result += '\r';
        break;
      case 't':
        result += '\t';
        break;
      case 'u': {
        int32_t code_point = hexadecimal(raw.substr(at, 4));
        at += 4;
        if (is_high_surrogate(code_point)) {
          const int32_t low = hexadecimal(raw.substr(at + 2, 4));
          code_point = 0x10000 + ((code_point - 0xD800) << 10) + (low - 0xDC00);
          at += 6;
        }
        text::append_code_point(result, code_point);
        break;
      }
      default:
        result += kind;
    }
  }
  return result;
}

}  // namespace addnorm::checkpoint
