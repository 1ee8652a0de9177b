// Characters to tokens: ASCII only, one finding for each stretch of refused bytes.
#include "addnorm/formula/lexer.h"

#include <fmt/format.h>

#include <array>
#include <charconv>
#include <string_view>
#include <utility>

namespace addnorm::formula {
namespace {

bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }

// What a writer most likely meant by a character outside ASCII.
std::string_view ascii_for(std::string_view bytes) {
  static constexpr std::array<std::pair<std::string_view, std::string_view>, 10> table = {{
      {"\xE2\x88\x92", "-"},     // minus sign
      {"\xE2\x80\x93", "-"},     // en dash
      {"\xE2\x80\x94", "-"},     // em dash
      {"\xC3\x97", "*"},         // multiplication sign
      {"\xC2\xB7", "*"},         // middle dot
      {"\xE2\x8B\x85", "*"},     // dot operator
      {"\xC3\xB7", "/"},         // division sign
      {"\xE2\x88\x9A", "sqrt"},  // radical
      {"\xE2\x80\xA6", ".."},    // ellipsis
      {"\xC2\xA0", " "},         // no-break space
  }};
  for (const auto& [from, to] : table) {
    if (bytes.starts_with(from)) return to;
  }
  return "";
}

class Lexer {
 public:
  Lexer(const std::string& text, const std::string& source, Findings& problems)
      : text_(text), source_(source), problems_(problems) {}

  std::vector<Token> run() {
    while (next_ < text_.size()) step();
    push(Token::Kind::end, "");
    return std::move(tokens_);
  }

 private:
  char peek(size_t ahead = 0) const {
    return next_ + ahead < text_.size() ? text_[next_ + ahead] : '\0';
  }

  void push(Token::Kind kind, std::string text, double number = 0) {
    tokens_.push_back({kind, std::move(text), number, place_});
  }

  void advance(size_t bytes) {
    for (size_t i = 0; i < bytes; ++i, ++next_) {
      const bool continuation = (static_cast<unsigned char>(text_[next_]) & 0xC0) == 0x80;
      if (!continuation) ++place_.column;
    }
  }

  void problem(const std::string& message) {
    problems_.push_back({Level::error, where(source_, place_), message});
  }

  void step() {
    const char c = peek();
    if (c == '\n') {
      push(Token::Kind::line, "\n");
      ++next_;
      ++place_.line;
      place_.column = 1;
    } else if (c == ' ' || c == '\t' || c == '\r') {
      advance(1);
    } else if (c == '#') {
      size_t length = 1;
      while (next_ + length < text_.size() && text_[next_ + length] != '\n') ++length;
      advance(length);
    } else if (is_letter(c)) {
      size_t length = 1;
      while (is_letter(peek(length)) || is_digit(peek(length)) || peek(length) == '_') ++length;
      push(Token::Kind::name, text_.substr(next_, length));
      advance(length);
    } else if (is_digit(c) || (c == '.' && is_digit(peek(1)))) {
      read_number();
    } else if (c == '.' && peek(1) == '.') {
      push(Token::Kind::symbol, "..");
      advance(2);
    } else if (c != '\0' && std::string_view("+-*/^()[],;:=").find(c) != std::string_view::npos) {
      push(Token::Kind::symbol, std::string(1, c));
      advance(1);
    } else {
      refuse();
    }
  }

  // digits [ "." [ digits ] ] | "." digits, then an exponent; a "." before a "." is not part of it.
  void read_number() {
    size_t length = 0;
    while (is_digit(peek(length))) ++length;
    if (peek(length) == '.' && peek(length + 1) != '.') {
      ++length;
      while (is_digit(peek(length))) ++length;
    }
    if (peek(length) == 'e' || peek(length) == 'E') {
      size_t digits = length + 1;
      if (peek(digits) == '+' || peek(digits) == '-') ++digits;
      if (is_digit(peek(digits))) {
        while (is_digit(peek(digits))) ++digits;
        length = digits;
      }
    }
    const char* first = text_.data() + next_;
    double value = 0;
    const auto result = std::from_chars(first, first + length, value);
    if (result.ec == std::errc()) {
      push(Token::Kind::number, text_.substr(next_, length), value);
    } else {
      problem(fmt::format("expected a number that double precision holds, got `{}`",
                          text_.substr(next_, std::min<size_t>(length, 40))));
      push(Token::Kind::bad, "");
    }
    advance(length);
  }

  void refuse() {
    const unsigned char first = static_cast<unsigned char>(peek());
    size_t length = 1;
    if (first < 0x80) {
      if (first > 0x20 && first < 0x7F) {
        problem(
            fmt::format("expected a name, a number or one of + - * / ^ ( ) [ ] , ; : = .., "
                        "got `{}`",
                        peek()));
      } else {
        problem(fmt::format("expected text, got the byte 0x{:02X}", first));
      }
    } else {
      while (static_cast<unsigned char>(peek(length)) >= 0x80) ++length;
      // One character, at most four bytes, is enough to find it.
      size_t shown = 1;
      while (shown < length && shown < 4 &&
             (static_cast<unsigned char>(peek(shown)) & 0xC0) == 0x80) {
        ++shown;
      }
      std::string bytes;
      for (size_t i = 0; i < shown; ++i) {
        bytes += fmt::format("{}0x{:02X}", i == 0 ? "" : " ", static_cast<unsigned char>(peek(i)));
      }
      const std::string_view hint = ascii_for(std::string_view(text_).substr(next_, length));
      problem(fmt::format("expected ASCII, got the byte{} {}; try {}", shown > 1 ? "s" : "", bytes,
                          hint.empty() ? "letters a to z" : fmt::format("`{}`", hint)));
    }
    push(Token::Kind::bad, "");
    advance(length);
  }

  const std::string& text_;
  const std::string& source_;
  Findings& problems_;
  std::vector<Token> tokens_;
  size_t next_ = 0;
  Place place_;
};

}  // namespace

std::vector<Token> lex(const std::string& text, const std::string& source, Findings& problems) {
  return Lexer(text, source, problems).run();
}

std::string where(const std::string& source, const Place& at) {
  return fmt::format("{}:{}:{}", source, at.line, at.column);
}

}  // namespace addnorm::formula
