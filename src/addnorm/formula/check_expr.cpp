// Types, arity, options and scalar values of expressions.
#include "addnorm/formula/check_expr.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "addnorm/base/text.h"
#include "addnorm/formula/scalar.h"

namespace addnorm::formula {
namespace {

std::string cut(const std::string& text) {
  return text.size() <= 60 ? text : text.substr(0, 60) + "..";
}

std::string lower(std::string text) {
  for (char& c : text) c = c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  return text;
}

// The nearest name as a hint; to a short name nearly everything is near, so it must look alike.
std::string try_near(const std::string& name, const std::vector<std::string>& candidates) {
  for (const std::string& candidate : candidates) {
    if (lower(candidate) == lower(name)) return fmt::format("; try `{}`", candidate);
  }
  const std::string near = nearest(name, candidates);
  const bool alike = name.size() > 3 || (name.size() == 3 && !near.empty() && near[0] == name[0]);
  return near.empty() || !alike ? "" : fmt::format("; try `{}`", near);
}

bool is_word(const std::string& name) {
  return name == "true" || name == "false" || name == "channel" || name == "layer" ||
         name == "stack";
}

template <class T>
class Restore {
 public:
  Restore(T& target, T value) : target_(target), saved_(std::move(target)) {
    target_ = std::move(value);
  }
  ~Restore() { target_ = std::move(saved_); }
  Restore(const Restore&) = delete;
  Restore& operator=(const Restore&) = delete;

