#include "addnorm/formula/catalogue.h"

#include <algorithm>
#include <charconv>
#include <map>
#include <set>
#include <string_view>

#include "addnorm/base/text.h"
#include "addnorm/formula/scalar.h"

namespace addnorm::formula {

extern const std::string_view catalogue_text;  // catalogue.txt, embedded by the build

namespace {

// Keys of an entry. Those with lines keep them apart, the others are one text.
const std::vector<std::string> keys = {"from",  "aliases", "year",  "title",   "paper", "formula",
                                       "init",  "pair",    "users", "warmup",  "adds",  "notes",
                                       "traps", "closed",  "tests", "evidence"};
const std::set<std::string> keys_with_lines = {"formula", "init", "pair", "closed", "tests"};

struct RawValue {
  int line = 0;                                    // of the key
  std::vector<std::pair<int, std::string>> lines;  // with their numbers; indentation kept
};

struct RawEntry {
  int line = 0;
  std::string name;
  std::map<std::string, RawValue> values;
};

const std::set<std::string> rule_kinds = {"normal",         "trunc_normal",  "uniform",
                                          "xavier_uniform", "xavier_normal", "constant"};
const std::vector<std::string> rule_names = {"L", "S", "d", "head_dim", "ffn",
                                             "N", "M", "l", "fan_in",   "fan_out"};

bool valid_name(const std::string& name) {
  return !name.empty() && name.front() != '-' && std::all_of(name.begin(), name.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ||
           c == '_' || c == '.' || c == '/';
  });
}

std::string suggestion(const std::string& name, const std::vector<std::string>& known) {
  const std::string near = nearest(name, known);
  return near.empty() ? "" : "; try " + near;
}

// The lines without their common indentation, which is that of the grammar of this file.
std::string dedented(const RawValue& value) {
  size_t indent = std::string::npos;
  for (const auto& [line, text] : value.lines) {
    if (line != value.line) indent = std::min(indent, text.find_first_not_of(" \t"));
  }
  std::vector<std::string> lines;
  for (const auto& [line, text] : value.lines) {
    lines.push_back(line == value.line || indent == std::string::npos ? text : text.substr(indent));
  }
  return join(lines, "\n");
}

std::vector<std::string> words(const std::string& text) {
  std::vector<std::string> all;
  for (const std::string& word : split(text, ' ')) {
    if (!trim(word).empty()) all.push_back(trim(word));
  }
  return all;
}

// The cross_ role that follows a role of self-attention, "" if none does.
std::string cross_role(const std::string& role) {
  if (role == "q" || role == "k" || role == "v") return "cross_" + role;
  return role == "attn_out" ? "cross_out" : "";
}

// One file of entries.
class Reader {
 public:
  Reader(std::string_view text, std::string file) : file_(std::move(file)) { read_lines(text); }

  // Puts the entries into `entries`; throws with every problem of the file.
  void add_to(std::vector<Entry>& entries) {
    for (const RawEntry& raw : raw_) entries_.push_back(entry(raw, entries));
    for (const Entry& made : entries_) {
      const auto same_name = [&](const Entry& e) { return e.name == made.name; };
      const auto old = std::find_if(entries.begin(), entries.end(), same_name);
      if (old == entries.end()) {
        entries.push_back(made);
      } else {
        *old = made;
      }
    }
    judge_names(entries);
    if (has_errors(problems_)) {
      std::stable_sort(
          problems_.begin(), problems_.end(),
          [this](const Finding& a, const Finding& b) { return line_of(a) < line_of(b); });
      throw Error(problems_);
    }
  }

 private:
  void problem(int line, const std::string& message) {
    problems_.push_back({Level::error, place(line), message});
  }
  std::string place(int line) const { return file_ + ":" + std::to_string(line); }
  int line_of(const Finding& finding) const {
    int line = 0;
    if (finding.where.size() > file_.size()) {
      const char* begin = finding.where.data() + file_.size() + 1;
      std::from_chars(begin, finding.where.data() + finding.where.size(), line);
    }
    return line;
  }

