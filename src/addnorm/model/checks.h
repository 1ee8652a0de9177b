// What the files of the static checks share.
#pragma once

#include <map>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "addnorm/model/paths.h"
#include "addnorm/model/static_checks.h"

namespace addnorm::model {

// A statement of a program and its text.
struct StatementText {
  formula::Place at;
  std::string text;
};
std::vector<StatementText> statements_of(const formula::Program& program);  // in order of the text

// One stack under check, and where its findings go: each once, however many layers show it.
class StackCheck {
 public:
  StackCheck(const Specification& spec, const graph::ModelShape& sizes, const graph::Graph& whole,
             const std::vector<InitRule>& all_rules, const Paths& all_paths,
             const graph::Stack& one, Findings* to);

  void add(Level level, const formula::Place& at,
           const std::string& message);  // at line 0: the key
  // "`x = norm(x + f(x))`", of the statement that holds a place.
  std::string statement(const formula::Place& at) const;
  bool owns(int node) const { return node >= first_node && node < end_node; }

  const Specification& specification;
  const graph::ModelShape& shape;
  const graph::Graph& graph;
  const std::vector<InitRule>& rules;
  const Paths& paths;
  const graph::Stack& stack;
  const formula::Program& program;
  std::vector<graph::Branch> branches;
  int first_node = 0, end_node = 0;  // of the stack, embedding included

 private:
  std::string key_;
  std::vector<StatementText> statements_;
  std::set<std::tuple<int, int, std::string>> said_;
  Findings* to_;
};

void check_paths(StackCheck* check);    // bare paths, residuals, dead statements
void check_factors(StackCheck* check);  // cancelled and zero factors, norms over 0
void check_depth(StackCheck* check);    // depth scaled twice, DeepNorm's factor and its rules

}  // namespace addnorm::model
