#include "addnorm/model/toml_value.h"

#include <toml++/toml.h>

#include <algorithm>
#include <cmath>

#include "addnorm/base/error.h"
#include "addnorm/base/text.h"

namespace addnorm::model {
namespace {

TomlValue convert(const toml::node& node) {
  TomlValue value;
  if (const auto* boolean = node.as_boolean()) {
    value.kind = TomlValue::Kind::boolean;
    value.boolean = boolean->get();
  } else if (const auto* integer = node.as_integer()) {
    value.kind = TomlValue::Kind::integer;
    value.integer = integer->get();
    value.number = static_cast<double>(value.integer);
  } else if (const auto* number = node.as_floating_point()) {
    value.kind = TomlValue::Kind::number;
    value.number = number->get();
  } else if (const auto* text = node.as_string()) {
    value.text = text->get();
  } else if (const auto* list = node.as_array()) {
    value.kind = TomlValue::Kind::list;
    for (const toml::node& item : *list) value.items.push_back(convert(item));
  } else {
    value.kind = node.is_table() ? TomlValue::Kind::table : TomlValue::Kind::date;
  }
  return value;
}

void flatten(const toml::table& table, const std::string& prefix,
             const std::function<bool(const std::string&)>& is_section,
             std::vector<TomlEntry>* entries) {
  for (const auto& [key, node] : table) {
    const std::string path =
        prefix.empty() ? std::string(key.str()) : prefix + "." + std::string(key.str());
    const toml::table* inner = node.as_table();
    if (inner != nullptr && is_section(path)) {
      flatten(*inner, path, is_section, entries);
    } else {
      entries->push_back({path, convert(node), static_cast<int>(key.source().begin.line)});
    }
  }
}

}  // namespace

std::string TomlValue::describe() const {
  switch (kind) {
    case Kind::boolean:
      return boolean ? "true" : "false";
    case Kind::integer:
      return std::to_string(integer);
    case Kind::number:
      return shortest(number);
    case Kind::text: {
      std::string line = text.substr(0, 60);
      std::replace(line.begin(), line.end(), '\n', ' ');
      return "\"" + line + (text.size() > 60 ? "..." : "") + "\"";
    }
    case Kind::list: {
      std::vector<std::string> parts;
      parts.reserve(items.size());
      for (const TomlValue& item : items) parts.push_back(item.describe());
      if (parts.size() > 6) {
        parts.resize(5);
        parts.emplace_back("...");
      }
      return "[" + join(parts, ", ") + "]";
    }
    case Kind::table:
      return "a table";
    case Kind::date:
      return "a date or time";
  }
  return "";
}

namespace {

// The parser recurses over the parts of a dotted key; a key of thousands of them is no specification.
void check_key_depth(const std::string& text, const std::string& file) {
  constexpr int most_parts = 256;
  int line = 1, dots = 0;
  bool key = true;  // before the first '=' of the line
  for (const char c : text) {
    if (c == '\n') {
      ++line;
      dots = 0;
      key = true;
    }
    if (c == '=') key = false;
    dots += key && c == '.';
    if (dots >= most_parts) {
      fail_input(file + ":" + std::to_string(line),
                 "expected a key of at most 256 parts, got a longer one; try section.key");
    }
  }
}

}  // namespace

std::vector<TomlEntry> read_toml(const std::string& text, const std::string& file,
                                 const std::function<bool(const std::string&)>& is_section) {
  std::vector<TomlEntry> entries;
  check_key_depth(text, file);
  try {
    const toml::table table = toml::parse(text, file);
    flatten(table, "", is_section, &entries);
  } catch (const toml::parse_error& error) {
    const auto& begin = error.source().begin;
    fail_input(file + ":" + std::to_string(begin.line) + ":" + std::to_string(begin.column),
               "expected TOML, got a syntax error: " + std::string(error.description()) +
                   "; try `addnorm spec` for a valid file");
  }
  std::stable_sort(entries.begin(), entries.end(),
                   [](const TomlEntry& a, const TomlEntry& b) { return a.line < b.line; });
  return entries;
}

bool holds_table(const std::string& text,
                 const std::function<bool(const std::string&)>& is_section) {
  try {
    check_key_depth(text, "");
    const toml::table table = toml::parse(text);
    return std::any_of(table.begin(), table.end(), [&](const auto& entry) {
      return entry.second.is_table() && is_section(std::string(entry.first.str()));
    });
  } catch (const toml::parse_error&) {
    return false;
  } catch (const Error&) {
    return false;
  }
}

std::optional<TomlValue> read_toml_value(const std::string& text) {
  try {
    const toml::table table = toml::parse("v = " + text);
    if (table.size() != 1) return std::nullopt;
    return convert(*table.get("v"));
  } catch (const toml::parse_error&) {
    return std::nullopt;
  }
}

bool is_whole(double number) {
  constexpr double exact = 9007199254740992.0;  // 2^53
  return std::abs(number) <= exact && number == std::trunc(number);
}

std::string quoted(const std::string& text) {
  const bool lines = text.find('\n') != std::string::npos;
  std::string out = lines ? "\"\"\"\n" : "\"";
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (c == '\n') {
      out += '\n';
    } else if (c == '\t') {
      out += "\\t";
    } else if (byte < 0x20 || byte == 0x7F) {
      constexpr const char* digits = "0123456789ABCDEF";
      out += std::string("\\u00") + digits[byte >> 4] + digits[byte & 15];
    } else {
      out += c;
    }
  }
  return out + (lines ? "\"\"\"" : "\"");
}

}  // namespace addnorm::model
