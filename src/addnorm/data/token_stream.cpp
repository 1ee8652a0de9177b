#include "addnorm/data/token_stream.h"

#include <algorithm>

#include "addnorm/base/error.h"

namespace addnorm::data {
namespace {

constexpr int64_t index_step = 1024;  // code points between two entries

bool starts_code_point(char c) { return (static_cast<unsigned char>(c) & 0xC0) != 0x80; }

}  // namespace

int64_t count_units(std::string_view text, Unit unit) {
  return unit == Unit::byte ? static_cast<int64_t>(text.size())
                            : std::count_if(text.begin(), text.end(), starts_code_point);
}

TokenStream::TokenStream(TextFiles files, Unit unit)
    : files_(std::move(files)), unit_(unit), starts_(1, 0), index_(files_.size()) {
  for (size_t file = 0; file < files_.size(); ++file) {
    const std::string_view text = files_[file].text();
    int64_t tokens = static_cast<int64_t>(text.size());
    if (unit == Unit::code_point) {
      tokens = 0;
      for (size_t at = 0; at < text.size(); ++at) {
        if (!starts_code_point(text[at])) continue;
        if (tokens % index_step == 0) index_[file].push_back(at);
        ++tokens;
      }
    }
    starts_.push_back(starts_.back() + tokens);
  }
}

size_t TokenStream::file_of(int64_t position) const {
  const auto after = std::upper_bound(starts_.begin(), starts_.end(), position);
  return static_cast<size_t>(std::max<int64_t>(after - starts_.begin() - 1, 0));
}

size_t TokenStream::offset(size_t file, int64_t token) const {
  const std::string_view text = files_[file].text();
  if (unit_ == Unit::byte) return static_cast<size_t>(token);
  if (token == starts_[file + 1] - starts_[file]) return text.size();
  size_t at = index_[file][static_cast<size_t>(token / index_step)];
  for (int64_t left = token % index_step; left > 0; --left) {
    do ++at;
    while (!starts_code_point(text[at]));
  }
  return at;
}

template <class Use>
void TokenStream::for_pieces(int64_t position, int64_t count, const Use& use) const {
  ADDNORM_ASSERT(position >= 0 && count >= 0 && position + count <= size());
  for (size_t file = file_of(position); count > 0; ++file) {
    const int64_t first = position - starts_[file];
    const int64_t taken = std::min(count, starts_[file + 1] - position);
    if (taken > 0) use(Piece{file, offset(file, first), offset(file, first + taken)});
    position += taken;
    count -= taken;
  }
}

void TokenStream::read(const text::Tokenizer& tokenizer, int64_t position, int64_t count,
                       std::vector<int32_t>& ids) const {
  for_pieces(position, count, [&](const Piece& piece) {
    const TextFile& file = files_[piece.file];
    tokenizer.encode(file.text().substr(piece.begin, piece.end - piece.begin), file.name(),
                     piece.begin, ids);
  });
}

std::vector<std::string_view> TokenStream::texts(int64_t position, int64_t count) const {
  std::vector<std::string_view> result;
  for_pieces(position, count, [&](const Piece& piece) {
    result.push_back(files_[piece.file].text().substr(piece.begin, piece.end - piece.begin));
  });
  return result;
}

text::Place TokenStream::place(int64_t position) const {
  const size_t file = std::min(file_of(position), files_.size() - 1);
  return {files_[file].name(), offset(file, position - starts_[file])};
}

uint64_t TokenStream::bytes(int64_t position, int64_t count) const {
  uint64_t total = 0;
  for_pieces(position, count, [&](const Piece& piece) { total += piece.end - piece.begin; });
  return total;
}

}  // namespace addnorm::data
