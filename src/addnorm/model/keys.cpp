#include "addnorm/model/keys.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <type_traits>

#include "addnorm/base/text.h"
#include "addnorm/formula/program.h"
#include "addnorm/model/init_rule.h"
#include "addnorm/model/keys_access.h"

namespace addnorm::model {
namespace {

std::string bounds(const Key& key) {
  std::string text;
  if (std::isfinite(key.low))
    text += (key.low_open ? " above " : " of at least ") + shortest(key.low);
  if (std::isfinite(key.high)) {
    text += (text.empty() ? "" : " and") + std::string(key.high_open ? " below " : " of at most ") +
            shortest(key.high);
  }
  return text;
}

bool in_range(const Key& key, double value) {
  return std::isfinite(value) && (key.low_open ? value > key.low : value >= key.low) &&
         (key.high_open ? value < key.high : value <= key.high);
}

bool is_word(const Key& key, const std::string& text) {
  return std::find(key.words.begin(), key.words.end(), text) != key.words.end();
}

bool is_share(const std::string& text) {
  if (text.size() < 2 || text.back() != '%') return false;
  const auto value = read_toml_value(text.substr(0, text.size() - 1));
  return value && value->is_number() && value->number >= 0 && value->number <= 100;
}

bool is_expression(const std::string& text) {
  try {
    return formula::parse_expression(text) != nullptr;
  } catch (const Error&) {
    return false;
  }
}

bool is_list_of(const TomlValue& value, const std::function<bool(const std::string&)>& accept) {
  return value.kind == TomlValue::Kind::list &&
         std::all_of(value.items.begin(), value.items.end(), [&](const TomlValue& item) {
           return item.kind == TomlValue::Kind::text && accept(item.text);
         });
}

}  // namespace

std::string Key::default_text() const {
  if (!otherwise.empty()) return otherwise;
  if (required == Required::always || required == Required::training) return "required";
  if (required == Required::wiring) return "required";
  if (required == Required::single) return "required for a single stack";
  if (required == Required::pair) return "required for encoder-decoder";
  return standard;
}

std::string Key::expected() const {
  const std::string choice = words.empty() ? "" : "one of " + join(words, " ");
  switch (type) {
    case KeyType::boolean:
      return "true or false";
    case KeyType::integer:
      return "a whole number" + bounds(*this);
    case KeyType::number:
      return "a number" + bounds(*this);
    case KeyType::text:
      return choice.empty() ? "a text in quotes" : choice;
    case KeyType::expression:
      return "a number or an expression in quotes";
    case KeyType::texts:
      return "a text in quotes or a list of them";
    case KeyType::roles:
      return "true, false or a list of roles, each " + choice;
    case KeyType::count_or_share:
      return "a whole number of at least 0, or a share such as \"5%\"";
    case KeyType::share_or_file:
      return "a share" + bounds(*this) + ", or a file in quotes";
    case KeyType::rule:
      return "an initialization rule in quotes";
  }
  return "";
}

std::string Key::judge(const TomlValue& value) const {
  using Kind = TomlValue::Kind;
  const bool text = value.kind == Kind::text;
  bool good = false;
  switch (type) {
    case KeyType::boolean:
      good = value.kind == Kind::boolean;
      break;
    case KeyType::integer:
      good = value.kind == Kind::integer && in_range(*this, value.number);
      break;
    case KeyType::number:
      good = value.is_number() && in_range(*this, value.number);
      break;
    case KeyType::text:
      good = text && !trim(value.text).empty() && (words.empty() || is_word(*this, value.text));
      break;
    case KeyType::expression:
      good =
          (value.is_number() && std::isfinite(value.number)) || (text && is_expression(value.text));
      break;
    case KeyType::texts:
      good = (text && !value.text.empty()) ||
             (!value.items.empty() &&
              is_list_of(value, [](const std::string& t) { return !t.empty(); }));
      break;
    case KeyType::roles:
      good = value.kind == Kind::boolean ||
             is_list_of(value, [&](const std::string& role) { return is_word(*this, role); });
      break;
    case KeyType::count_or_share:
      good = (value.kind == Kind::integer && value.integer >= 0) || (text && is_share(value.text));
      break;
    case KeyType::share_or_file:
      good = (text && !value.text.empty()) || (value.is_number() && in_range(*this, value.number));
      break;
    case KeyType::rule:
      if (!text) break;
      try {
        parse_rule(value.text);
        return "";
      } catch (const Error& error) {
        return error.what();
      }
  }
  if (good) return "";
  const std::string what = expected(), got = value.describe();
  if (path.ends_with("wiring") && text && trim(value.text).empty()) {
    return "expected a wiring, got an empty text; try a name that `addnorm wirings` lists, or a "
           "formula such as \"x = norm(x + f(x))\"";
  }
  if (text && value.text.empty()) return "expected " + what + ", got an empty one";
  if (value.is_number() && !std::isfinite(value.number)) {
    const bool number = what.starts_with("a number");
    return "expected " + (number ? "a finite" + what.substr(1) : what + ", finite") + ", got " +
           got;
  }
  const bool counts = type == KeyType::integer || type == KeyType::count_or_share;
  if (counts && value.kind == Kind::number && is_whole(value.number)) {
    const std::string plain = std::to_string(static_cast<int64_t>(value.number));
    return "expected " + what + ", got " + plain + " with a decimal point or an exponent; try " +
           plain;
  }
  const std::string hint = text && !words.empty() ? nearest(value.text, words) : "";
  return "expected " + what + ", got " + got + (hint.empty() ? "" : "; try \"" + hint + "\"");
}

namespace {

const std::map<std::string, const Key*>& index() {
  static const std::map<std::string, const Key*> by_path = [] {
    std::map<std::string, const Key*> map;
    for (const Key& key : keys()) map[key.path] = &key;
    return map;
  }();
  return by_path;
}

}  // namespace

const Key* find_key(const std::string& path) {
  std::string plain = path;
  for (const char* stack : {"init.encoder.", "init.decoder."}) {
    const std::string prefix = stack;
    if (path.starts_with(prefix)) plain = "init." + path.substr(prefix.size());
  }
  if (plain != path && plain == "init.default") return nullptr;
  const auto found = index().find(plain);
  return found == index().end() ? nullptr : found->second;
}

std::string nearest_key(const std::string& path) {
  const std::string name = path.substr(path.rfind('.') + 1);
  std::string best;
  // The same name in another section is nearer than another name in this one.
  for (const Key& key : keys()) {
    if (best.empty() && key.name() == name) best = key.path;
  }
  if (best.empty()) {
    const std::string section =
        path.substr(0, path.size() - std::min(path.size(), name.size() + 1));
    std::vector<std::string> here, all;
    for (const Key& key : keys()) {
      if (key.section() == section) here.push_back(key.name());
      all.push_back(key.name());
    }
    if (const std::string near = nearest(name, here); !near.empty()) {
      best = section + "." + near;
    } else if (const std::string far = nearest(name, all); !far.empty()) {
      for (const Key& key : keys()) {
        if (best.empty() && key.name() == far) best = key.path;
      }
    }
  }
  if (best.empty()) return "";
  return "; try `[" + best.substr(0, best.rfind('.')) + "] " + best.substr(best.rfind('.') + 1) +
         "`";
}

const std::vector<std::string>& sections() {
  static const std::vector<std::string> all = {"model", "init",           "data",
                                               "train", "train.lr_scale", "train.decay"};
  return all;
}

bool is_section(const std::string& path) {
  return std::find(sections().begin(), sections().end(), path) != sections().end() ||
         path == "init.encoder" || path == "init.decoder";
}

}  // namespace addnorm::model
