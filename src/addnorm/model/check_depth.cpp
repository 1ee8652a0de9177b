// Check 9 of the catalogue, on the formula's text: depth scaled by the formula and by the
// initialization, and DeepNorm's factor without its initialization (Wang et al. 2203.00555).
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>

#include "addnorm/base/text.h"
#include "addnorm/formula/check.h"
#include "addnorm/model/checks.h"
#include "addnorm/model/init_rule.h"

namespace addnorm::model {
namespace {

using formula::Expr;
using formula::Place;
using graph::Role;
using graph::StackSide;

struct Factor {
  const Expr* expression;
  bool divides;
};

// Appends the scalar factors between the outermost `+` or `-` above `is_target` and the target;
// returns whether the expression holds it. A norm cancels what is inside it.
bool factors_on_path(const Expr& e, const std::function<bool(const Expr&)>& is_target,
                     const std::function<bool(const Expr&)>& is_scalar, bool* open,
                     std::vector<Factor>* factors) {
  if (is_target(e)) return true;
  for (size_t i = 0; i < e.args.size(); ++i) {
    if (!factors_on_path(*e.args[i], is_target, is_scalar, open, factors)) continue;
    if (!*open) return true;
    if (e.kind == Expr::Kind::call && formula::is_norm_kind(e.name)) factors->clear();
    if (e.kind != Expr::Kind::binary) return true;
    if (e.op == '+' || e.op == '-') *open = false;
    const Expr& other = *e.args[1 - i];
    if ((e.op == '*' || (e.op == '/' && i == 0)) && is_scalar(other)) {
      factors->push_back({&other, e.op == '/'});
    }
    return true;
  }
  return false;
}

struct Scope {
  formula::Scalars numbers;                        // stack scalars, let names, l and s of layer 1
  std::map<std::string, const Expr*> definitions;  // scalar names of let and of the block
};

bool depends_on_depth(const Expr& e, const Scope& scope, int depth = 0) {
  bool found = false;
  formula::visit(e, [&](const Expr& part) {
    if (part.kind != Expr::Kind::name) return;
    static const std::set<std::string> depths = {"l", "s", "L", "S", "N", "M"};
    found = found || depths.contains(part.name);
    const auto known = scope.definitions.find(part.name);
    if (known != scope.definitions.end() && depth < 20) {
      found = found || depends_on_depth(*known->second, scope, depth + 1);
    }
  });
  return found;
}

Scope scope_of(const StackCheck& check, const formula::Block& block) {
  Scope scope;
  const formula::Context context = graph::context_of(check.shape, check.stack.side);
  scope.numbers = formula::layout(check.program, context).scalars;
  scope.numbers["l"] = scope.numbers["s"] = 1;
  for (const auto* body : {&check.program.let, &block.body}) {
    for (const formula::Statement& statement : *body) {
      for (size_t i = 0; i < statement.names.size(); ++i) {
        const Expr& value = *statement.values[i];
        const auto number = formula::evaluate(value, scope.numbers);
        if (!number) continue;
        scope.definitions[statement.names[i]] = &value;
        scope.numbers.emplace(statement.names[i], *number);
      }
    }
  }
  return scope;
}

// The user's rule for a role of this stack: its text, "" where the default holds.
std::string rule_text(const StackCheck& check, Role role) {
  const std::string prefix = check.stack.side == StackSide::encoder   ? "encoder."
                             : check.stack.side == StackSide::decoder ? "decoder."
                                                                      : "";
  for (const std::string& key : {prefix + graph::role_name(role),
                                 std::string(graph::role_name(role)), std::string("default")}) {
    const auto found = check.specification.init.find(key);
    if (found != check.specification.init.end()) return found->second;
  }
  return "";
}

bool rule_reads_depth(const std::string& text) {
  if (text.empty()) return false;
  const RuleText rule = parse_rule(text);
  for (const char* name : {"L", "S", "N", "M", "l"}) {
    if (formula::reads(*rule.argument, name)) return true;
  }
  return false;
}

// Factors of the write of what `is_target` finds in a block from a statement on; a name that takes
// the value is followed.
void collect(const formula::Block& block, size_t from,
             const std::function<bool(const Expr&)>& target, const Scope& scope,
             std::vector<Factor>* factors, int depth = 0) {
  const auto is_scalar = [&](const Expr& e) {
    return formula::evaluate(e, scope.numbers).has_value();
  };
  for (size_t i = from; i < block.body.size() && depth < 20; ++i) {
    const formula::Statement& statement = block.body[i];
    for (size_t k = 0; k < statement.values.size(); ++k) {
      bool open = true;
      std::vector<Factor> here;
      if (!factors_on_path(*statement.values[k], target, is_scalar, &open, &here)) continue;
      factors->insert(factors->end(), here.begin(), here.end());
      if (!open) return;
      const std::string name = statement.names[k];
      collect(
          block, i + 1,
          [name](const Expr& e) { return e.kind == Expr::Kind::name && e.name == name; }, scope,
          factors, depth + 1);
      return;
    }
  }
}

void check_twice(StackCheck* check, const formula::Block& block, const Expr& call) {
  const bool attn = call.name != "ffn", ffn = call.name == "ffn" || call.name == "f";
  std::string rule;
  for (const auto& [applies, role] :
       {std::pair{ffn, Role::ffn_out}, std::pair{attn, Role::attn_out}}) {
    const std::string text = rule_text(*check, role);
    if (applies && rule_reads_depth(text))
      rule = std::string(graph::role_name(role)) + " = " + text;
  }
  if (rule.empty()) return;
  const Scope scope = scope_of(*check, block);
  std::vector<Factor> factors;
  collect(block, 0, [&](const Expr& e) { return &e == &call; }, scope, &factors);
  for (const Factor& factor : factors) {
    const auto value = formula::evaluate(*factor.expression, scope.numbers);
    const double size = std::abs(factor.divides ? 1 / *value : *value);
    if (!depends_on_depth(*factor.expression, scope) && !(size < 1)) continue;
    check->add(
        Level::warning, call.at,
        fmt::format("depth is scaled twice: by the factor {}{} of the branch in {} and by the "
                    "initialization {}",
                    factor.divides ? "1/" : "", formula::print(*factor.expression),
                    check->statement(call.at), rule));
    return;
  }
}

struct DeepNorm {
  double alpha, beta;
  const char* alpha_text;
  const char* beta_text;
};

DeepNorm deepnorm_of(const StackCheck& check) {
  const formula::Context c = graph::context_of(check.shape, check.stack.side);
  const double n = c.encoder_layers, m = c.decoder_layers, l = c.layers;
  switch (check.stack.side) {
    case StackSide::encoder: {
      const double root = std::pow(std::pow(n, 4) * m, 1.0 / 16);
      return {0.81 * root, 0.87 / root, "0.81*(N^4*M)^(1/16)", "0.87*(N^4*M)^(-1/16)"};
    }
    case StackSide::decoder:
      return {std::pow(3 * m, 0.25), std::pow(12 * m, -0.25), "(3*M)^(1/4)", "(12*M)^(-1/4)"};
    case StackSide::single:
      break;
  }
  return {std::pow(2 * l, 0.25), std::pow(8 * l, -0.25), "(2*L)^(1/4)", "(8*L)^(-1/4)"};
}

// A `factor*x` among the addends of an expression.
bool has_addend(const Expr& e, double factor, const Scope& scope) {
  if (e.kind != Expr::Kind::binary) return false;
  if (e.op == '+' || e.op == '-') {
    return has_addend(*e.args[0], factor, scope) || has_addend(*e.args[1], factor, scope);
  }
  if (e.op != '*') return false;
  for (const size_t i : {0, 1}) {
    const Expr& stream = *e.args[i];
    if (stream.kind != Expr::Kind::name || stream.name != "x") continue;
    const auto value = formula::evaluate(*e.args[1 - i], scope.numbers);
    if (value && std::abs(*value - factor) < 1e-6 * factor) return true;
  }
  return false;
}

void check_deepnorm(StackCheck* check, const formula::Block& block) {
  const DeepNorm published = deepnorm_of(*check);
  const Scope scope = scope_of(*check, block);
  Place at{0, 0};
  for (const formula::Statement& statement : block.body) {
    for (const formula::ExprPtr& value : statement.values) {
      formula::visit(*value, [&](const Expr& e) {
        if (e.kind == Expr::Kind::call && formula::is_norm_kind(e.name) &&
            has_addend(*e.args[0], published.alpha, scope)) {
          at = statement.at;
        }
      });
    }
  }
  if (at.line == 0) return;
  std::vector<std::string> wrong;
  for (size_t i = 0; i < check->rules.size(); ++i) {
    const graph::Parameter& parameter = check->graph.parameters[i];
    static const std::set<Role> roles = {Role::v,        Role::attn_out, Role::ffn_in,
                                         Role::ffn_gate, Role::ffn_out,  Role::cross_v,
                                         Role::cross_out};
    if (parameter.side != check->stack.side || !roles.contains(parameter.role)) continue;
    const double target =
        published.beta *
        std::sqrt(2 / static_cast<double>(parameter.fan_in() + parameter.fan_out()));
    const std::string name = graph::role_name(parameter.role);
    if (std::abs(check->rules[i].target_std() - target) > 1e-6 * target &&
        std::find(wrong.begin(), wrong.end(), name) == wrong.end()) {
      wrong.push_back(name);
    }
  }
  if (wrong.empty()) return;
  check->add(Level::warning, at,
             fmt::format("the factor {} on x in {} is DeepNorm's, but the rules of {} are not "
                         "xavier_normal({})",
                         published.alpha_text, check->statement(at), join(wrong, " "),
                         published.beta_text));
}

}  // namespace

void check_depth(StackCheck* check) {
  for (const formula::Block& block : check->program.blocks) {
    for (const formula::Statement& statement : block.body) {
      for (const formula::ExprPtr& value : statement.values) {
        formula::visit(*value, [&](const Expr& e) {
          if (e.kind == Expr::Kind::call && formula::is_branch(e.name))
            check_twice(check, block, e);
        });
      }
    }
    check_deepnorm(check, block);
  }
}

}  // namespace addnorm::model
