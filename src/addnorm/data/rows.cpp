#include "addnorm/data/rows.h"

#include <fmt/format.h>

#include <algorithm>

#include "addnorm/base/error.h"

namespace addnorm::data {
namespace {

class WindowRows : public Rows {
 public:
  WindowRows(std::shared_ptr<const TokenStream> stream,
             std::shared_ptr<const text::Tokenizer> tokenizer, const WindowOptions& options)
      : stream_(std::move(stream)),
        tokenizer_(std::move(tokenizer)),
        options_(options),
        shift_(options.task == Task::next_token ? 1 : 0),
        usable_(std::max<int64_t>(options.end - options.begin - shift_, 0)) {}

  int64_t count() const override {
    return (usable_ + (options_.partial ? options_.context - 1 : 0)) / options_.context;
  }
  int64_t places() const override { return std::max<int64_t>(usable_ - options_.context + 1, 0); }
  int64_t place(int64_t row) const override { return row * options_.context; }
  int64_t length(int64_t place) const override {
    return std::min(options_.context, usable_ - place);
  }

  void read(int64_t place, Row& row) const override {
    row.clear();
    const int64_t tokens = length(place);
    stream_->read(*tokenizer_, options_.begin + place, tokens + shift_, row.tokens);
    row.targets.assign(row.tokens.begin() + shift_, row.tokens.end());
    row.tokens.resize(static_cast<size_t>(tokens));
  }

  std::string origin(int64_t place) const override {
    const text::Place at = stream_->place(options_.begin + place);
    return fmt::format("{}: byte {}", at.name, at.offset);
  }
  int64_t tokens() const override { return options_.end - options_.begin; }
  uint64_t target_bytes() const override {
    const int64_t covered = options_.partial ? usable_ : count() * options_.context;
    return stream_->bytes(options_.begin + shift_, covered);
  }

 private:
  std::shared_ptr<const TokenStream> stream_;
  std::shared_ptr<const text::Tokenizer> tokenizer_;
  WindowOptions options_;
  int64_t shift_;
  int64_t usable_;  // tokens that can be read with their targets
};

void encode(const Lines& lines, const Line& line, const text::Tokenizer& tokenizer,
            std::vector<int32_t>& ids) {
  tokenizer.encode(lines.text(line), (*lines.files)[line.file].name(), line.begin, ids);
}

class LineRows : public Rows {
 public:
  LineRows(Lines lines, std::shared_ptr<const text::Tokenizer> tokenizer, Task task,
           int64_t context)
      : lines_(std::move(lines)),
        tokenizer_(std::move(tokenizer)),
        shift_(task == Task::next_token ? 1 : 0),
        context_(context) {
    for (const Line& line : lines_.lines) ADDNORM_ASSERT(line.tokens > shift_);
  }

  int64_t count() const override { return static_cast<int64_t>(lines_.lines.size()); }
  int64_t places() const override { return count(); }
  int64_t length(int64_t place) const override {
    return std::min(context_, at(place).tokens - shift_);
  }

  void read(int64_t place, Row& row) const override {
    row.clear();
    encode(lines_, at(place), *tokenizer_, row.tokens);
    const int64_t tokens = length(place);
    row.tokens.resize(static_cast<size_t>(tokens + shift_));
    row.targets.assign(row.tokens.begin() + shift_, row.tokens.end());
    row.tokens.resize(static_cast<size_t>(tokens));
  }

  std::string origin(int64_t place) const override { return lines_.origin(at(place)); }
  int64_t tokens() const override {
    int64_t total = 0;
    for (const Line& line : lines_.lines) total += line.tokens;
    return total;
  }
  // The bytes of a line count in the share of its tokens that are targets.
  uint64_t target_bytes() const override {
    double total = 0;
    for (int64_t i = 0; i < count(); ++i) {
      total += static_cast<double>(at(i).bytes) * static_cast<double>(length(i)) /
               static_cast<double>(at(i).tokens);
    }
    return static_cast<uint64_t>(total + 0.5);
  }

 private:
  const Line& at(int64_t place) const { return lines_.lines[static_cast<size_t>(place)]; }

