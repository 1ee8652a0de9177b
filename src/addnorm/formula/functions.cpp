// The table of functions (design section 1, "Functions of tensors" and the table of options).
#include "addnorm/formula/functions.h"

namespace addnorm::formula {
namespace {

using Kind = OptionKind;

std::vector<Function> make() {
  const OptionRule gain{"gain", Kind::scalar, {}}, eps{"eps", Kind::scalar, {}};
  const OptionRule alpha{"alpha", Kind::scalar, {}}, shift{"shift", Kind::scalar, {}};
  const OptionRule bias{"bias", Kind::flag, {}}, affine{"affine", Kind::flag, {}};
  const OptionRule unit_offset{"unit_offset", Kind::flag, {}};
  const OptionRule inner{"inner", Kind::norm, {}};
  const std::vector<OptionRule> attention = {{"qk", Kind::norm, {}},
                                             {"qk_full", Kind::norm, {}},
                                             {"v", Kind::norm, {}},
                                             {"heads", Kind::param, {}},
                                             inner};
  std::vector<Function> all = {
      {"attn", Group::branch, 1, attention},
      {"cross", Group::branch, 1, attention},
      {"ffn", Group::branch, 1, {inner}},
      {"f", Group::branch, 1, {inner}},
      {"norm", Group::norm, 1, {}},
      {"layernorm", Group::norm, 1, {gain, bias, affine, eps, unit_offset}},
      {"rmsnorm", Group::norm, 1, {gain, affine, eps, unit_offset}},
      {"scalenorm", Group::norm, 1, {gain, affine, eps, unit_offset}},
      {"l2norm", Group::norm, 1, {eps}},
      {"dyt", Group::norm, 1, {gain, bias, alpha}},
      {"derf", Group::norm, 1, {gain, bias, alpha, shift}},
      {"linear", Group::linear, 1, {bias}},
      {"param",
       Group::param,
       1,
       {{"per", Kind::word, {"channel"}}, {"share", Kind::word, {"layer", "stack"}}}},
      {"dot", Group::dot, 2, {}},
      {"rms", Group::rms, 1, {}},
      {"drop", Group::pass, 1, {}},
      {"detach", Group::pass, 1, {}},
      {"clip", Group::clip, 3, {}},
  };
  for (const char* name : {"sigmoid", "silu", "tanh", "erf", "relu", "gelu"}) {
    all.push_back({name, Group::elementwise, 1, {}});
  }
  for (const char* name : {"abs", "sqrt", "log", "exp"}) all.push_back({name, Group::both, 1, {}});
  for (const char* name : {"min", "max"}) all.push_back({name, Group::both, 2, {}});
  for (const char* name : {"floor", "ceil"}) all.push_back({name, Group::whole, 1, {}});
  return all;
}

}  // namespace

const std::vector<Function>& functions() {
  static const std::vector<Function> all = make();
  return all;
}

const Function* find_function(const std::string& name) {
  for (const Function& function : functions()) {
    if (function.name == name) return &function;
  }
  return nullptr;
}

std::vector<std::string> function_names() {
  std::vector<std::string> names;
  for (const Function& function : functions()) names.push_back(function.name);
  return names;
}

const OptionRule* find_option(const Function& function, const std::string& name) {
  for (const OptionRule& option : function.options) {
    if (option.name == name) return &option;
  }
  return nullptr;
}

}  // namespace addnorm::formula
