// Reads C++ text just well enough to judge it: code without comments and literals, and the string
// literals on their own.
#pragma once

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

namespace structure {

namespace fs = std::filesystem;

struct Literal {
  int line = 0;
  std::string value;  // as written between the quotes; neighbours are not joined
};

struct Code {
  std::string bare;  // comments and the insides of literals are spaces; lines stay where they were
  std::vector<Literal> literals;  // strings, raw ones too; not characters, not includes
};

inline int lines_before(const std::string& text, size_t at) {
  return 1 + static_cast<int>(
                 std::count(text.begin(), text.begin() + static_cast<std::ptrdiff_t>(at), '\n'));
}

inline Code read_code(const std::string& text) {
  Code code{text, {}};
  const auto blank = [&](size_t from, size_t to) {
    for (size_t i = from; i < to && i < text.size(); ++i) {
      if (text[i] != '\n') code.bare[i] = ' ';
    }
  };
  const auto letter = [&](size_t i) {
    return std::isalnum(static_cast<unsigned char>(text[i])) || text[i] == '_';
  };
  size_t i = 0;
  while (i < text.size()) {
    if (text.compare(i, 2, "//") == 0) {
      const size_t end = std::min(text.find('\n', i), text.size());
      blank(i, end);
      i = end;
    } else if (text.compare(i, 2, "/*") == 0) {
      const size_t close = text.find("*/", i + 2);
      const size_t end = close == std::string::npos ? text.size() : close + 2;
      blank(i, end);
      i = end;
    } else if (text[i] == '#' && text.compare(i, 8, "#include") == 0) {
      i = std::min(text.find('\n', i), text.size());
    } else if (text.compare(i, 2, "R\"") == 0 && (i == 0 || !letter(i - 1) || text[i - 1] == '8')) {
      const size_t open = std::min(text.find('(', i), text.size());
      const std::string mark = ")" + text.substr(i + 2, open - i - 2) + "\"";
      const size_t close = text.find(mark, open);
      const size_t end = close == std::string::npos ? text.size() : close;
      if (open < end) {
        code.literals.push_back({lines_before(text, i), text.substr(open + 1, end - open - 1)});
      }
      blank(open + 1, end);
      i = std::min(end + mark.size(), text.size());
    } else if (text[i] == '"' || (text[i] == '\'' && (i == 0 || !letter(i - 1)))) {
      size_t end = i + 1;  // a quote between letters separates digits: 50'257
      while (end < text.size() && text[end] != text[i] && text[end] != '\n') {
        end += text[end] == '\\' ? 2 : 1;
      }
      end = std::min(end, text.size());
      if (text[i] == '"') {
        code.literals.push_back({lines_before(text, i), text.substr(i + 1, end - i - 1)});
      }
      blank(i + 1, end);
      i = end + 1;
    } else {
      ++i;
    }
  }
  return code;
}

inline std::string read_text(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

struct File {
  std::string path;  // relative to the root, with '/'
  std::string text;
};

// Files below root/folder with one of the endings, sorted; build outputs, run folders, npm packages
// and data of tests are no part of the tree.
inline std::vector<File> files_below(const fs::path& root, const std::string& folder,
                                     const std::vector<std::string>& endings) {
  std::vector<File> found;
  const fs::path start = folder.empty() ? root : root / folder;
  if (!fs::exists(start)) return found;
  for (auto it = fs::recursive_directory_iterator(start); it != fs::end(it); ++it) {
    const std::string path = fs::relative(it->path(), root).generic_string();
    if (it->is_directory()) {
      const bool foreign = path == "build" || path == "runs" || path == "tests/data" ||
                           path == ".git" || path == ".cache" || path.ends_with("node_modules");
      if (foreign) it.disable_recursion_pending();
      continue;
    }
    if (!it->is_regular_file() || path == ".git") continue;  // a worktree's is a file
    const bool wanted =
        endings.empty() || std::any_of(endings.begin(), endings.end(),
                                       [&](const std::string& end) { return path.ends_with(end); });
    if (wanted) found.push_back({path, read_text(it->path())});
  }
  std::sort(found.begin(), found.end(),
            [](const File& a, const File& b) { return a.path < b.path; });
  return found;
}

}  // namespace structure