  Lines lines_;
  std::shared_ptr<const text::Tokenizer> tokenizer_;
  int64_t shift_;
  int64_t context_;
};

class PairRows : public Rows {
 public:
  PairRows(Lines source, Lines target, std::shared_ptr<const text::Tokenizer> tokenizer)
      : source_(std::move(source)), target_(std::move(target)), tokenizer_(std::move(tokenizer)) {
    ADDNORM_ASSERT(source_.lines.size() == target_.lines.size());
    ADDNORM_ASSERT(tokenizer_->special().bos >= 0);
  }

  int64_t count() const override { return static_cast<int64_t>(source_.lines.size()); }
  int64_t places() const override { return count(); }
  int64_t length(int64_t place) const override { return at(target_, place).tokens + 1; }

  void read(int64_t place, Row& row) const override {
    row.clear();
    encode(source_, at(source_, place), *tokenizer_, row.source);
    row.source.push_back(tokenizer_->special().eos);
    row.tokens.push_back(tokenizer_->special().bos);
    encode(target_, at(target_, place), *tokenizer_, row.tokens);
    row.targets.assign(row.tokens.begin() + 1, row.tokens.end());
    row.targets.push_back(tokenizer_->special().eos);
  }

  std::string origin(int64_t place) const override {
    const std::string source = source_.origin(at(source_, place));
    const std::string target = target_.origin(at(target_, place));
    return source == target ? source : source + ", " + target;
  }
  int64_t tokens() const override {
    int64_t total = 0;
    for (int64_t i = 0; i < count(); ++i) total += at(source_, i).tokens + at(target_, i).tokens;
    return total;
  }
  uint64_t target_bytes() const override {
    uint64_t total = 0;
    for (const Line& line : target_.lines) total += line.bytes;
    return total;
  }

 private:
  static const Line& at(const Lines& lines, int64_t place) {
    return lines.lines[static_cast<size_t>(place)];
  }

  Lines source_;
  Lines target_;
  std::shared_ptr<const text::Tokenizer> tokenizer_;
};

}  // namespace

void Row::clear() {
  tokens.clear();
  targets.clear();
  source.clear();
}

std::string_view Lines::text(const Line& line) const {
  return (*files)[line.file].text().substr(line.begin, line.bytes);
}

int64_t Lines::number(const Line& line) const {
  const std::string_view before = (*files)[line.file].text().substr(0, line.begin);
  return 1 + std::count(before.begin(), before.end(), '\n');
}

std::string Lines::origin(const Line& line) const {
  return fmt::format("{}: line {}", (*files)[line.file].name(), number(line));
}

Lines split_lines(std::shared_ptr<const TextFiles> files, Unit unit) {
  Lines result{std::move(files), {}};
  for (size_t file = 0; file < result.files->size(); ++file) {
    const std::string_view text = (*result.files)[file].text();
    for (size_t begin = 0; begin < text.size();) {
      const size_t newline = std::min(text.find('\n', begin), text.size());
      size_t end = newline;
      if (end > begin && newline < text.size() && text[end - 1] == '\r') --end;
      if (end - begin > UINT32_MAX) {
        fail_input((*result.files)[file].name(),
                   fmt::format("byte {}: expected a line of less than 4 GiB", begin));
      }
      result.lines.push_back({begin, static_cast<uint32_t>(file),
                              static_cast<uint32_t>(end - begin),
                              count_units(text.substr(begin, end - begin), unit)});
      begin = newline + 1;
    }
  }
  return result;
}

std::unique_ptr<Rows> window_rows(std::shared_ptr<const TokenStream> stream,
                                  std::shared_ptr<const text::Tokenizer> tokenizer,
                                  const WindowOptions& options) {
  return std::make_unique<WindowRows>(std::move(stream), std::move(tokenizer), options);
}

std::unique_ptr<Rows> line_rows(Lines lines, std::shared_ptr<const text::Tokenizer> tokenizer,
                                Task task, int64_t context) {
  return std::make_unique<LineRows>(std::move(lines), std::move(tokenizer), task, context);
}

std::unique_ptr<Rows> pair_rows(Lines source, Lines target,
                                std::shared_ptr<const text::Tokenizer> tokenizer) {
  return std::make_unique<PairRows>(std::move(source), std::move(target), std::move(tokenizer));
}

}  // namespace addnorm::data
