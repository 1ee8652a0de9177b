// Named wirings: one text file, one entry each. Adding a wiring is adding an entry (docs/wirings.md
// has the format).
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "addnorm/base/error.h"
#include "addnorm/formula/check.h"
#include "addnorm/formula/program.h"

namespace addnorm::formula {

struct
    InitRule {  // published initialization: role -> rule text, e.g. "v" "xavier_normal((8*L)^(-1/4))"
  std::string role;  // with "encoder." or "decoder." before it where only that stack is meant
  std::string rule;
};

struct Entry {
  std::string name;  // "deepnorm", "deepnorm/encoder", "gpas/post"
  std::vector<std::string> aliases;
  int year = 0;
  std::string title, paper, users, notes, traps, evidence;
  std::string formula;         // text as printed in papers
  std::vector<InitRule> init;  // one stack; empty where nothing is published in numbers
  // Of both stacks of a pair, complete: it takes the place of `init`. A rule without prefix holds
  // for both stacks. An entry that gives `init` alone gets it here too, where the cross_ roles
  // follow those of self-attention.
  std::vector<InitRule> pair_init;
  std::string adds;  // what it adds per layer, in words
  std::vector<std::string> closed_forms;
  std::vector<std::string> tests;  // numbers and identities to hold an implementation to
  bool needs_warmup = false;
  std::string where;  // file:line of the entry
};

class Catalogue {
 public:
  static const Catalogue& builtin();
  // Built-in entries, then those of `text`; an entry of the same name replaces. All problems of the
  // file in one Error, each with file:line. Every formula is parsed and every rule is read here.
  static Catalogue with_file(const std::string& text, const std::string& file);

  const std::vector<Entry>& entries() const { return entries_; }
  const Entry* find(const std::string& name_or_alias) const;
  std::vector<std::string> names() const;  // names and aliases

 private:
  void add(std::string_view text, const std::string& file);

  std::vector<Entry> entries_;
};

// The weights that a rule of initialization can be for, without prefixes.
const std::vector<std::string>& init_roles();
// What is wrong with a rule ("xavier_normal((8*L)^(-1/4))", "zeros"), "" if nothing is.
std::string init_rule_problem(const std::string& rule);
bool is_formula(const std::string& text);  // contains `=` outside parentheses

// What `wiring = "..."` names, for one stack. `entry` points into the catalogue.
struct Wiring {
  std::string name;  // entry used ("" for a formula of one's own)
  std::string text;  // the formula
  Program program;
  Scalars let_overrides;  // mix-ln(fraction=0.06)
  const Entry* entry = nullptr;
};
// `text` is a formula if it contains `=` outside parentheses, else a name, possibly with let values
// in parentheses (numbers, or expressions of numbers). In a pair `name/encoder` or `name/decoder` is used where it exists. An unknown name
// is an Error with the nearest one.
Wiring resolve(const std::string& text, Stack stack, const Catalogue& catalogue);

}  // namespace addnorm::formula