 private:
  T& target_;
  T saved_;
};

}  // namespace

std::string type_name(Type type) {
  switch (type) {
    case Type::bad:
      return "a value with a mistake";
    case Type::scalar:
      return "a scalar";
    case Type::number:
      return "a number [1]";
    case Type::vector:
      return "a vector [d]";
    case Type::token:
      return "a number per token [B,T,1]";
    case Type::tensor:
      return "a tensor [B,T,d]";
  }
  return "";
}

Type broadcast(Type a, Type b) {
  if (a == Type::bad || b == Type::bad) return Type::bad;
  if ((a == Type::vector && b == Type::token) || (a == Type::token && b == Type::vector)) {
    return Type::tensor;
  }
  return std::max(a, b);
}

Value Evaluator::evaluate(const Expr& expression, const Scope& scope) {
  scope_ = &scope;
  infinity_allowed_ = false;
  without_t_.clear();
  return eval(expression);
}

Value Evaluator::scalar(const Expr& expression, const Scope& scope, const std::string& what) {
  scope_ = &scope;
  infinity_allowed_ = false;
  without_t_.clear();
  return scalar_without_t(expression, what);
}

Value Evaluator::eval(const Expr& e) {
  switch (e.kind) {
    case Expr::Kind::number:
      return Value::scalar(e.number);
    case Expr::Kind::name:
      return name(e);
    case Expr::Kind::negate:
      return negate(e);
    case Expr::Kind::binary:
      return binary(e);
    case Expr::Kind::call:
      return call(e);
  }
  return {};
}

Value Evaluator::eval_allowing_infinity(const Expr& e) {
  const Restore<bool> restore(infinity_allowed_, true);
  return eval(e);
}

Value Evaluator::scalar_without_t(const Expr& e, const std::string& what) {
  const Restore<std::string> restore(without_t_, what);
  const Restore<bool> strict(infinity_allowed_, false);
  Value value = eval(e);
  if (!need(value, Type::scalar, e, what)) value = {};
  return value;
}

bool Evaluator::need(const Value& value, Type type, const Expr& e, const std::string& what) {
  if (value.type == type) return true;
  if (value.type != Type::bad) {
    error(e.at, "type",
          fmt::format("expected {} {}, got {}", type_name(type), what, type_name(value.type)));
  }
  return false;
}

std::string Evaluator::resolved(const Expr& expression, const Scope& scope, bool at_end) const {
  std::vector<std::string> parts;
  std::set<std::string> seen;
  visit(expression, [&](const Expr& e) {
    if (e.kind != Expr::Kind::name || !seen.insert(e.name).second) return;
    const auto fixed = stack_scalars.find(e.name);
    const auto named = scope.names.find(e.name);
    if (fixed != stack_scalars.end()) {
      parts.push_back(e.name + " = " + shortest(fixed->second));
    } else if (e.name == "l") {
      parts.push_back(fmt::format("l = {}", scope.layer));
    } else if (e.name == "s") {
      parts.push_back(fmt::format("s = {}", scope.instance));
    } else if (e.name == "t") {
      parts.push_back(at_end ? "t = inf" : "t = 1");
    } else if (named != scope.names.end() && named->second.known) {
      parts.push_back(e.name + " = " + shortest(at_end ? named->second.last : named->second.first));
    }
  });
  std::string text;
  if (!parts.empty()) text += " at " + join(parts, ", ");
  if (scope.section == Section::block) text += fmt::format(" in layer {}", scope.layer);
  return text;
}

// A scalar that is not finite is a mistake; infinity is none inside clip, min, max and a divisor.
Value Evaluator::judged(Value value, const Expr& e) {
  if (value.type != Type::scalar || !value.known) return value;
  const auto fine = [&](double v) {
    return std::isfinite(v) || (infinity_allowed_ && std::isinf(v));
  };
  const bool first = fine(value.first);
  if (first && fine(value.last)) return value;
  value.known = false;
  if (!scope_->exists) return value;
  const double shown = first ? value.last : value.first;
  error(e.at, "finite",
        fmt::format("expected a finite number, got `{}` = {}{}{}", cut(print(e)), shortest(shown),
                    resolved(e, *scope_, first),
                    first && std::isinf(shown) ? "; try `clip` or `min` around it" : ""));
  return value;
}

void Evaluator::divisor_not_zero(const Value& divisor, const Expr& e) {
  if (divisor.type != Type::scalar || !divisor.known || !scope_->exists) return;
  if (divisor.first != 0 && divisor.last != 0) return;
  error(e.at, "zero",
        fmt::format("expected a divisor other than zero, got `{}` = 0{}", cut(print(e)),
                    resolved(e, *scope_, divisor.first != 0)));
}

Value Evaluator::name(const Expr& e) {
  const std::string& id = e.name;
  if (id == "L" || id == "N" || id == "M" || id == "S" || id == "d" || id == "head_dim" ||
      id == "l" || id == "s" || id == "t") {
    return stack_scalar(e);
  }
  if (id == "embed") return {Type::tensor, false, 0, 0, false, flow_.embed()};
  if (id == "memory") {
    if (context_.stack != Stack::pair_decoder) {
      error(e.at, "memory",
            "expected a decoder beside an encoder, got a stack without `memory`; it is the "
            "encoder's `out`");
    }
    if (scope_->exists) reads_memory = true;
    return {Type::tensor};
  }
  const auto found = scope_->names.find(id);
  if (found == scope_->names.end()) return unknown_name(e);
  Value value = found->second;
  if (value.reads_t && !without_t_.empty()) {
    error(e.at, "t",
          fmt::format("expected a scalar {} that is the same at every update, got `{}`, "
                      "which depends on `t`",
                      without_t_, id));
    value.known = false;
  }
  return value;
}

Value Evaluator::stack_scalar(const Expr& e) {
  const Section section = scope_->section;
  const bool early = section == Section::let || section == Section::range;
  const std::string place = section == Section::let ? "in `let`" : "in a range";
  Value unknown{Type::scalar};
  if (e.name == "t") {
    if (!without_t_.empty() || early) {
      error(e.at, "t",
            fmt::format("expected a scalar {} that is the same at every update, got `t`",
                        without_t_.empty() ? place : without_t_));
      return unknown;
    }
    return judged({Type::scalar, true, 1, std::numeric_limits<double>::infinity(), true}, e);
  }
  if (e.name == "l" || e.name == "s") {
    if (section != Section::block) {
      error(e.at, "layer",
            fmt::format("expected `{0}` in a block only, got it outside; there is no "
                        "layer here",
                        e.name));
      return unknown;
    }
    if (e.name == "l") return Value::scalar(scope_->layer);
    if (!scope_->sublayer) {
      error(e.at, "instance",
            "expected `s` in a sublayer formula (a block that calls `f`), got it in a block that "
            "names its branches; try `l` or a number");
      return unknown;
    }
    return Value::scalar(scope_->instance);
  }
  const auto found = stack_scalars.find(e.name);
  if (found != stack_scalars.end()) return Value::scalar(found->second);
  error(e.at, "early",
        fmt::format("expected L, N, M, d, head_dim or a `let` name {}, got `{}`, "
                    "which is counted later",
                    place, e.name));
  return unknown;
}

Value Evaluator::unknown_name(const Expr& e) {
  uses_lost = true;
  const std::string shown = cut(e.name);
  if (find_function(e.name) != nullptr) {
    error(e.at, "name",
          fmt::format("expected a value, got the function `{0}`; try `{0}(..)`", shown));
  } else if (is_word(e.name)) {
    error(e.at, "name",
          fmt::format("expected a value, got the word `{}`, which only an option takes", shown));
  } else if (scope_->section == Section::begin && e.name == "x") {
    error(e.at, "name",
          "expected a name that is set before it is read, got `x`, which this `begin` "
          "sets later; try `embed`");
  } else if (scope_->section == Section::block && block_names.count(e.name) > 0) {
    error(e.at, "name",
          fmt::format("expected a name that is set before it is read, got `{0}`; to "
                      "carry it from layer to layer set it in `begin`",
                      shown));
  } else if (scope_->section == Section::end && block_names.count(e.name) > 0) {
    error(e.at, "name",
          fmt::format("expected a carried name, got `{0}`, which lives in a block only; "
                      "to carry it set it in `begin`",
                      shown));
  } else {
    std::vector<std::string> candidates = {"embed", "L", "N", "M", "d", "head_dim"};
    if (context_.stack == Stack::pair_decoder) candidates.push_back("memory");
    for (const auto& [known, value] : scope_->names) candidates.push_back(known);
    error(e.at, "name",
          fmt::format("expected a name that is set, got `{}`{}", shown,
                      try_near(e.name, candidates)));
  }
  return {};
}

Value Evaluator::negate(const Expr& e) {
  Value value = eval(*e.args[0]);
  value.first = -value.first;
  value.last = -value.last;
  return judged(value, e);
}

Value Evaluator::binary(const Expr& e) {
  const Value left = eval(*e.args[0]);
  const bool divides = e.op == '/';
  const Value right = divides ? eval_allowing_infinity(*e.args[1]) : eval(*e.args[1]);
  Value result;
  result.type = broadcast(left.type, right.type);
  result.node = flow_.merge(left.node, right.node);
  result.reads_t = left.reads_t || right.reads_t;
  if (divides) divisor_not_zero(right, *e.args[1]);
  if (e.op == '^' && !need(right, Type::scalar, *e.args[1], "as an exponent")) {
    result.type = Type::bad;
    return result;
  }
  if (result.type != Type::scalar || !left.known || !right.known) return result;
  if (divides && (right.first == 0 || right.last == 0)) return result;  // reported above
  result.known = true;
  result.first = apply_operator(e.op, left.first, right.first);
  result.last = apply_operator(e.op, left.last, right.last);
  return judged(result, e);
}

bool Evaluator::arguments_fit(const Expr& e, const Function& function) {
  if (static_cast<int>(e.args.size()) == function.arguments) return true;
  error(e.at, "arity",
        fmt::format("expected {} argument{} of `{}`, got {}", function.arguments,
                    function.arguments == 1 ? "" : "s", e.name, e.args.size()));
  return false;
}

const Function& Evaluator::norm_kind(const std::string& kind) const {
  const Function* found = find_function(kind == "norm" ? context_.norm : kind);
  return found != nullptr ? *found : *find_function("layernorm");
}

Value Evaluator::call(const Expr& e) {
  const Function* function = find_function(e.name);
  if (function == nullptr) {
    const bool name = scope_->names.count(e.name) > 0;
    error(e.at, "function",
          name ? fmt::format("expected a function, got the name `{0}`; try `{0}*(..)`", cut(e.name))
               : fmt::format("expected a function, got `{}`{}", cut(e.name),
                             try_near(e.name, function_names())));
  } else {
    const bool is_default = e.name == "norm";
    options(
        e.options,
        is_default ? fmt::format("`norm` (here {})", context_.norm) : fmt::format("`{}`", e.name),
        function->group == Group::norm ? norm_kind(e.name) : *function);
  }
  const bool fits = function == nullptr || arguments_fit(e, *function);
  if (function != nullptr && fits && function->group == Group::param) return param(e);
  if (function != nullptr && fits && function->group == Group::clip) return clip(e);

  // min and max may meet infinity; other functions of scalars keep what is allowed around them.
  const Group group = function != nullptr ? function->group : Group::both;
  const bool keeps = group == Group::both || group == Group::whole;
  const bool infinity = keeps && (infinity_allowed_ || e.name == "min" || e.name == "max");
  std::vector<Value> arguments;
  Value lost;  // keeps what depends on what where the call is wrong
  for (const ExprPtr& argument : e.args) {
    const Restore<bool> restore(infinity_allowed_, infinity);
    arguments.push_back(eval(*argument));
    lost.node = flow_.merge(lost.node, arguments.back().node);
  }
  if (function == nullptr || !fits) return lost;

  const std::string what = fmt::format("as the argument of `{}`", e.name);
  Value result = lost;
  switch (group) {
    case Group::branch:
      return branch(e, arguments);
    case Group::norm:
    case Group::linear:
    case Group::rms:
      need(arguments[0], Type::tensor, *e.args[0], what);
      result.type = function->group == Group::rms ? Type::token : Type::tensor;
      return result;
    case Group::dot:
      return dot(e, arguments);
    case Group::pass:
    case Group::elementwise:
      if (arguments[0].type == Type::scalar) {
        error(e.args[0]->at, "type", fmt::format("expected a tensor {}, got a scalar", what));
        return result;
      }
      result.type = arguments[0].type;
      if (e.name == "detach") result.node = flow_.detach(result.node);
      return result;
    case Group::whole:
      if (!need(arguments[0], Type::scalar, *e.args[0], what)) return result;
      return combine(e, arguments);
    case Group::both:
      return combine(e, arguments);
    case Group::param:
    case Group::clip:
      break;  // above
  }
  return result;
}

Value Evaluator::combine(const Expr& e, const std::vector<Value>& arguments) {
  Value result = arguments[0];
  std::vector<double> first, last;
  for (const Value& argument : arguments) {
    result.type = broadcast(result.type, argument.type);
    result.known = result.known && argument.known;
    result.reads_t = result.reads_t || argument.reads_t;
    result.node = flow_.merge(result.node, argument.node);
    first.push_back(argument.first);
    last.push_back(argument.last);
  }
  result.known = result.known && result.type == Type::scalar;
  if (!result.known) return result;
  result.first = apply_function(e.name, first).value_or(result.first);
  result.last = apply_function(e.name, last).value_or(result.last);
  return judged(result, e);
}

Value Evaluator::clip(const Expr& e) {
  std::vector<Value> arguments;
  for (size_t i = 0; i < 3; ++i) {
    arguments.push_back(eval_allowing_infinity(*e.args[i]));
    if (i > 0 && !need(arguments[i], Type::scalar, *e.args[i], "as a bound of `clip`")) {
      arguments[i] = {};
      arguments[i].type = Type::scalar;
    }
  }
  const Value &low = arguments[1], &high = arguments[2];
  if (low.known && high.known && scope_->exists &&
      (low.first > high.first || low.last > high.last)) {
    const bool at_end = !(low.first > high.first);
    error(e.args[1]->at, "bounds",
          fmt::format("expected bounds of `clip` in order, got {} above {}{}",
                      shortest(at_end ? low.last : low.first),
                      shortest(at_end ? high.last : high.first), resolved(e, *scope_, at_end)));
    arguments[1].known = false;
  }
  return combine(e, arguments);
}

Value Evaluator::param(const Expr& e) {
  scalar_without_t(*e.args[0], "as the start of `param`");
  const Option* share = e.option("share");
  if (share != nullptr && scope_->section != Section::block) {
    error(share->at, "share",
          "expected `share=` in a block, got it outside; a `param` here is one "
          "already");
  }
  Value result;
  result.type = e.option("per") != nullptr ? Type::vector : Type::number;
  return result;
}

Value Evaluator::dot(const Expr& e, const std::vector<Value>& arguments) {
  Value result;
  result.type = Type::token;
  result.node = flow_.merge(arguments[0].node, arguments[1].node);
  bool vector_seen = false;
  for (size_t i = 0; i < 2; ++i) {
    const Type type = arguments[i].type;
    const bool second_vector = type == Type::vector && vector_seen;
    vector_seen = vector_seen || type == Type::vector;
    if (type == Type::bad || type == Type::tensor || (type == Type::vector && !second_vector)) {
      continue;
    }
    error(
        e.args[i]->at, "type",
        fmt::format("expected a tensor [B,T,d]{} as the argument of `dot`, got {}",
                    second_vector ? " beside a vector [d]" : " or a vector [d]", type_name(type)));
  }
  return result;
}

Value Evaluator::branch(const Expr& e, const std::vector<Value>& arguments) {
  need(arguments[0], Type::tensor, *e.args[0], fmt::format("as the argument of `{}`", e.name));
  Value result;
  result.type = Type::tensor;
  result.node = arguments[0].node;
  if (scope_->section != Section::block) {
    error(e.at, "branch",
          fmt::format("expected branches in blocks only, got `{}` {}", e.name,
                      scope_->section == Section::begin ? "in `begin`"
                      : scope_->section == Section::end ? "in `end`"
                                                        : "where a scalar stands"));
    return result;
  }
  const std::string branch = e.name == "f" ? scope_->branch : e.name;
  if (branch == "cross") {
    if (context_.stack != Stack::pair_decoder) {
      error(e.at, "memory",
            "expected a decoder beside an encoder, got `cross` in a stack without `memory`; try "
            "`attn`");
    }
    if (scope_->exists) reads_memory = true;
  }
  if (scope_->exists) result.node = flow_.branch(arguments[0].node, e, branch, scope_->layer);
  return result;
}

void Evaluator::options(const std::vector<Option>& given, const std::string& owner,
                        const Function& kind) {
  std::set<std::string> seen;
  bool plain = false;
  for (const Option& o : given) {
    if (!seen.insert(o.name).second) {
      error(o.at, "twice", fmt::format("expected an option once, got a second `{}=`", cut(o.name)));
      continue;
    }
    const OptionRule* rule = find_option(kind, o.name);
    if (rule != nullptr) {
      plain = plain || (o.name == "affine" && o.word == "false");
      option(o, owner, *rule);
      continue;
    }
    std::vector<std::string> names;
    for (const OptionRule& known : kind.options) names.push_back(known.name);
    error(o.at, "option",
          names.empty() ? fmt::format("expected no option of {}, got `{}=`", owner, cut(o.name))
                        : fmt::format("expected an option of {} ({}), got `{}=`{}", owner,
                                      join(names, ", "), cut(o.name), try_near(o.name, names)));
  }
  for (const Option& o : given) {
    if (plain && (o.name == "gain" || o.name == "bias" || o.name == "unit_offset") &&
        find_option(kind, o.name) != nullptr) {
      error(o.at, "effect",
            fmt::format("expected no `{}=` beside `affine=false`, got one without "
                        "effect; there are no parameters",
                        o.name));
    }
    if (o.name == "qk_full" && seen.count("qk") > 0 && find_option(kind, o.name) != nullptr) {
      error(o.at, "both", "expected `qk=` or `qk_full=`, got both");
    }
  }
}

void Evaluator::option(const Option& given, const std::string& owner, const OptionRule& rule) {
  const Place at = given.value ? given.value->at : given.at;
  const std::string got = given.value ? cut(print(*given.value)) : given.word;
  const std::string name_read =
      given.value && given.value->kind == Expr::Kind::name ? given.value->name : "";
  const auto wrong = [&](const std::string& what, const std::vector<std::string>& candidates) {
    error(at, "option value",
          fmt::format("expected {} for `{}=`, got `{}`{}", what, given.name, got,
                      try_near(name_read, candidates)));
  };
  switch (rule.kind) {
    case OptionKind::scalar: {
      if (!given.value) return wrong("a scalar", {});
      const Value value = scalar_without_t(*given.value, fmt::format("for `{}=`", given.name));
      if (given.name == "eps" && value.known && value.first < 0 && scope_->exists) {
        error(at, "eps",
              fmt::format("expected `eps=` of at least 0, got {}{}", shortest(value.first),
                          resolved(*given.value, *scope_)));
      }
      return;
    }
    case OptionKind::flag:
      if (given.word != "true" && given.word != "false") wrong("true or false", {"true", "false"});
      return;
    case OptionKind::word:
      for (const std::string& word : rule.words) {
        if (given.word == word) return;
      }
      return wrong(join(rule.words, " or "), rule.words);
    case OptionKind::norm:
      if (!is_norm_kind(given.word)) {
        return wrong("a kind of norm",
                     {"norm", "layernorm", "rmsnorm", "scalenorm", "l2norm", "dyt", "derf"});
      }
      options(given.inner,
              given.word == "norm" ? fmt::format("`norm` (here {})", context_.norm)
                                   : fmt::format("`{}`", given.word),
              norm_kind(given.word));
      return;
    case OptionKind::param:
      if (!given.value || given.value->kind != Expr::Kind::call || given.value->name != "param" ||
          given.value->args.size() != 1 || !given.value->options.empty()) {
        error(at, "option value",
              fmt::format("expected `{}=param(e)` in this form for {}, got `{}`", given.name, owner,
                          got));
        return;
      }
      scalar_without_t(*given.value->args[0], "as the start of `param`");
      return;
  }
}

}  // namespace addnorm::formula
