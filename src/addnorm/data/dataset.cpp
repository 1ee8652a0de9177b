#include "addnorm/data/dataset.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <optional>

#include "addnorm/base/text.h"
#include "addnorm/data/pairs.h"
#include "addnorm/text/utf8.h"

namespace addnorm::data {
namespace {

std::optional<double> share_of(const std::string& validation) {
  double share = 0;
  const char* end = validation.data() + validation.size();
  const auto [rest, problem] = std::from_chars(validation.data(), end, share);
  if (problem != std::errc() || rest != end) return std::nullopt;
  if (!(share >= 0 && share < 1)) {
    fail_input("data.validation",
               fmt::format("expected a share of at least 0 and below 1, or a file, got "
                           "{}",
                           validation));
  }
  return share;
}

// The share, rounded down; products such as 0.29 * 100 = 28.999999999999996 are meant as 29.
int64_t held_out(double share, int64_t total) {
  const double exact = share * static_cast<double>(total);
  return static_cast<int64_t>(std::floor(exact + 1e-9 + exact * 1e-14));
}

class Opener {
 public:
  explicit Opener(const DatasetOptions& options)
      : options_(options),
        data_(options.data),
        encoding_(text::encoding_named(options.data.encoding)),
        special_(options.task != Task::next_token),
        tokenizer_(options.tokenizer),
        kind_(tokenizer_ ? tokenizer_->kind() : data_.tokenizer) {
    if (kind_ != "bytes" && kind_ != "chars") {
      fail_input("data.tokenizer",
                 fmt::format("expected bytes or chars, got {}", text::quoted(data_.tokenizer)));
    }
    if (data_.documents != "stream" && data_.documents != "lines") {
      fail_input("data.documents",
                 fmt::format("expected stream or lines, got {}", text::quoted(data_.documents)));
    }
    if (tokenizer_ && special_ && tokenizer_->special().pad < 0) {
      fail_input("tokenizer.json", "expected the special ids pad, bos, eos and mask, got none");
    }
    unit_ = kind_ == "bytes" || encoding_ == text::Encoding::bytes ? Unit::byte : Unit::code_point;
    ADDNORM_ASSERT(options.context >= 1);
  }

  Dataset open() {
    share_ = share_of(data_.validation);
    if (options_.task == Task::pairs) {
      open_pairs();
    } else if (data_.documents == "lines") {
      open_lines();
    } else {
      open_stream();
    }
    result_.tokenizer = tokenizer_;
    const int64_t vocab =
        options_.task == Task::pairs ? tokenizer_->vocab_size() : tokenizer_->ordinary_ids();
    result_.entropies =
        measure_entropies(*counted_, result_.validation.get(), options_.task, vocab);
    return std::move(result_);
  }

  std::shared_ptr<const Rows> evaluation(const std::vector<std::string>& names) {
    ADDNORM_ASSERT(tokenizer_ != nullptr);
    if (options_.task == Task::pairs) {
      PairLines pairs = usable(read_tabbed(names, "--data"));
      return pair_rows(std::move(pairs.source), std::move(pairs.target), tokenizer_);
    }
    auto files = open_texts(names, encoding_, "--data", result_.findings);
    if (data_.documents == "lines") {
      Lines lines = usable(split_lines(std::make_shared<TextFiles>(std::move(files)), unit_));
      return line_rows(std::move(lines), tokenizer_, options_.task, options_.context);
    }
    const auto stream = std::make_shared<TokenStream>(std::move(files), unit_);
    return windows(stream, 0, stream->size(), true);
  }

  Findings& findings() { return result_.findings; }

 private:
  void note(Level level, const std::string& where, const std::string& message) {
    result_.findings.push_back({level, where, message});
  }

  // `texts` are those of the training part.
  template <class Texts>
  void make_tokenizer(const Texts& texts) {
    if (tokenizer_) return;
    if (kind_ == "bytes") {
      tokenizer_ = text::byte_tokenizer(special_);
      return;
    }
    text::CharacterTable table(encoding_);
    texts([&](std::string_view text) { table.add(text); });
    tokenizer_ = table.tokenizer(special_);
  }

  void hold_out(std::shared_ptr<const Rows> rows) {
    if (rows->count() > 0) {
      result_.validation = std::move(rows);
    } else if (share_ != 0.0) {
      note(
          Level::warning, "data.validation",
          "the part held out has no target, so nothing is evaluated; try a larger share or a file");
    }
  }

