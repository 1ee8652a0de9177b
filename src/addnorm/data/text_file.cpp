#include "addnorm/data/text_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <fstream>
#include <set>

#include "addnorm/base/text.h"
#include "addnorm/text/utf8.h"

namespace addnorm::data {
namespace {

// Below this a copy is cheaper than a map, of which a process may have some 65,000.
constexpr uint64_t small_file = uint64_t{64} << 10;
constexpr size_t sniffed_bytes = 8192;
constexpr size_t shown_skips = 5;

bool looks_binary(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  std::string start(sniffed_bytes, '\0');
  file.read(start.data(), static_cast<std::streamsize>(start.size()));
  start.resize(static_cast<size_t>(std::max<std::streamsize>(file.gcount(), 0)));
  return start.find('\0') != std::string::npos;
}

// Walks a folder; links are followed, a folder is entered once.
class Walk {
 public:
  explicit Walk(text::Encoding encoding) : encoding_(encoding) {}

  void folder(const fs::path& path) {
    std::error_code problem;
    const fs::path real = fs::canonical(path, problem);
    if (problem || !entered_.insert(real.string()).second) {
      skip(path, problem ? problem.message() : "a folder met before");
      return;
    }
    fs::directory_iterator entries(path, problem);
    if (problem) fail_input(path.string(), "expected a readable folder, got: " + problem.message());
    for (const auto& entry : entries) visit(entry);
  }

  std::vector<fs::path> files;
  std::vector<std::string> skipped;

 private:
  void visit(const fs::directory_entry& entry) {
    const fs::path& path = entry.path();
    std::error_code problem;
    const fs::file_status status = entry.status(problem);
    if (path.filename().string().front() == '.') {
      skip(path, "hidden");
    } else if (fs::is_directory(status)) {
      folder(path);
    } else if (!fs::is_regular_file(status)) {
      skip(path, problem ? problem.message() : "neither file nor folder");
    } else if (encoding_ != text::Encoding::bytes && looks_binary(path)) {
      skip(path, "binary");
    } else {
      files.push_back(path);
    }
  }

  void skip(const fs::path& path, const std::string& why) {
    skipped.push_back(path.string() + " (" + why + ")");
  }

  text::Encoding encoding_;
  std::set<std::string> entered_;
};

}  // namespace

TextFile::TextFile(const fs::path& path, text::Encoding encoding, Findings& findings)
    : name_(path.string()), map_(std::make_unique<MappedFile>(path)) {
  if (map_->text().size() < small_file) {
    owned_ = map_->text();
    map_.reset();
  }
  if (encoding == text::Encoding::bytes) return;
  if (encoding == text::Encoding::utf8) {
    // The NUL byte first: a sparse file of any size has one near its start.
    const size_t nul = text().find('\0');
    const size_t bad = std::min(nul, text::first_invalid_utf8(text().substr(0, nul)));
    if (bad == text::all_valid) return;
    fail_input(name_,
               fmt::format("byte {}: expected UTF-8 text, got {} 0x{:02X}; try data.encoding = "
                           "\"replace\" or \"bytes\"",
                           bad, bad == nul ? "the byte of binary files" : "the byte",
                           static_cast<unsigned char>(text()[bad])));
  }
  const size_t invalid = text::first_invalid_utf8(text());
  if (invalid == text::all_valid) return;
  int64_t replaced = 0;
  owned_ = text::repaired_utf8(text(), replaced);
  map_.reset();
  findings.push_back(
      {Level::warning, name_,
       fmt::format("{} bytes that are not UTF-8 were replaced by U+FFFD, the first at "
                   "byte {}",
                   replaced, invalid)});
}

TextRecord record_of(const TextFile& file) {
  return {file.name(), file.text().size(), sha256(file.text())};
}

std::vector<fs::path> expand_sources(const std::vector<std::string>& names, text::Encoding encoding,
                                     Findings& findings) {
  std::vector<fs::path> all;
  for (const std::string& name : names) {
    std::error_code ignored;
    if (!fs::is_directory(name, ignored)) {
      all.emplace_back(name);
      continue;
    }
    Walk walk(encoding);
    walk.folder(name);
    std::sort(walk.files.begin(), walk.files.end(),
              [](const fs::path& a, const fs::path& b) { return a.string() < b.string(); });
    std::sort(walk.skipped.begin(), walk.skipped.end());
    if (!walk.skipped.empty()) {
      std::vector<std::string> shown = walk.skipped;
      if (shown.size() > shown_skips) shown.resize(shown_skips);
      findings.push_back(
          {Level::warning, name,
           fmt::format("skipped {} entries of the folder: {}{}", walk.skipped.size(),
                       join(shown, ", "), shown.size() < walk.skipped.size() ? ", ..." : "")});
    }
    if (walk.files.empty()) {
      fail_input(name,
                 fmt::format("expected text files below the folder, got none among {} entries; "
                             "try a file or another folder",
                             walk.skipped.size()));
    }
    all.insert(all.end(), walk.files.begin(), walk.files.end());
  }
  return all;
}

void require_names(const std::vector<std::string>& names, const std::string& key) {
  for (const std::string& name : names) {
    std::error_code ignored;
    if (fs::status(name, ignored).type() != fs::file_type::not_found) continue;
    const bool of_file = key.starts_with("data.");
    fail_input(name, fmt::format("expected a file or folder with the text of {}, got none of this "
                                 "name; try another path{}",
                                 key,
                                 of_file ? fmt::format(": set {} under [data], or pass --{} FILE",
                                                       key.substr(5), key)
                                         : ""));
  }
}

TextFiles open_texts(const std::vector<std::string>& names, text::Encoding encoding,
                     const std::string& key, Findings& findings) {
  if (names.empty()) fail_input(key, "expected files or folders, got none");
  require_names(names, key);
  TextFiles files;
  bool any = false;
  for (const fs::path& path : expand_sources(names, encoding, findings)) {
    files.emplace_back(path, encoding, findings);
    any |= !files.back().text().empty();
    if (files.back().text().empty()) {
      findings.push_back({Level::warning, files.back().name(), "the file is empty"});
    }
  }
  if (!any) {
    fail_input(files.size() == 1 ? files[0].name() : key,
               fmt::format("expected text, got {}; try another file",
                           files.size() == 1 ? "an empty file"
                                             : fmt::format("{} empty files", files.size())));
  }
  return files;
}

}  // namespace addnorm::data
