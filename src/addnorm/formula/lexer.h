// Formula text to tokens. Newlines are tokens here; the parser knows where they are only spaces.
#pragma once

#include <string>
#include <vector>

#include "addnorm/base/error.h"
#include "addnorm/formula/program.h"

namespace addnorm::formula {

struct Token {
  // A `bad` token stands where a character was refused; its problem is reported already.
  enum class Kind { number, name, symbol, line, end, bad };
  Kind kind = Kind::end;
  std::string text;  // symbols: + - * / ^ ( ) [ ] , ; : = ..
  double number = 0;
  Place at;
};

// Ends with one `end` token. Columns count characters, so that an editor shows the same ones.
std::vector<Token> lex(const std::string& text, const std::string& source, Findings& problems);

// "source:line:column", the form of every place in a finding.
std::string where(const std::string& source, const Place& at);

}  // namespace addnorm::formula
