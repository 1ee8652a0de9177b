// The tokens of several texts, one after the other, read at any position without being kept: bytes are
// their own index, code points have a sparse one.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "addnorm/data/text_file.h"
#include "addnorm/text/tokenizer.h"

namespace addnorm::data {

enum class Unit { byte, code_point };  // what one token covers

int64_t count_units(std::string_view text, Unit unit);

class TokenStream {
 public:
  // Takes the files over; they must be valid UTF-8 for code points.
  TokenStream(TextFiles files, Unit unit);

  int64_t size() const { return starts_.back(); }
  const TextFiles& files() const { return files_; }

  // Appends the ids of the tokens [position, position + count) to `ids`. An unknown character is an
  // Error with file and byte offset.
  void read(const text::Tokenizer& tokenizer, int64_t position, int64_t count,
            std::vector<int32_t>& ids) const;
  // The text of the same tokens, file by file.
  std::vector<std::string_view> texts(int64_t position, int64_t count) const;
  // File and byte of a token; of the end, the end of the last file.
  text::Place place(int64_t position) const;
  uint64_t bytes(int64_t position, int64_t count) const;  // of the text of these tokens

 private:
  struct Piece {
    size_t file;
    size_t begin;
    size_t end;
  };
  size_t file_of(int64_t position) const;
  size_t offset(size_t file, int64_t token) const;  // byte of a token within a file
  template <class Use>
  void for_pieces(int64_t position, int64_t count, const Use& use) const;

  TextFiles files_;
  Unit unit_;
  std::vector<int64_t> starts_;               // first token of each file; then the end
  std::vector<std::vector<uint64_t>> index_;  // per file: byte of every index_step-th code point
};

}  // namespace addnorm::data