  void read_lines(std::string_view text) {
    RawValue* value = nullptr;
    int number = 0;
    for (std::string line : split(text, '\n')) {
      ++number;
      if (!line.empty() && line.back() == '\r') line.pop_back();
      line.erase(line.find_last_not_of(" \t") + 1);
      if (line.empty() || line.front() == '#') continue;
      if (line.front() == ' ' || line.front() == '\t') {
        if (value == nullptr) {
          problem(number, "expected [name] or `key: value` before an indented line");
        } else {
          value->lines.emplace_back(number, line);
        }
      } else if (line.front() == '[') {
        read_header(number, line);
        value = nullptr;
      } else {
        value = read_key(number, line);
      }
    }
  }

  void read_header(int number, const std::string& line) {
    RawEntry& raw = raw_.emplace_back();
    raw.line = number;
    raw.name = line.back() == ']' ? trim(line.substr(1, line.size() - 2)) : "";
    if (!valid_name(raw.name)) {
      problem(number, "expected [name] of letters, digits and - _ . /, got \"" + line + "\"");
    }
  }

  RawValue* read_key(int number, const std::string& line) {
    const size_t colon = line.find(':');
    const std::string key = trim(line.substr(0, colon));
    if (colon == std::string::npos) {
      problem(number, "expected `key: value`, got \"" + line + "\"");
      return &ignored_;
    }
    if (raw_.empty()) {
      problem(number, "expected [name] before \"" + key + "\"");
      return &ignored_;
    }
    if (std::find(keys.begin(), keys.end(), key) == keys.end()) {
      problem(number, "expected a key of an entry, got \"" + key + "\"" + suggestion(key, keys));
      return &ignored_;
    }
    const auto [at, fresh] = raw_.back().values.try_emplace(key);
    if (!fresh) {
      problem(number, "expected `" + key + "` once in an entry, got it again (first in line " +
                          std::to_string(at->second.line) + ")");
      return &ignored_;
    }
    at->second.line = number;
    const std::string rest = trim(line.substr(colon + 1));
    if (!rest.empty()) at->second.lines.emplace_back(number, rest);
    return &at->second;
  }

  Entry entry(const RawEntry& raw, const std::vector<Entry>& known) {
    Entry made;
    const auto from = raw.values.find("from");
    if (from != raw.values.end()) made = inherited(from->second, known);
    made.name = raw.name;
    made.where = place(raw.line);
    for (const auto& [key, value] : raw.values) set(made, key, value);
    if (made.pair_init.empty() || (raw.values.contains("init") && !raw.values.contains("pair"))) {
      made.pair_init = made.init;
      for (const InitRule& rule : made.init) {
        const std::string cross = cross_role(rule.role);
        if (!cross.empty()) made.pair_init.push_back({cross, rule.rule});
      }
    }
    if (made.formula.empty() && valid_name(raw.name)) {
      problem(raw.line, "expected a formula in the entry " + raw.name + ", got none");
    }
    return made;
  }

  // What a variant takes from the entry it comes from; the rest is its own.
  Entry inherited(const RawValue& value, const std::vector<Entry>& known) {
    const std::string name = one_text(value);
    std::vector<std::string> names;
    Entry base;
    bool found = false;
    for (const auto* list : {&known, static_cast<const std::vector<Entry>*>(&entries_)}) {
      for (const Entry& candidate : *list) {
        names.push_back(candidate.name);
        if (candidate.name != name) continue;
        base = candidate;
        found = true;
      }
    }
    if (!found) {
      problem(value.line, "expected the name of an entry above, got \"" + name + "\"" +
                              suggestion(name, names));
    }
    base.aliases.clear();
    base.closed_forms.clear();
    base.tests.clear();
    base.formula = base.adds = base.notes = "";
    return base;
  }

  static std::string one_text(const RawValue& value) {
    std::vector<std::string> parts;
    for (const auto& [line, text] : value.lines) parts.push_back(trim(text));
    return join(parts, " ");
  }

