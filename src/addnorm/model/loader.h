// From TOML and flags to a Specification whose every value has been judged alone; collects all
// problems with their places. What several keys mean together is judged by judge.cpp and
// wirings.cpp.
#pragma once

#include <map>
#include <set>
#include <string>
#include <vector>

#include "addnorm/model/keys.h"
#include "addnorm/model/specification.h"

namespace addnorm::model {

class Loader {
 public:
  Loader(std::string file, Needs needs, const formula::Catalogue& catalogue);

  void take_file(const std::string& toml);
  void take_overrides(const Overrides& overrides);
  // Where the values of the file came from, of a file that says so.
  void take_sources(std::map<std::string, Source> sources) { sources_ = std::move(sources); }
  bool of_a_run() const { return !sources_.empty(); }
  // Judges every value, writes it or its default. With `listing`, required keys that are absent take
  // the value of `addnorm spec`.
  void write(bool listing);

  bool given(const std::string& path) const { return given_.contains(path); }
  bool from_flag(const std::string& path) const;
  // Has a value that is usable.
  bool good(const std::string& path) const { return !bad_.contains(path); }
  void drop(const std::string& path) { given_.erase(path); }
  const std::map<std::string, TomlEntry>& entries() const { return given_; }

  void problem(const std::string& path, const std::string& message);
  void note(Level level, const std::string& path, const std::string& message);
  // Findings about the formula in `path`; their places are added to the key's.
  void adopt(const std::string& path, const Findings& findings);
  std::string place(const std::string& path) const;
  // Whether the user set this key to something other than its default.
  bool set_otherwise(const std::string& path) const;

  // Errors in the order of the file, then of the flags, in one Error; else warnings are kept.
  Specification finish();
  bool has_problems() const { return has_errors_; }

  Specification spec;
  const Needs needs;
  const formula::Catalogue& catalogue;

 private:
  struct Noted {
    int order;
    Finding finding;
  };
  int order(const std::string& path) const;
  Source source_of(const std::string& path) const;
  bool is_required(const Key& key) const;
  void missing(const Key& key);

  std::string file_;
  std::map<std::string, TomlEntry> given_;  // by path
  std::map<std::string, Source> sources_;
  std::set<std::string> flags_;
  std::set<std::string> bad_;
  std::vector<Noted> noted_;
  bool has_errors_ = false;
};

void judge_together(Loader* loader);   // judge.cpp: dependent defaults, cross-key checks
void resolve_wirings(Loader* loader);  // wirings.cpp: formulas, published initialization, programs

}  // namespace addnorm::model
