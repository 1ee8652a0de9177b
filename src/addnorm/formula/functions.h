// Every function of the language in one table: arity, options, types. The checker reads it, and the
// tests hold docs/formula.md to it.
#pragma once

#include <string>
#include <vector>

namespace addnorm::formula {

// What an option's value is.
enum class OptionKind {
  scalar,  // an expression without t
  flag,    // true or false
  norm,    // a norm kind with its options
  param,   // param(e), and nothing else
  word     // one of `words`
};

struct OptionRule {
  std::string name;
  OptionKind kind = OptionKind::scalar;
  std::vector<std::string> words;
};

enum class Group {
  branch,       // attn cross ffn f: [B,T,d] to [B,T,d]
  norm,         // [B,T,d] to [B,T,d]; `norm` itself has the options of the model's kind
  linear,       // [B,T,d] to [B,T,d]
  param,        // a scalar to [1] or [d]
  dot,          // to [B,T,1]
  rms,          // to [B,T,1]
  pass,         // drop, detach: anything but a scalar, unchanged in type
  elementwise,  // anything but a scalar, unchanged in type
  both,         // elementwise, on scalars too
  clip,         // both, with two scalar bounds
  whole         // floor, ceil: scalars only
};

struct Function {
  std::string name;
  Group group = Group::elementwise;
  int arguments = 1;
  std::vector<OptionRule> options;
};

const std::vector<Function>& functions();
const Function* find_function(const std::string& name);  // nullptr if there is none
std::vector<std::string> function_names();
const OptionRule* find_option(const Function& function, const std::string& name);

}  // namespace addnorm::formula