  void set(Entry& made, const std::string& key, const RawValue& value) {
    const std::map<std::string, std::string Entry::*> texts = {
        {"title", &Entry::title},      {"paper", &Entry::paper}, {"users", &Entry::users},
        {"adds", &Entry::adds},        {"notes", &Entry::notes}, {"traps", &Entry::traps},
        {"evidence", &Entry::evidence}};
    const std::map<std::string, std::vector<std::string> Entry::*> lists = {
        {"closed", &Entry::closed_forms}, {"tests", &Entry::tests}};
    if (const auto text = texts.find(key); text != texts.end()) {
      made.*text->second = one_text(value);
    } else if (const auto list = lists.find(key); list != lists.end()) {
      for (const auto& [line, item] : value.lines) (made.*list->second).push_back(trim(item));
    } else if (key == "aliases") {
      set_aliases(made, value);
    } else if (key == "year") {
      set_year(made, value);
    } else if (key == "warmup") {
      set_warmup(made, value);
    } else if (key == "formula") {
      set_formula(made, value);
    } else if (key == "init") {
      made.init = rules(value);
    } else if (key == "pair") {
      made.pair_init = rules(value);
    }
  }

  void set_aliases(Entry& made, const RawValue& value) {
    for (const std::string& part : split(one_text(value), ',')) {
      const std::string alias = trim(part);
      if (!valid_name(alias)) {
        problem(value.line,
                "expected aliases of letters, digits and - _ . / with commas between "
                "them, got \"" +
                    alias + "\"");
      } else {
        made.aliases.push_back(alias);
      }
    }
  }

  void set_year(Entry& made, const RawValue& value) {
    const std::string text = one_text(value);
    const auto result = std::from_chars(text.data(), text.data() + text.size(), made.year);
    if (result.ec != std::errc() || result.ptr != text.data() + text.size() || made.year < 1900 ||
        made.year > 2999) {
      problem(value.line, "expected a year, got \"" + text + "\"");
    }
  }

  void set_warmup(Entry& made, const RawValue& value) {
    const std::string text = one_text(value);
    made.needs_warmup = text == "needed";
    if (text != "needed" && text != "optional") {
      problem(value.line, "expected needed or optional, got \"" + text + "\"");
    }
  }

  void set_formula(Entry& made, const RawValue& value) {
    made.formula = dedented(value);
    try {
      (void)parse(made.formula);
    } catch (const Error& error) {
      for (Finding finding : error.findings()) {
        // "formula:2:7" is the second of these lines.
        const std::vector<std::string> parts = split(finding.where, ':');
        size_t line = 1;
        if (parts.size() == 3)
          std::from_chars(parts[1].data(), parts[1].data() + parts[1].size(), line);
        line = std::clamp<size_t>(line, 1, std::max<size_t>(value.lines.size(), 1));
        problem(value.lines.empty() ? value.line : value.lines[line - 1].first,
                finding.message + " (" + finding.where + ")");
      }
    }
  }

  std::vector<InitRule> rules(const RawValue& value) {
    std::vector<InitRule> all;
    std::set<std::string> seen;
    for (const auto& [line, text] : value.lines) {
      const size_t equals = text.find('=');
      if (equals == std::string::npos) {
        problem(line, "expected `roles = rule`, got \"" + trim(text) + "\"");
        continue;
      }
      const std::string rule = trim(text.substr(equals + 1));
      const std::string wrong = init_rule_problem(rule);
      if (!wrong.empty()) problem(line, wrong);
      for (const std::string& role : words(text.substr(0, equals))) {
        std::string bare = role;
        for (const std::string prefix : {"encoder.", "decoder."}) {
          if (role.starts_with(prefix)) bare = role.substr(prefix.size());
        }
        const auto& known = init_roles();
        if (std::find(known.begin(), known.end(), bare) == known.end()) {
          problem(line, "expected a role, got \"" + role + "\"" + suggestion(bare, known));
        } else if (!seen.insert(role).second) {
          problem(line, "expected one rule for " + role + ", got a second one");
        } else {
          all.push_back({role, rule});
        }
      }
    }
    return all;
  }

