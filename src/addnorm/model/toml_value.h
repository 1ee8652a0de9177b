// TOML as a flat list of keys with their lines, in the order of the file. The TOML library stays
// behind this header.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace addnorm::model {

struct TomlValue {
  enum class Kind { boolean, integer, number, text, list, table, date };
  Kind kind = Kind::text;
  bool boolean = false;
  int64_t integer = 0;
  double number = 0;  // of an integer too
  std::string text;
  std::vector<TomlValue> items;

  bool is_number() const { return kind == Kind::integer || kind == Kind::number; }
  std::string describe() const;  // as it reads in a message: 12, "abc", a table
};

struct TomlEntry {
  std::string path;  // "train.lr"; quoted keys with dots join the path like others
  TomlValue value;
  int line = 0;
};

// Every value of the text. Tables for which `is_section(path)` holds are entered and not listed;
// another table is one entry of kind `table`. A text that is not TOML is an Error with its place.
std::vector<TomlEntry> read_toml(const std::string& text, const std::string& file,
                                 const std::function<bool(const std::string&)>& is_section);

// Whether the text is TOML with a table of the specification ("[model]", "data.source = ..").
bool holds_table(const std::string& text,
                 const std::function<bool(const std::string&)>& is_section);

// The one value that `text` is ("12", "[1, 2]", "\"a\""); nullopt where it is none.
std::optional<TomlValue> read_toml_value(const std::string& text);

// A whole number that a double holds exactly.
bool is_whole(double number);

std::string quoted(
    const std::string& text);  // a TOML string, over several lines where it has several

}  // namespace addnorm::model
