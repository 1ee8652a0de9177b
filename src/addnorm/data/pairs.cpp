#include "addnorm/data/pairs.h"

#include <fmt/format.h>

#include <algorithm>

namespace addnorm::data {
namespace {

constexpr int64_t shown_lines = 10;

// Collects problems of lines, of which there may be millions.
class LineProblems {
 public:
  void add(const std::string& where, const std::string& message) {
    if (++count_ <= shown_lines) findings_.push_back({Level::error, where, message});
  }
  bool room() const { return count_ < shown_lines; }
  void add_uncounted() { ++count_; }
  void raise() {
    if (count_ == 0) return;
    if (count_ > shown_lines) {
      findings_.push_back({Level::error, "", fmt::format("{} more lines", count_ - shown_lines)});
    }
    throw Error(findings_);
  }

 private:
  int64_t count_ = 0;
  Findings findings_;
};

bool is_blank(std::string_view line) {
  return line.find_first_not_of(" \t\r\v\f") == std::string_view::npos;
}

std::vector<int64_t> lines_per_file(const Lines& lines) {
  std::vector<int64_t> counts(lines.files->size());
  for (const Line& line : lines.lines) ++counts[line.file];
  return counts;
}

}  // namespace

PairLines parallel_pairs(std::shared_ptr<const TextFiles> source,
                         std::shared_ptr<const TextFiles> target, Unit unit) {
  if (source->size() != target->size()) {
    fail_input("data.target", fmt::format("expected {} files like data.source, got {}",
                                          source->size(), target->size()));
  }
  PairLines pairs{split_lines(source, unit), split_lines(target, unit)};
  Findings problems;
  const std::vector<int64_t> expected = lines_per_file(pairs.source);
  const std::vector<int64_t> got = lines_per_file(pairs.target);
  for (size_t file = 0; file < expected.size(); ++file) {
    if (expected[file] != got[file]) {
      problems.push_back(
          {Level::error, (*target)[file].name(),
           fmt::format("expected {} lines like {}, got {}; try files whose lines belong "
                       "together",
                       expected[file], (*source)[file].name(), got[file])});
    }
  }
  if (!problems.empty()) throw Error(problems);
  return pairs;
}

PairLines tabbed_pairs(std::shared_ptr<const TextFiles> files, Unit unit) {
  const Lines lines = split_lines(files, unit);
  PairLines pairs{{files, {}}, {files, {}}};
  LineProblems problems;
  for (const Line& line : lines.lines) {
    const std::string_view text = lines.text(line);
    const size_t tab = text.find('\t');
    if (tab == std::string_view::npos || text.find('\t', tab + 1) != std::string_view::npos) {
      if (problems.room()) {
        problems.add(
            lines.origin(line),
            fmt::format("expected source, one tab and target, got {} tabs; try data.target for a "
                        "second file",
                        std::count(text.begin(), text.end(), '\t')));
      } else {
        problems.add_uncounted();
      }
      continue;
    }
    const int64_t source_tokens = count_units(text.substr(0, tab), unit);
    pairs.source.lines.push_back(
        {line.begin, line.file, static_cast<uint32_t>(tab), source_tokens});
    pairs.target.lines.push_back({line.begin + tab + 1, line.file,
                                  static_cast<uint32_t>(line.bytes - tab - 1),
                                  line.tokens - source_tokens - 1});
  }
  problems.raise();
  return pairs;
}

PairLines usable_pairs(PairLines pairs, int64_t context, bool drop_blank, Findings& findings) {
  PairLines kept{{pairs.source.files, {}}, {pairs.target.files, {}}};
  LineProblems problems;
  int64_t blank = 0;
  int64_t too_long = 0;
  int64_t shortest = INT64_MAX;
  std::string first_blank;
  std::string first_long;
  for (size_t i = 0; i < pairs.source.lines.size(); ++i) {
    const Line& source = pairs.source.lines[i];
    const Line& target = pairs.target.lines[i];
    const bool blank_source = is_blank(pairs.source.text(source));
    if (blank_source || is_blank(pairs.target.text(target))) {
      const bool name_it = drop_blank ? blank == 0 : problems.room();
      const std::string where = !name_it       ? ""
                                : blank_source ? pairs.source.origin(source)
                                               : pairs.target.origin(target);
      if (blank++ == 0) first_blank = where;
      if (drop_blank) continue;
      if (name_it) {
        problems.add(where,
                     fmt::format("expected text on both sides of a pair, got a blank {}; try "
                                 "removing the pair from both files",
                                 blank_source ? "source" : "target"));
      } else {
        problems.add_uncounted();
      }
      continue;
    }
    const int64_t length = std::max(source.tokens, target.tokens) + 1;
    shortest = std::min(shortest, length);
    if (length > context) {
      if (too_long++ == 0) first_long = pairs.source.origin(source);
      continue;
    }
    kept.source.lines.push_back(source);
    kept.target.lines.push_back(target);
  }
  problems.raise();
  if (kept.source.lines.empty()) {
    fail_input(
        "data.source",
        too_long > 0
            ? fmt::format("expected pairs of at most {} tokens (model.context, one special id "
                          "included), got {} pairs, the shortest of {}; try a larger model.context",
                          context, too_long, shortest)
            : std::string("expected pairs of lines, got none"));
  }
  if (blank > 0) {
    findings.push_back(
        {Level::warning, first_blank,
         fmt::format("{} pairs with a blank line were dropped, this one first", blank)});
  }
  if (too_long > 0) {
    findings.push_back(
        {Level::warning, first_long,
         fmt::format("{} pairs are longer than model.context {} with their special id and "
                     "were dropped, this one first",
                     too_long, context)});
  }
  return kept;
}

PairLines split_off(PairLines& pairs, int64_t count) {
  const auto keep =
      static_cast<ptrdiff_t>(pairs.source.lines.size()) - static_cast<ptrdiff_t>(count);
  PairLines off{{pairs.source.files, {}}, {pairs.target.files, {}}};
  off.source.lines.assign(pairs.source.lines.begin() + keep, pairs.source.lines.end());
  off.target.lines.assign(pairs.target.lines.begin() + keep, pairs.target.lines.end());
  pairs.source.lines.resize(static_cast<size_t>(keep));
  pairs.target.lines.resize(static_cast<size_t>(keep));
  return off;
}

}  // namespace addnorm::data