  // ---- one stream of tokens

  std::shared_ptr<const Rows> windows(const std::shared_ptr<TokenStream>& stream, int64_t begin,
                                      int64_t end, bool partial) const {
    return window_rows(stream, tokenizer_, {options_.task, begin, end, options_.context, partial});
  }

  void open_stream() {
    const auto stream = std::make_shared<TokenStream>(
        open_texts(data_.source, encoding_, "data.source", result_.findings), unit_);
    std::shared_ptr<TokenStream> other;
    if (!share_) {
      other = std::make_shared<TokenStream>(
          open_texts({data_.validation}, encoding_, "data.validation", result_.findings), unit_);
    }
    const int64_t end = stream->size() - (share_ ? held_out(*share_, stream->size()) : 0);
    const int64_t needed = options_.context + (options_.task == Task::next_token ? 1 : 0);
    if (end < needed) {
      fail_input(
          "data.source",
          fmt::format(
              "expected a training part of at least {} tokens (model.context {}{}), got {}; "
              "try a longer text, a smaller model.context or documents = \"lines\"",
              needed, options_.context, needed > options_.context ? " and one target" : "", end));
    }
    make_tokenizer([&](const auto& use) {
      for (const std::string_view text : stream->texts(0, end)) use(text);
    });
    result_.training = windows(stream, 0, end, false);
    counted_ = windows(stream, 0, end, true);
    const int64_t left = end - needed - (result_.training->count() - 1) * options_.context;
    if (data_.sampling == "epoch" && left > 0) {
      note(Level::information, "data.source",
           fmt::format("the last {} tokens of the training part fill no window and are in no epoch",
                       left));
    }
    hold_out(other ? windows(other, 0, other->size(), true)
                   : windows(stream, end, stream->size(), true));
  }

  // ---- lines as documents

  // Without the lines that have no target; counts them and those that will be cut.
  Lines usable(Lines lines) {
    const int64_t least = options_.task == Task::next_token ? 2 : 1;
    const int64_t longest = options_.context + least - 1;
    int64_t dropped = 0;
    int64_t cut = 0;
    int64_t lost = 0;
    std::optional<Line> first_dropped;
    std::optional<Line> first_cut;
    std::erase_if(lines.lines, [&](const Line& line) {
      if (line.tokens > longest) {
        if (cut++ == 0) first_cut = line;
        lost += line.tokens - longest;
      }
      if (line.tokens >= least) return false;
      if (dropped++ == 0) first_dropped = line;
      return true;
    });
    if (dropped > 0) {
      note(Level::warning, lines.origin(*first_dropped),
           fmt::format(
               "{} lines of fewer than {} tokens have no target and were left out, this one first",
               dropped, least));
    }
    if (cut > 0) {
      note(Level::warning, lines.origin(*first_cut),
           fmt::format(
               "{} lines are longer than model.context {} and were cut by {} tokens in all, this "
               "one first",
               cut, options_.context, lost));
    }
    return lines;
  }

  Lines lines_of(const std::vector<std::string>& names, const std::string& key) {
    auto files = std::make_shared<TextFiles>(open_texts(names, encoding_, key, result_.findings));
    return usable(split_lines(std::move(files), unit_));
  }

  void open_lines() {
    Lines training = lines_of(data_.source, "data.source");
    Lines held{training.files, {}};
    if (share_) {
      int64_t total = 0;
      for (const Line& line : training.lines) total += line.tokens;
      int64_t room = held_out(*share_, total);  // whole lines from the end, as many as fit
      size_t keep = training.lines.size();
      while (keep > 0 && training.lines[keep - 1].tokens <= room)
        room -= training.lines[--keep].tokens;
      held.lines.assign(training.lines.begin() + static_cast<ptrdiff_t>(keep),
                        training.lines.end());
      training.lines.resize(keep);
    } else {
      held = lines_of({data_.validation}, "data.validation");
    }
    if (training.lines.empty()) {
      fail_input("data.source",
                 "expected lines with at least one target in the training part, got none; "
                 "try another file, a smaller data.validation or documents = \"stream\"");
    }
    make_tokenizer([&](const auto& use) {
      for (const Line& line : training.lines) use(training.text(line));
    });
    result_.training = line_rows(std::move(training), tokenizer_, options_.task, options_.context);
    counted_ = result_.training;
    hold_out(line_rows(std::move(held), tokenizer_, options_.task, options_.context));
  }

