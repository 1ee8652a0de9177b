#include "addnorm/model/loader.h"

#include <algorithm>
#include <charconv>
#include <climits>

#include "addnorm/base/text.h"
#include "addnorm/model/keys_access.h"

namespace addnorm::model {
namespace {

constexpr int after_the_file = INT_MAX / 2;

bool is_quoted(const std::string& text) { return text.starts_with('"') || text.starts_with('\''); }

TomlValue plain(const std::string& text) {
  TomlValue value;
  value.text = text;
  return value;
}

// A flag's text as a value. Formulas, names and files are taken as they are; what can be a number,
// a truth value or a list is read as TOML.
TomlValue flag_value(const Key& key, const std::string& text) {
  const auto value = read_toml_value(text);
  switch (key.type) {
    case KeyType::text:
    case KeyType::rule:
      return value && is_quoted(text) && value->kind == TomlValue::Kind::text ? *value
                                                                              : plain(text);
    case KeyType::texts:
      return value && (text.starts_with('[') || is_quoted(text)) ? *value : plain(text);
    case KeyType::roles: {
      if (value) return *value;
      TomlValue list;
      list.kind = TomlValue::Kind::list;
      for (const std::string& role : split(text, ',')) list.items.push_back(plain(trim(role)));
      return list;
    }
    case KeyType::number: {
      if (value) return *value;
      TomlValue number;
      number.kind = TomlValue::Kind::number;
      const auto end = text.data() + text.size();
      const auto read = std::from_chars(text.data(), end, number.number);
      return read.ec == std::errc{} && read.ptr == end ? number : plain(text);
    }
    case KeyType::integer:
    case KeyType::count_or_share: {
      if (!value || value->kind != TomlValue::Kind::number) break;
      const bool exponent = text.find_first_of("eE") != std::string::npos;
      if (!exponent || !is_whole(value->number)) break;  // 1e3, but not 1000.0
      TomlValue whole = *value;
      whole.kind = TomlValue::Kind::integer;
      whole.integer = static_cast<int64_t>(value->number);
      return whole;
    }
    default:
      break;
  }
  return value ? *value : plain(text);
}

}  // namespace

Loader::Loader(std::string file, Needs needs_, const formula::Catalogue& catalogue_)
    : needs(needs_), catalogue(catalogue_), file_(std::move(file)) {
  spec.file = file_;
}

void Loader::take_file(const std::string& toml) {
  const std::string name = file_.empty() ? "specification" : file_;
  for (TomlEntry& entry : read_toml(toml, name, is_section)) {
    const std::string& path = entry.path;
    const std::string where = name + ":" + std::to_string(entry.line) + ": " + path;
    if (find_key(path) == nullptr) {
      const bool section = entry.value.kind == TomlValue::Kind::table;
      std::string hint = nearest_key(path);
      if (section) {
        const std::string near = nearest(path, sections());
        if (!near.empty()) hint = "; try `[" + near + "]`";
      }
      noted_.push_back(
          {entry.line,
           {Level::error, where,
            section ? "expected a section or key of the specification, got the unknown "
                      "table `" +
                          path + "`" + hint
                    : "expected a key of the specification, got the unknown key `" + path + "`" +
                          hint}});
      has_errors_ = true;
    } else if (!given_.emplace(path, entry).second) {
      noted_.push_back({entry.line, {Level::error, where, "expected each key once, got it twice"}});
      has_errors_ = true;
    }
  }
}

void Loader::take_overrides(const Overrides& overrides) {
  int number = 0;
  for (const auto& [path, text] : overrides) {
    const Key* key = find_key(path);
    const int at = after_the_file + ++number;
    if (key == nullptr) {
      noted_.push_back({at,
                        {Level::error, "--" + path,
                         "expected a key of the specification, got the unknown key `" + path + "`" +
                             nearest_key(path)}});
      has_errors_ = true;
      continue;
    }
    given_[path] = {path, flag_value(*key, text), at};
    flags_.insert(path);
  }
  // A wiring named by a flag replaces what the file says of the same stacks.
  if (from_flag("model.wiring")) {
    for (const char* stack : {"model.encoder_wiring", "model.decoder_wiring"}) {
      if (!from_flag(stack)) given_.erase(stack);
    }
  }
  for (const std::string stack : {"model.", "model.encoder_", "model.decoder_"}) {
    const bool renamed = from_flag(stack + "wiring") || from_flag("model.wiring");
    if (renamed && !from_flag(stack + "wiring_name")) given_.erase(stack + "wiring_name");
  }
}

bool Loader::from_flag(const std::string& path) const { return flags_.contains(path); }

Source Loader::source_of(const std::string& path) const {
  if (from_flag(path)) return Source::flag;
  const auto found = sources_.find(path);
  return found == sources_.end() ? Source::file : found->second;
}

int Loader::order(const std::string& path) const {
  const auto found = given_.find(path);
  return found == given_.end() ? after_the_file : found->second.line;
}

std::string Loader::place(const std::string& path) const {
  if (from_flag(path)) return "--" + path;
  const std::string name = file_.empty() ? "specification" : file_;
  const auto found = given_.find(path);
  if (found == given_.end()) return name + ": " + path;
  return name + ":" + std::to_string(found->second.line) + ": " + path;
}

void Loader::note(Level level, const std::string& path, const std::string& message) {
  noted_.push_back({order(path), {level, place(path), message}});
  has_errors_ = has_errors_ || level == Level::error;
}

void Loader::problem(const std::string& path, const std::string& message) {
  note(Level::error, path, message);
  bad_.insert(path);
}

void Loader::adopt(const std::string& path, const Findings& findings) {
  for (const Finding& finding : findings) {
    std::string where = finding.where;
    if (where.starts_with("formula")) where = where.substr(std::min(where.size(), size_t{8}));
    if (!where.empty()) where = ":" + where;
    noted_.push_back({order(path), {finding.level, place(path) + where, finding.message}});
    if (finding.level != Level::error) continue;
    has_errors_ = true;
    bad_.insert(path);
  }
}

bool Loader::set_otherwise(const std::string& path) const {
  if (!given(path) || !good(path)) return false;
  const Key* key = find_key(path);
  if (key->standard.empty()) return true;
  Specification standard;  // compared as written out: 1e-8 and 0.00000001 are the same
  key->write(standard, *read_toml_value(key->standard), path);
  return key->read(spec) != key->read(standard);
}

bool Loader::is_required(const Key& key) const {
  const bool pair = spec.model.kind == "encoder-decoder";
  switch (key.required) {
    case Required::never:
      return false;
    case Required::always:
      return true;
    case Required::single:
      return !pair;
    case Required::pair:
      return pair;
    case Required::bare:
      return false;  // judge.cpp: the tokenizer may decide it
    case Required::training:
      return needs == Needs::training;
    case Required::wiring:
      return !(given("model.encoder_wiring") && given("model.decoder_wiring"));
  }
  return false;
}

void Loader::missing(const Key& key) {
  problem(key.path, "expected " + key.expected() + ", got nothing: the key is required; try `" +
                        key.name() + " = " + key.listing + "` under [" + key.section() + "]");
}

void Loader::write(bool listing) {
  for (const Key& key : keys()) {
    // Init roles may stand here for one stack too.
    std::vector<std::string> paths = {key.path};
    if (key.section() == "init" && key.path != "init.default") {
      paths.push_back("init.encoder." + key.name());
      paths.push_back("init.decoder." + key.name());
    }
    for (const std::string& path : paths) {
      const auto found = given_.find(path);
      if (found == given_.end()) continue;
      const std::string wrong = key.judge(found->second.value);
      if (!wrong.empty()) {
        problem(path, wrong);
        continue;
      }
      key.write(spec, found->second.value, path);
      spec.sources[path] = source_of(path);
    }
    if (given_.contains(key.path)) continue;
    std::string standard = key.standard;
    if (is_required(key)) {
      if (!listing) {
        missing(key);
        continue;
      }
      standard = key.listing;
    }
    if (standard.empty()) continue;
    key.write(spec, *read_toml_value(standard), key.path);
    spec.sources[key.path] = Source::default_value;
  }
}

Specification Loader::finish() {
  std::stable_sort(noted_.begin(), noted_.end(),
                   [](const Noted& a, const Noted& b) { return a.order < b.order; });
  Findings errors;
  for (const Noted& noted : noted_) {
    (noted.finding.level == Level::error ? errors : spec.findings).push_back(noted.finding);
  }
  if (!errors.empty()) throw Error(errors);
  return std::move(spec);
}

}  // namespace addnorm::model
