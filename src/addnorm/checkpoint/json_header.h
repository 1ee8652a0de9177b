// A cursor over the JSON of a safetensors header. It knows the byte offset of everything it reads,
// keeps nothing but its position and never recurses, so a hostile header costs no memory: a general
// reader builds tokens and messages that are several times as large as a string in the file.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace addnorm::checkpoint {

// What was found wrong, and where in the text.
struct JsonProblem {
  size_t at = 0;
  std::string message;
};

class JsonCursor {
 public:
  explicit JsonCursor(std::string_view text, size_t at = 0) : text_(text), at_(at) {}

  size_t at() const { return at_; }
  void skip_space();
  // The next byte after spaces, '\0' at the end (a NUL byte in JSON is an error anyway).
  char peek();
  bool accept(char c);
  void expect(char c, std::string_view what);  // JsonProblem where it does not come

  // A string: the text between the quotes as it stands in the file, its escapes checked.
  std::string_view raw_string(std::string_view what);
  // An integer in the notation of JSON without sign, point and exponent, values above 2^64 - 1 as
  // that; nothing where something else comes (the position stays).
  std::optional<uint64_t> unsigned_integer();

  [[noreturn]] void fail(size_t at, std::string message) const;
  std::string found(size_t at) const;  // what stands there, for messages

  static std::string unescaped(std::string_view raw);

 private:
  int32_t four_digits(size_t at) const;  // -1 where they are not hexadecimal digits

  std::string_view text_;
  size_t at_;
};

}  // namespace addnorm::checkpoint
