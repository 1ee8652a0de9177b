// What a training or validation part consists of: rows, each of which becomes one sequence of a batch.
// Three kinds: windows of a token stream, lines as documents, pairs of lines.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "addnorm/data/text_file.h"
#include "addnorm/data/token_stream.h"
#include "addnorm/nodes/batch.h"
#include "addnorm/text/tokenizer.h"

namespace addnorm::data {

enum class Task { next_token, masked, pairs };  // decoder, encoder, encoder-decoder

// Tokens of the (only or decoder's) stack, as many targets, and the source of a pair. For Task::masked
// the targets are the tokens themselves; choosing some of them is the batch's business.
struct Row {
  std::vector<int32_t> tokens;
  std::vector<int32_t> targets;
  std::vector<int32_t> source;
  void clear();
};

// A place is where a row may start; an epoch visits the places first_place(0), first_place(1), ...
class Rows {
 public:
  virtual ~Rows() = default;
  virtual int64_t count() const = 0;   // rows of an epoch
  virtual int64_t places() const = 0;  // possible starts
  virtual int64_t place(int64_t row) const { return row; }
  virtual int64_t length(int64_t place) const = 0;       // tokens of the row there
  virtual void read(int64_t place, Row& row) const = 0;  // replaces what `row` holds
  virtual std::string origin(int64_t place) const = 0;   // "file: byte 17", "file: line 3"
  virtual int64_t tokens() const = 0;                    // of the whole part
  virtual uint64_t target_bytes() const = 0;  // of the text that the targets of an epoch cover
};

// Windows of `context` tokens of [begin, end) of a stream. For next_token the targets are shifted by
// one, so the last token of the part is target only. `partial`: the end that fills no window is a
// shorter row of its own; otherwise it belongs to no row of an epoch.
struct WindowOptions {
  Task task = Task::next_token;
  int64_t begin = 0;
  int64_t end = 0;
  int64_t context = 0;
  bool partial = false;
};
std::unique_ptr<Rows> window_rows(std::shared_ptr<const TokenStream> stream,
                                  std::shared_ptr<const text::Tokenizer> tokenizer,
                                  const WindowOptions& options);

// A line without its end ("\n" or "\r\n").
struct Line {
  uint64_t begin = 0;  // byte in its file
  uint32_t file = 0;
  uint32_t bytes = 0;
  int64_t tokens = 0;
};
struct Lines {
  std::shared_ptr<const TextFiles> files;
  std::vector<Line> lines;
  std::string_view text(const Line& line) const;
  int64_t number(const Line& line) const;      // from 1, counted anew at each call
  std::string origin(const Line& line) const;  // "file: line 3"
};
// All lines of the files; text after the last line end is a line, nothing after it is none.
Lines split_lines(std::shared_ptr<const TextFiles> files, Unit unit);

// Each line is a document, cut where it is longer than the context. Lines that have no target are not
// allowed here (next_token: fewer than 2 tokens; masked: none).
std::unique_ptr<Rows> line_rows(Lines lines, std::shared_ptr<const text::Tokenizer> tokenizer,
                                Task task, int64_t context);

// Pairs of equally many lines: source = line + eos, tokens = bos + line, targets = line + eos.
std::unique_ptr<Rows> pair_rows(Lines source, Lines target,
                                std::shared_ptr<const text::Tokenizer> tokenizer);

}  // namespace addnorm::data
