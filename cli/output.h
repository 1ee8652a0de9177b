// What the program writes: results to standard output, everything else to standard error.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "addnorm/base/error.h"

namespace addnorm::cli {

// Standard output. A write that fails (a full disk) is an Error, Failure::system; it may come with a
// later call, at the latest with finish_output(). A reader that has gone away, as `head` does, is no
// failure: what follows is dropped, and the verb does the rest of its work.
void print(std::string_view text);
void print_line(std::string_view text);
void finish_output();
bool output_closed();  // nobody reads any more

void log(std::string_view line);  // standard error; failures to write are ignored
// Errors and warnings to standard error; information only if `verbose`.
void log_findings(const Findings& findings, bool verbose);

// Rows of cells in columns, two spaces apart; a cell may hold several lines. The last column is not
// padded.
std::string table(const std::vector<std::string>& header,
                  const std::vector<std::vector<std::string>>& rows);
// `text` broken at spaces into lines of at most `width` characters; a longer word stands alone.
std::string wrapped(const std::string& text, size_t width);
size_t columns(std::string_view text);  // characters of UTF-8 text

}  // namespace addnorm::cli
