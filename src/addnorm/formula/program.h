// The wiring formula as a tree: what the parser makes, the checker judges, the printer writes and
// the graph is lowered from. docs/formula.md has the grammar.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace addnorm::formula {

struct Place {  // 1-based position in the formula's text
  int line = 1;
  int column = 1;
};

struct Expr;
using ExprPtr = std::shared_ptr<const Expr>;

// name=value inside a call. A value is a word (true false channel layer stack, or a norm kind with
// its own options in `inner`) or an expression.
struct Option {
  std::string name;
  Place at;
  std::string word;           // "" if `value` is set
  std::vector<Option> inner;  // rmsnorm(eps=1e-5)
  ExprPtr value;
};

struct Expr {
  enum class Kind { number, name, negate, binary, call };
  Kind kind = Kind::number;
  Place at;                     // its first character, parentheses around it left out
  double number = 0;            // number
  std::string name;             // name; function of a call
  char op = 0;                  // binary: + - * / ^
  std::vector<ExprPtr> args;    // negate: 1, binary: 2, call: its expressions
  std::vector<Option> options;  // call

  const Option* option(const std::string& option_name) const;  // nullptr if absent
};

struct Statement {
  Place at;
  std::vector<std::string> names;
  std::vector<Place> name_places;
  std::vector<ExprPtr> values;  // as many as names once checked
};

struct Block {
  Place at;
  ExprPtr first, last;  // both null: every layer
  std::vector<Statement> body;
};

// Sections hold what the text holds; the implied `x = embed` and `out = x` are not written in.
// A statement that assigns `out` outside a section stands first in `end`.
struct Program {
  std::vector<Statement> let, begin, end;
  std::vector<Block> blocks;
};

// A formula's text to a program. All syntax errors it can find come in one Error; a finding's place
// is "formula:line:column" (parse_expression: "expression:line:column"). No expression's tree is
// deeper than 1000 levels, so recursion over it is safe. How many arguments and which options a
// function takes is left to check().
Program parse(const std::string& text);
// One expression (numbers of a specification, init rules): the same grammar.
ExprPtr parse_expression(const std::string& text);

// Text that parses to the same program (same trees; places differ).
std::string print(const Program& program);
std::string print(const Statement& statement);
std::string print(const Expr& expression);
bool same(const Program& a, const Program& b);
bool same(const Expr& a, const Expr& b);

bool is_norm_kind(const std::string& name);  // norm layernorm rmsnorm scalenorm l2norm dyt derf
bool is_branch(const std::string& name);     // attn cross ffn f
bool calls_f(const Block& block);            // a sublayer formula
// Visits every expression of a tree, outer before inner, options included, in order of the text.
void visit(const Expr& expression, const std::function<void(const Expr&)>& see);

}  // namespace addnorm::formula
