// The text files behind `source`, `target` and `validation`: mapped, not copied, and checked for their
// encoding before anything is read from them.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "addnorm/base/error.h"
#include "addnorm/base/files.h"
#include "addnorm/text/tokenizer.h"

namespace addnorm::data {

class TextFile {
 public:
  // utf8: the first invalid byte, or a NUL byte (no text holds one), is an Error with its offset.
  // replace: U+FFFD stands for invalid bytes, with a warning that counts them.
  TextFile(const fs::path& path, text::Encoding encoding, Findings& findings);

  const std::string& name() const { return name_; }
  std::string_view text() const { return map_ ? map_->text() : std::string_view(owned_); }

 private:
  std::string name_;
  std::unique_ptr<MappedFile> map_;  // absent for small and for repaired files
  std::string owned_;
};

using TextFiles = std::vector<TextFile>;

// What a text file held when it was read, so that another content can be told later.
struct TextRecord {
  std::string file;
  uint64_t bytes = 0;  // of the text, after repairs
  std::string sha256;
  bool operator==(const TextRecord&) const = default;
};
TextRecord record_of(const TextFile& file);

// The files that the names stand for: files as they are, of folders all text files below in byte
// order of their paths. Skipped entries (hidden, binary unless the encoding is bytes, neither file nor
// folder) are named in a warning; a folder without text is an Error.
std::vector<fs::path> expand_sources(const std::vector<std::string>& names, text::Encoding encoding,
                                     Findings& findings);

// An Error where one of the names stands for nothing. `key` names the key or option in messages.
void require_names(const std::vector<std::string>& names, const std::string& key);

// All of them opened; an Error where they hold no text at all.
TextFiles open_texts(const std::vector<std::string>& names, text::Encoding encoding,
                     const std::string& key, Findings& findings);

}  // namespace addnorm::data
