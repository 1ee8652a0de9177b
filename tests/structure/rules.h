// The rules of the tree. Each takes text and returns complaints, so that a test can show that the
// rule fails on text that breaks it.
#pragma once

#include <algorithm>
#include <regex>
#include <set>
#include <string>
#include <vector>

#include "structure/source.h"

namespace structure {

using Complaints = std::vector<std::string>;

inline std::string at(const File& file, int line) {
  return file.path + ":" + std::to_string(line) + ": ";
}

// The list that CMakeLists.txt builds the libraries from, bottom first.
inline std::vector<std::string> layer_order(const std::string& cmake_lists) {
  const std::string head = "set(ADDNORM_LAYERS";
  const size_t from = cmake_lists.find(head);
  if (from == std::string::npos) return {};
  const size_t to = cmake_lists.find(')', from);
  std::istringstream words(cmake_lists.substr(from + head.size(), to - from - head.size()));
  std::vector<std::string> order;
  for (std::string word; words >> word;) order.push_back(word);
  return order;
}

// `file.path` is src/addnorm/LAYER/..; it may include its own layer and those before it.
inline Complaints include_complaints(const File& file, const std::vector<std::string>& order) {
  static const std::regex include(R"re(^\s*#\s*include\s*["<]([^">]+)[">])re");
  const auto rank = [&](const std::string& layer) {
    return std::find(order.begin(), order.end(), layer) - order.begin();
  };
  Complaints complaints;
  const std::string root = "src/addnorm/";
  const std::string own =
      file.path.substr(root.size(), file.path.find('/', root.size()) - root.size());
  const auto unknown = static_cast<std::ptrdiff_t>(order.size());
  if (rank(own) == unknown) complaints.push_back(file.path + ": no layer is called " + own);
  std::istringstream lines(file.text);
  int number = 0;
  for (std::string line; std::getline(lines, line);) {
    ++number;
    std::smatch match;
    if (!std::regex_search(line, match, include)) continue;
    const std::string target = match[1];
    const bool relative = target.find('/') == std::string::npos || target.starts_with(".");
    if (line.find('"') != std::string::npos && relative) {
      complaints.push_back(at(file, number) + "expected addnorm/LAYER/FILE, got " + target);
    }
    if (!target.starts_with("addnorm/")) continue;
    const std::string layer = target.substr(8, target.find('/', 8) - 8);
    if (rank(layer) == unknown) {
      complaints.push_back(at(file, number) + "no layer is called " + layer);
    } else if (rank(layer) > rank(own)) {
      complaints.push_back(at(file, number) + own + "/ includes the later layer " + layer + "/");
    }
  }
  return complaints;
}

// Nothing below cli/ prints or ends the process; a broken assertion (base/error.cpp) does both.
inline Complaints output_complaints(const File& file) {
  static const std::regex forbidden(
      R"re(std::(cout|cerr|clog)\b|\b(fmt|std)::print(ln)?\s*\(|(^|[^\w.>:])(std::)?(printf|puts|putchar|perror|abort|exit|_exit|_Exit|quick_exit|terminate)\s*\(|\bfprintf\s*\(\s*(stdout|stderr))re");
  Complaints complaints;
  if (file.path == "src/addnorm/base/error.cpp") return complaints;
  std::istringstream lines(read_code(file.text).bare);
  int number = 0;
  for (std::string line; std::getline(lines, line);) {
    ++number;
    std::smatch match;
    if (std::regex_search(line, match, forbidden)) {
      complaints.push_back(at(file, number) + "prints or exits: " + match.str());
    }
  }
  return complaints;
}

// A string that is a catalogue name would let the library depend on what a wiring is called.
// `language` are words that are in the formula language as well (norm kinds, functions).
inline Complaints name_complaints(const File& file, const std::set<std::string>& names,
                                  const std::set<std::string>& language) {
  Complaints complaints;
  for (const Literal& literal : read_code(file.text).literals) {
    const std::string word = literal.value.substr(0, literal.value.find('('));
    if (names.contains(word) && !language.contains(word)) {
      complaints.push_back(at(file, literal.line) + "\"" + literal.value +
                           "\" is a name of the catalogue");
    }
  }
  return complaints;
}

inline Complaints length_complaints(const File& file, int limit) {
  const auto lines = std::count(file.text.begin(), file.text.end(), '\n');
  if (lines <= limit) return {};
  return {file.path + ": " + std::to_string(lines) + " lines, more than " + std::to_string(limit)};
}

// Absolute paths of one machine have no place in a tree that others clone.
inline Complaints path_complaints(const File& file) {
  // Written in pieces, for this file is read too.
  static const std::regex machine(
      "(^|[^\\w.])/(wo"
      "rk/(main|shared|\\.)|tm"
      "p/w/|ro"
      "ot/|ho"
      "me/[a-z])");
  Complaints complaints;
  std::istringstream lines(file.text);
  int number = 0;
  for (std::string line; std::getline(lines, line);) {
    ++number;
    if (std::regex_search(line, machine)) {
      complaints.push_back(at(file, number) + "a path of one machine: " + line);
    }
  }
  return complaints;
}

// What the project does without: OpenMP pragmas, code for one processor, inexact mathematics;
// and tests that are switched off.
inline Complaints habit_complaints(const File& file) {
  static const std::vector<std::string> forbidden = {
      "#pragma "
      "omp",
      "-march="
      "native",
      "-ffast"
      "-math",
      "-fop"
      "enmp",
      "DISAB"
      "LED_",
      "GTEST"
      "_SKIP",
      "to"
      "do:",
      "TO"
      "DO",
      "FIX"
      "ME"};
  Complaints complaints;
  std::istringstream lines(file.text);
  int number = 0;
  for (std::string line; std::getline(lines, line);) {
    ++number;
    for (const std::string& word : forbidden) {
      const size_t found = line.find(word);
      if (found == std::string::npos) continue;
      // Inside a longer identifier it is another word.
      const char before = found == 0 ? ' ' : line[found - 1];
      if (!std::isalnum(static_cast<unsigned char>(before)) && before != '_') {
        complaints.push_back(at(file, number) + "contains " + word);
      }
    }
  }
  return complaints;
}

// A source file may leave that to its header, which it then includes first.
inline Complaints opening_complaints(const File& file) {
  const std::string root = "src/";
  if (file.text.starts_with("// ") || file.text.starts_with("/*")) return {};
  if (file.path.starts_with(root) && file.path.ends_with(".cpp")) {
    const std::string stem = file.path.substr(root.size(), file.path.size() - root.size() - 4);
    if (file.text.starts_with("#include \"" + stem + ".h\"\n")) return {};
  }
  return {file.path + ":1: a file opens with a comment that says what it promises"};
}

}  // namespace structure