  // ---- pairs of lines

  PairLines read_tabbed(const std::vector<std::string>& names, const std::string& key) {
    return tabbed_pairs(
        std::make_shared<TextFiles>(open_texts(names, encoding_, key, result_.findings)), unit_);
  }

  PairLines usable(PairLines pairs) {
    return usable_pairs(std::move(pairs), options_.context, options_.drop_blank, result_.findings);
  }

  void open_pairs() {
    PairLines training;
    if (data_.target.empty()) {
      training = read_tabbed(data_.source, "data.source");
    } else {
      training = parallel_pairs(std::make_shared<TextFiles>(open_texts(
                                    data_.source, encoding_, "data.source", result_.findings)),
                                std::make_shared<TextFiles>(open_texts(
                                    data_.target, encoding_, "data.target", result_.findings)),
                                unit_);
    }
    training = usable(std::move(training));
    PairLines held;
    if (share_) {
      held = split_off(training,
                       held_out(*share_, static_cast<int64_t>(training.source.lines.size())));
    } else {
      held = usable(read_tabbed({data_.validation}, "data.validation"));
    }
    if (training.source.lines.empty()) {
      fail_input("data.source",
                 "expected pairs in the training part, got none; try a smaller "
                 "data.validation");
    }
    make_tokenizer([&](const auto& use) {
      for (const Lines* lines : {&training.source, &training.target}) {
        for (const Line& line : lines->lines) use(lines->text(line));
      }
    });
    result_.training =
        pair_rows(std::move(training.source), std::move(training.target), tokenizer_);
    counted_ = result_.training;
    hold_out(pair_rows(std::move(held.source), std::move(held.target), tokenizer_));
  }

  const DatasetOptions& options_;
  const model::DataSection& data_;
  text::Encoding encoding_;
  bool special_;
  std::shared_ptr<const text::Tokenizer> tokenizer_;
  std::string kind_;
  Unit unit_ = Unit::byte;
  std::optional<double> share_;
  std::shared_ptr<const Rows> counted_;  // the training part with the end that fills no window
  Dataset result_;
};

}  // namespace

Task task_of(const std::string& kind) {
  if (kind == "decoder") return Task::next_token;
  if (kind == "encoder") return Task::masked;
  ADDNORM_ASSERT(kind == "encoder-decoder");
  return Task::pairs;
}

Batches Dataset::training_batches(Task task, const model::DataSection& data,
                                  const model::TrainSection& train) const {
  BatchOptions options;
  options.order = data.sampling == "random" ? Order::random : Order::epoch;
  options.batch = train.batch;
  options.accumulate = train.accumulate;
  options.seed = train.seed;
  options.mask_rate = data.mask_rate;
  return {training, tokenizer, task, options};
}

Batches Dataset::validation_batches(Task task, const model::DataSection& data,
                                    int64_t batch) const {
  ADDNORM_ASSERT(validation != nullptr);
  return {validation, tokenizer, task, {Order::sequence, batch, 1, 0, data.mask_rate}};
}

Dataset open_dataset(const DatasetOptions& options) { return Opener(options).open(); }

void require_texts(const model::DataSection& data) {
  require_names(data.source, "data.source");
  require_names(data.target, "data.target");
  if (!share_of(data.validation)) require_names({data.validation}, "data.validation");
}

std::vector<TextRecord> record_texts(const model::DataSection& data) {
  std::vector<TextRecord> records;
  Findings told_by_open_dataset;
  const auto add = [&](const std::vector<std::string>& names, const std::string& key) {
    if (names.empty()) return;
    const auto encoding = text::encoding_named(data.encoding);
    for (const TextFile& file : open_texts(names, encoding, key, told_by_open_dataset)) {
      records.push_back(record_of(file));
    }
  };
  add(data.source, "data.source");
  add(data.target, "data.target");
  if (!share_of(data.validation)) add({data.validation}, "data.validation");
  return records;
}

std::shared_ptr<const Rows> open_evaluation(const std::vector<std::string>& files,
                                            const DatasetOptions& options, Findings& findings) {
  Opener opener(options);
  auto rows = opener.evaluation(files);
  findings.insert(findings.end(), opener.findings().begin(), opener.findings().end());
  if (rows->count() == 0) fail_input("--data", "expected text with at least one target, got none");
  return rows;
}

}  // namespace addnorm::data
