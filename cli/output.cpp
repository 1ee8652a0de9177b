#include "output.h"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>

#include "addnorm/base/text.h"

namespace addnorm::cli {
namespace {

bool closed = false;

void output_failed(int code) {
  // Nothing that is still buffered may be tried again at exit.
  std::setvbuf(stdout, nullptr, _IONBF, 0);
  closed = code == EPIPE;
  if (closed) return;
  fail_system("standard output", std::string("expected to write the result, got \"") +
                                     std::strerror(code) + "\"; try another place for it");
}

}  // namespace

void print(std::string_view text) {
  if (closed || std::fwrite(text.data(), 1, text.size(), stdout) == text.size()) return;
  output_failed(errno);
}

bool output_closed() { return closed; }

void print_line(std::string_view text) {
  print(text);
  print("\n");
}

void finish_output() {
  if (closed) return;
  if (std::fflush(stdout) != 0) return output_failed(errno);
  if (std::ferror(stdout) != 0) output_failed(EIO);
}

void log(std::string_view line) {
  std::fwrite(line.data(), 1, line.size(), stderr);
  std::fputc('\n', stderr);
}

void log_findings(const Findings& findings, bool verbose) {
  for (const Finding& finding : findings) {
    if (verbose || finding.level != Level::information) log(finding.text());
  }
}

size_t columns(std::string_view text) {
  return static_cast<size_t>(std::count_if(text.begin(), text.end(), [](char c) {
    return (static_cast<unsigned char>(c) & 0xC0) != 0x80;
  }));
}

std::string table(const std::vector<std::string>& header,
                  const std::vector<std::vector<std::string>>& rows) {
  std::vector<std::vector<std::vector<std::string>>> cells;  // row, column, line
  std::vector<size_t> widths(header.size(), 0);
  const auto add = [&](const std::vector<std::string>& row) {
    auto& lines = cells.emplace_back();
    for (size_t i = 0; i < header.size(); ++i) {
      lines.push_back(split(i < row.size() ? row[i] : "", '\n'));
      for (const std::string& line : lines.back()) widths[i] = std::max(widths[i], columns(line));
    }
  };
  add(header);
  for (const auto& row : rows) add(row);

  std::string text;
  for (const auto& row : cells) {
    size_t height = 1;
    for (const auto& cell : row) height = std::max(height, cell.size());
    for (size_t line = 0; line < height; ++line) {
      std::string out;
      for (size_t i = 0; i < row.size(); ++i) {
        const std::string cell = line < row[i].size() ? row[i][line] : "";
        out += cell;
        if (i + 1 < row.size()) out += std::string(widths[i] - columns(cell) + 2, ' ');
      }
      out.erase(out.find_last_not_of(' ') + 1);
      text += out + "\n";
    }
  }
  return text;
}

std::string wrapped(const std::string& text, size_t width) {
  std::string out;
  size_t used = 0;
  for (const std::string& word : split(text, ' ')) {
    const size_t length = columns(word);
    if (used > 0) {
      const bool fits = used + 1 + length <= width;
      out += fits ? " " : "\n";
      used = fits ? used + 1 : 0;
    }
    out += word;
    used += length;
  }
  return out;
}

}  // namespace addnorm::cli
