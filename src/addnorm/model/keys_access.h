// How a key's value gets into a Specification and out again as TOML text.
#pragma once

#include <string>
#include <type_traits>
#include <vector>

#include "addnorm/base/text.h"
#include "addnorm/model/keys.h"

namespace addnorm::model {

void add_model_keys(std::vector<Key>* to);  // key_list_model.cpp

// A number where the text is one, a quoted text elsewhere.
inline std::string number_or_quoted(const std::string& text) {
  const auto value = read_toml_value(text);
  return value && value->is_number() ? text : quoted(text);
}

inline std::string toml_number(double value) { return shortest(value); }

inline std::string toml_list(const std::vector<std::string>& texts) {
  std::vector<std::string> parts;
  parts.reserve(texts.size());
  for (const std::string& text : texts) parts.push_back(quoted(text));
  return "[" + join(parts, ", ") + "]";
}

template <class T>
void store(const TomlValue& value, T* to) {
  if constexpr (std::is_same_v<T, bool>) {
    *to = value.boolean;
  } else if constexpr (std::is_integral_v<T>) {
    *to = static_cast<T>(value.integer);
  } else if constexpr (std::is_same_v<T, std::string>) {
    *to = value.kind == TomlValue::Kind::text ? value.text : value.describe();
  } else if constexpr (std::is_same_v<T, std::vector<std::string>>) {
    to->clear();
    if (value.kind == TomlValue::Kind::boolean) {
      if (value.boolean) *to = linear_roles();
    } else if (value.kind == TomlValue::Kind::text) {
      to->push_back(value.text);
    } else {
      for (const TomlValue& item : value.items) to->push_back(item.text);
    }
  } else {
    *to = value.number;
  }
}

template <class T>
std::string fetch(const T& from, const Key& key) {
  if constexpr (std::is_same_v<T, bool>) {
    return from ? "true" : "false";
  } else if constexpr (std::is_integral_v<T>) {
    return static_cast<double>(from) < key.low ? "" : std::to_string(from);
  } else if constexpr (std::is_same_v<T, double>) {
    return toml_number(from);
  } else if constexpr (std::is_same_v<T, std::optional<double>>) {
    return from ? toml_number(*from) : "";
  } else if constexpr (std::is_same_v<T, std::vector<std::string>>) {
    if (key.type != KeyType::roles) return from.empty() ? "" : toml_list(from);
    return from.empty() ? "false" : from == linear_roles() ? "true" : toml_list(from);
  } else {
    if (from.empty()) return "";
    return key.type == KeyType::text ? quoted(from) : number_or_quoted(from);
  }
}

// Completes `key` with access to one member of one section.
template <class Section, class T>
Key bound(Key key, Section Specification::* section, T Section::* member) {
  key.write = [=](Specification& to, const TomlValue& value, const std::string&) {
    store(value, &(to.*section.*member));
  };
  key.read = [section, member, plain = key](const Specification& from) {
    return fetch(from.*section.*member, plain);
  };
  return key;
}

}  // namespace addnorm::model