  // Names and aliases are one space.
  void judge_names(const std::vector<Entry>& entries) {
    std::map<std::string, int> own;
    for (const RawEntry& raw : raw_) {
      const auto [at, fresh] = own.emplace(raw.name, raw.line);
      if (!fresh) {
        problem(raw.line, "expected each name once, got " + raw.name + " again (first in line " +
                              std::to_string(at->second) + ")");
      }
    }
    std::map<std::string, const Entry*> owner;
    for (const Entry& e : entries) owner.emplace(e.name, &e);
    for (const Entry& e : entries) {
      for (const std::string& alias : e.aliases) {
        const auto [at, fresh] = owner.emplace(alias, &e);
        if (fresh) continue;
        const bool mine = e.where.starts_with(file_ + ":");
        const Entry& told = mine ? e : *at->second;
        const Entry& other = mine ? *at->second : e;
        problems_.push_back({Level::error, told.where,
                             "expected each name and alias once, got " + alias +
                                 ", which stands at " + other.where + " too; try another name"});
      }
    }
  }

  std::string file_;
  std::vector<RawEntry> raw_;
  std::vector<Entry> entries_;  // of this file, as far as made
  RawValue ignored_;            // where the lines of a refused key go
  Findings problems_;
};

}  // namespace

const std::vector<std::string>& init_roles() {
  static const std::vector<std::string> roles = {
      "embed",     "positions", "q",       "k",       "v",       "attn_out",
      "ffn_in",    "ffn_gate",  "ffn_out", "cross_q", "cross_k", "cross_v",
      "cross_out", "head",      "linear",  "norm",    "param"};
  return roles;
}

std::string init_rule_problem(const std::string& rule) {
  const std::string expected =
      "expected a rule such as normal(0.02), xavier_uniform(1) or zeros, got \"" + rule + "\"";
  ExprPtr tree;
  try {
    tree = parse_expression(rule);
  } catch (const Error& error) {
    return expected + ": " +
           (error.findings().empty() ? error.what() : error.findings()[0].message);
  }
  if (tree->kind == Expr::Kind::name && tree->name == "zeros") return "";
  if (tree->kind != Expr::Kind::call || tree->args.size() != 1 || !tree->options.empty() ||
      !rule_kinds.contains(tree->name)) {
    const std::vector<std::string> kinds(rule_kinds.begin(), rule_kinds.end());
    const bool named = tree->kind == Expr::Kind::call || tree->kind == Expr::Kind::name;
    return expected + (named ? suggestion(tree->name, kinds) : "");
  }
  std::string problem;
  visit(*tree->args[0], [&](const Expr& e) {
    if (!problem.empty()) return;
    const bool known = std::find(rule_names.begin(), rule_names.end(), e.name) != rule_names.end();
    if (e.kind == Expr::Kind::name && !known) {
      problem = "expected one of " + join(rule_names, " ") + " in a rule, got \"" + e.name + "\"" +
                suggestion(e.name, rule_names);
    } else if (e.kind == Expr::Kind::call && (!is_scalar_function(e.name) || !e.options.empty())) {
      problem = "expected a function of numbers in a rule, got \"" + e.name + "\"";
    }
  });
  return problem;
}

const Catalogue& Catalogue::builtin() {
  static const Catalogue catalogue = [] {
    Catalogue made;
    made.add(catalogue_text, "catalogue.txt");
    return made;
  }();
  return catalogue;
}

Catalogue Catalogue::with_file(const std::string& text, const std::string& file) {
  Catalogue made = builtin();
  made.add(text, file);
  return made;
}

void Catalogue::add(std::string_view text, const std::string& file) {
  Reader(text, file).add_to(entries_);
}

const Entry* Catalogue::find(const std::string& name_or_alias) const {
  for (const Entry& entry : entries_) {
    if (entry.name == name_or_alias) return &entry;
  }
  for (const Entry& entry : entries_) {
    if (std::find(entry.aliases.begin(), entry.aliases.end(), name_or_alias) !=
        entry.aliases.end()) {
      return &entry;
    }
  }
  return nullptr;
}

std::vector<std::string> Catalogue::names() const {
  std::vector<std::string> all;
  for (const Entry& entry : entries_) {
    all.push_back(entry.name);
    all.insert(all.end(), entry.aliases.begin(), entry.aliases.end());
  }
  return all;
}

}  // namespace addnorm::formula
