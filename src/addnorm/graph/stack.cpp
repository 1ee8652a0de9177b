#include "addnorm/graph/stack.h"

#include <algorithm>

#include "addnorm/base/error.h"
#include "addnorm/formula/scalar.h"

namespace addnorm::graph {
namespace {

using formula::Expr;
using formula::Statement;

// Every expression of the text in its order, outer before inner; options of calls are left out, since
// what stands in them is named by the branch.
template <class See>
void walk(const Expr& expression, See see) {
  see(expression);
  for (const auto& argument : expression.args) walk(*argument, see);
}
template <class See>
void walk(const std::vector<Statement>& body, See see) {
  for (const Statement& statement : body) {
    for (const auto& value : statement.values) walk(*value, see);
  }
}

bool is_call(const Expr& expression, const char* function) {
  return expression.kind == Expr::Kind::call && expression.name == function;
}

std::string share_of(const Expr& expression) {
  const formula::Option* share = expression.option("share");
  return share == nullptr ? "" : share->word;
}

}  // namespace

StackLowering::StackLowering(Builder& builder, const StackProgram& stack,
                             const formula::Layout& layout,
                             const std::vector<std::string>& branches)
    : builder_(builder),
      stack_(stack),
      layout_(layout),
      branches_(branches),
      scalars_(layout.scalars) {
  const auto look = [&](const Expr& e) { own_drops_ = own_drops_ || is_call(e, "drop"); };
  walk(stack.program.begin, look);
  for (const auto& block : stack.program.blocks) walk(block.body, look);
  walk(stack.program.end, look);
  number_shared_params();
}

void StackLowering::number_shared_params() {
  std::vector<const Expr*> shared;
  const auto look = [&](const Expr& e) {
    if (is_call(e, "param") && share_of(e) == "stack") shared.push_back(&e);
  };
  walk(stack_.program.begin, look);
  for (const auto& block : stack_.program.blocks) walk(block.body, look);
  walk(stack_.program.end, look);
  std::stable_sort(shared.begin(), shared.end(), [](const Expr* a, const Expr* b) {
    return std::pair(a->at.line, a->at.column) < std::pair(b->at.line, b->at.column);
  });
  for (const Expr* e : shared) stack_params_.emplace(e, static_cast<int>(stack_params_.size()) + 1);
}

StackLowering::Names StackLowering::name_parts(const std::vector<Statement>& body,
                                               int instances) const {
  Names names;
  int norms = 0, params = 0, linears = 0;
  std::map<const Expr*, int> layer_params;
  for (int instance = 0; instance < instances; ++instance) {
    std::map<std::string, int> calls;
    walk(body, [&](const Expr& e) {
      if (e.kind != Expr::Kind::call) return;
      const Key key{&e, instance};
      if (formula::is_norm_kind(e.name)) {
        if (norm_has_parameters(builder_.shape, e.name, e.options)) names.norms[key] = ++norms;
      } else if (e.name == "linear") {
        names.linears[key] = ++linears;
      } else if (e.name == "param" && share_of(e) != "stack") {
        const bool shared = share_of(e) == "layer" && layer_params.count(&e) > 0;
        names.params[key] = shared ? layer_params[&e] : ++params;
        layer_params[&e] = names.params[key];
      } else if (formula::is_branch(e.name)) {
        const std::string kind = e.name == "f" ? branches_[static_cast<size_t>(instance)] : e.name;
        const int number = ++calls[kind];
        names.calls[key] = number == 1 ? kind : kind + std::to_string(number);
      }
    });
  }
  return names;
}

Stack StackLowering::run(ValueId embed, ValueId memory) {
  embed_ = embed;
  memory_ = memory;
  Stack stack;
  stack.side = builder_.side;
  stack.prefix = builder_.prefix;
  stack.layers = stack_.layers;
  stack.embed = embed;
  auto& points = builder_.graph.points;
  points[builder_.prefix + "embed"] = embed;

  Scope begin{"begin", "begin.", &carried_, nullptr, 0};
  const Names begin_names = name_parts(stack_.program.begin, 1);
  begin.names = &begin_names;
  bool assigns_x = false;
  for (const Statement& statement : stack_.program.begin) {
    assigns_x = assigns_x || std::count(statement.names.begin(), statement.names.end(), "x") > 0;
  }
  if (!assigns_x) {
    carried_["x"] = {nullptr, embed};
    points[builder_.prefix + "begin.x"] = embed;
  }
  run_statements(stack_.program.begin, begin);

  std::map<const formula::Block*, Names> names;
  for (int layer = 0; layer < stack_.layers; ++layer) {
    const formula::Block* block = layout_.block_of[static_cast<size_t>(layer)];
    auto found = names.find(block);
    if (found == names.end()) {
      const int instances = formula::calls_f(*block) ? static_cast<int>(branches_.size()) : 1;
      found = names.emplace(block, name_parts(block->body, instances)).first;
      found->second.writes = find_writes(*block);
    }
    stack.layer_input.push_back(carried_.at("x").value);
    run_layer(*block, layer, found->second);
  }
  stack.layer_input.push_back(carried_.at("x").value);

  builder_.layer = -1;
  std::map<std::string, Operand> end_locals;
  Scope end{"end", "end.", &end_locals, nullptr, 0};
  const Names end_names = name_parts(stack_.program.end, 1);
  end.names = &end_names;
  run_statements(stack_.program.end, end);
  stack.implied_out = out_ < 0;
  if (out_ < 0) out_ = carried_.at("x").value;
  stack.out = out_;
  points[builder_.prefix + "out"] = out_;
  return stack;
}

void StackLowering::run_layer(const formula::Block& block, int layer, const Names& names) {
  builder_.layer = layer;
  layer_shared_.clear();
  scalars_["l"] = layer + 1;
  const std::string section = "blocks." + std::to_string(layer);
  const bool sublayer = formula::calls_f(block);
  const int instances = sublayer ? static_cast<int>(branches_.size()) : 1;
  for (int instance = 0; instance < instances; ++instance) {
    std::map<std::string, Operand> locals;
    Scope scope{section, section + ".", &locals, &names, instance};
    if (sublayer) {
      scope.points += branches_[static_cast<size_t>(instance)] + ".";
      const size_t calls = names.calls.size() / static_cast<size_t>(instances);  // of f in the text
      scalars_["s"] = static_cast<double>(layout_.calls_before[static_cast<size_t>(layer)]) +
                      static_cast<double>(static_cast<size_t>(instance) * calls) + 1;
    }
    run_statements(block.body, scope);
  }
  scalars_.erase("l");
  scalars_.erase("s");
}

void StackLowering::run_statements(const std::vector<Statement>& body, Scope& scope) {
  std::map<std::string, int> left;  // assignments of each name still to come
  for (const Statement& statement : body) {
    for (const std::string& name : statement.names) ++left[name];
  }
  std::map<std::string, int> seen;
  for (const Statement& statement : body) {
    std::vector<Operand> results;
    for (const auto& expression : statement.values) results.push_back(evaluate(*expression, scope));
    for (size_t i = 0; i < statement.names.size(); ++i) {
      const std::string& name = statement.names[i];
      const bool carried = carried_.count(name) > 0 && scope.section != "end";
      const bool is_out = name == "out" && scope.section == "end";
      if (is_out) {
        out_ = value(results[i]);
        (*scope.locals)[name] = results[i];  // later statements of `end` may read it
        continue;
      }
      (carried || scope.section == "begin" ? carried_ : *scope.locals)[name] = results[i];
      const int number = ++seen[name];
      if (results[i].value < 0) continue;  // a scalar is no point
      const std::string point = builder_.prefix + scope.points + name;
      builder_.graph.points[number == left[name] ? point : point + "." + std::to_string(number)] =
          results[i].value;
    }
  }
}

StackLowering::Operand StackLowering::evaluate(const Expr& expression, Scope& scope) {
  const formula::Place before = builder_.at;
  builder_.at = expression.at;
  Operand result;
  switch (expression.kind) {
    case Expr::Kind::number:
      result.scalar = formula::number(expression.number);
      break;
    case Expr::Kind::name:
      result = name(expression, scope);
      break;
    case Expr::Kind::negate: {
      const Operand inner = evaluate(*expression.args[0], scope);
      if (inner.scalar) {
        auto negated = std::make_shared<Expr>(expression);
        negated->args = {inner.scalar};
        result.scalar = formula::fold(*negated, {});
      } else {
        result.value = builder_.sum({inner.value}, {Scalar{-1}});
      }
      break;
    }
    case Expr::Kind::binary:
      result = binary(expression, scope);
      break;
    case Expr::Kind::call:
      result = call(expression, scope);
      break;
  }
  builder_.at = before;
  return result;
}

StackLowering::Operand StackLowering::name(const Expr& expression, Scope& scope) {
  const std::string& text = expression.name;
  if (text == "embed") return {nullptr, embed_};
  if (text == "memory") {
    auto& read = builder_.graph.memory_read;
    if (!read) read = expression.at;
    return {nullptr, memory_};
  }
  if (const auto found = scope.locals->find(text); found != scope.locals->end())
    return found->second;
  if (const auto found = carried_.find(text); found != carried_.end()) return found->second;
  return {formula::fold(expression, scalars_), -1};
}

// The operand of a `+` or `-`; where it is a branch's write it is a value with its sign.
StackLowering::Operand StackLowering::operand_of(const Expr& expression, bool negative,
                                                 Scope& scope) {
  Operand operand = evaluate(expression, scope);
  if (scope.names->writes.count(&expression) == 0) return operand;
  if (negative) operand = {nullptr, builder_.sum({value(operand)}, {Scalar{-1}})};
  const auto [first, last] = scope.names->writes.equal_range(&expression);
  for (auto write = first; write != last; ++write) {
    const std::string& call = scope.names->calls.at({write->second, scope.instance});
    const std::string branch = builder_.prefix + scope.section + "." + call;
    builder_.graph.points[branch + ".write"] = operand.value;
    for (Branch& known : builder_.graph.branches) {
      if (known.name == branch) known.write = operand.value;
    }
  }
  return operand;
}

StackLowering::Operand StackLowering::binary(const Expr& expression, Scope& scope) {
  const char op = expression.op;
  const bool adds = op == '+' || op == '-';
  const Operand a =
      adds ? operand_of(*expression.args[0], false, scope) : evaluate(*expression.args[0], scope);
  const Operand b = adds ? operand_of(*expression.args[1], op == '-', scope)
                         : evaluate(*expression.args[1], scope);
  const auto folded = [&](char sign, const formula::ExprPtr& left, const formula::ExprPtr& right) {
    auto both = std::make_shared<Expr>();
    both->kind = Expr::Kind::binary;
    both->op = sign;
    both->at = expression.at;
    both->args = {left, right};
    return formula::fold(*both, {});
  };
  if (a.scalar && b.scalar) return {folded(op, a.scalar, b.scalar), -1};
  Builder& g = builder_;
  if (adds) {
    const bool signed_already =
        op == '-' && scope.names->writes.count(expression.args[1].get()) > 0;
    const double sign = op == '-' && !signed_already ? -1 : 1;
    if (a.scalar) return {nullptr, g.sum({b.value}, {Scalar{sign}}, scalar(a))};
    if (b.scalar) {
      const auto constant = sign < 0 ? folded('-', formula::number(0), b.scalar) : b.scalar;
      return {nullptr, g.sum({a.value}, {Scalar{1}}, g.scalar(constant))};
    }
    return {nullptr, g.sum({a.value, b.value}, {Scalar{1}, Scalar{sign}})};
  }
  if (op == '*') {
    if (a.scalar) return {nullptr, g.sum({b.value}, {scalar(a)})};
    if (b.scalar) return {nullptr, g.sum({a.value}, {scalar(b)})};
    return {nullptr,
            g.node(nodes::Binary{nodes::BinaryKind::product}, {a.value, b.value}, "product")};
  }
  if (op == '/') {
    if (b.scalar) {
      return {nullptr, g.sum({a.value}, {g.scalar(folded('/', formula::number(1), b.scalar))})};
    }
    const ValueId top = value(a);
    return {nullptr,
            g.node(nodes::Binary{nodes::BinaryKind::quotient}, {top, b.value}, "quotient")};
  }
  ADDNORM_ASSERT(op == '^' && b.scalar);
  nodes::Unary power;
  power.kind = nodes::UnaryKind::power;
  power.low = scalar(b);
  return {nullptr, g.node(power, {a.value}, "power")};
}

ValueId StackLowering::value(const Operand& operand) {
  if (!operand.scalar) return operand.value;
  return builder_.sum({}, {}, builder_.scalar(operand.scalar));
}

StackLowering::Operand StackLowering::param(const Expr& expression, Scope& scope) {
  const auto start = formula::evaluate(*evaluate(*expression.args[0], scope).scalar, {});
  ADDNORM_ASSERT(start.has_value());
  const formula::Option* per = expression.option("per");
  const std::string share = share_of(expression);
  const std::vector<int64_t> dims = {per == nullptr ? 1 : builder_.graph.width};
  auto* cache = share == "stack" ? &shared_ : share == "layer" ? &layer_shared_ : nullptr;
  if (cache != nullptr) {
    if (const auto found = cache->find(&expression); found != cache->end())
      return {nullptr, found->second};
  }
  const std::string name =
      share == "stack" ? "shared.param." + std::to_string(stack_params_.at(&expression))
                       : scope.section + ".param." +
                             std::to_string(scope.names->params.at({&expression, scope.instance}));
  const int layer = builder_.layer;
  if (share == "stack") builder_.layer = -1;
  const ValueId id = builder_.parameter(builder_.prefix + name, Role::param, dims, *start);
  builder_.layer = layer;
  if (cache != nullptr) (*cache)[&expression] = id;
  return {nullptr, id};
}

StackLowering::Operand StackLowering::branch(const Expr& expression, Scope& scope) {
  const std::string call = scope.names->calls.at({&expression, scope.instance});
  const std::string kind =
      expression.name == "f" ? branches_[static_cast<size_t>(scope.instance)] : expression.name;
  const std::string name = scope.section + "." + call;
  Branch branch;
  branch.in = value(evaluate(*expression.args[0], scope));
  branch.name = builder_.prefix + name;
  branch.kind = kind;
  branch.side = builder_.side;
  branch.layer = builder_.layer;
  branch.number = ++branch_number_;
  branch.at = expression.at;
  branch.out = kind == "ffn" ? add_ffn(builder_, name, branch.in, expression.options, scalars_)
                             : add_attention(builder_, name, kind == "cross", branch.in, memory_,
                                             expression.options, scalars_);
  builder_.graph.points[branch.name + ".in"] = branch.in;
  builder_.graph.points[branch.name + ".out"] = branch.out;
  ValueId result = branch.out;
  if (!own_drops_ && builder_.shape.dropout > 0) {
    result = builder_.node(
        nodes::Drop{builder_.shape.dropout, Random::hash(branch.name), builder_.rows()}, {result},
        name + ": dropout");
  }
  builder_.graph.branches.push_back(std::move(branch));
  return {nullptr, result};
}

StackLowering::Operand StackLowering::call(const Expr& expression, Scope& scope) {
  const std::string& function = expression.name;
  if (function == "param") return param(expression, scope);
  if (formula::is_branch(function)) return branch(expression, scope);
  Builder& g = builder_;
  if (formula::is_norm_kind(function)) {
    const ValueId x = value(evaluate(*expression.args[0], scope));
    NormChoice choice = norm_choice(g.shape, function, expression.options, scalars_);
    const auto number = scope.names->norms.find({&expression, scope.instance});
    const std::string name = number == scope.names->norms.end()
                                 ? function
                                 : scope.section + ".norm." + std::to_string(number->second);
    return {nullptr, add_norm(g, choice, x, g.graph.width, name)};
  }
  if (function == "linear") {
    const ValueId x = value(evaluate(*expression.args[0], scope));
    const formula::Option* bias = expression.option("bias");
    const bool has_bias =
        bias != nullptr ? bias->word == "true" : g.shape.bias_roles.count(Role::linear) > 0;
    const int number = scope.names->linears.at({&expression, scope.instance});
    return {nullptr, g.linear(x, scope.section + ".linear." + std::to_string(number), Role::linear,
                              g.graph.width, has_bias)};
  }
  std::vector<Operand> args;
  for (const auto& argument : expression.args) args.push_back(evaluate(*argument, scope));
  if (std::all_of(args.begin(), args.end(), [](const Operand& a) { return a.scalar != nullptr; })) {
    auto all = std::make_shared<Expr>(expression);
    for (size_t i = 0; i < args.size(); ++i) all->args[i] = args[i].scalar;
    return {formula::fold(*all, {}), -1};
  }
  if (function == "min" || function == "max") {
    const auto kind = function == "min" ? nodes::BinaryKind::minimum : nodes::BinaryKind::maximum;
    return {nullptr, g.node(nodes::Binary{kind}, {value(args[0]), value(args[1])}, function)};
  }
  const ValueId x = value(args[0]);
  if (function == "dot") return {nullptr, g.node(nodes::Dot{}, {x, value(args[1])}, function)};
  if (function == "rms") return {nullptr, g.node(nodes::Rms{}, {x}, function)};
  if (function == "detach") return {nullptr, g.node(nodes::Detach{}, {x}, function)};
  if (function == "drop") {
    if (g.shape.dropout == 0) return {nullptr, x};
    const std::string stream = g.prefix + scope.points + "drop." + std::to_string(++drops_);
    return {nullptr,
            g.node(nodes::Drop{g.shape.dropout, Random::hash(stream), g.rows()}, {x}, function)};
  }
  static const std::map<std::string, nodes::UnaryKind> kinds = {
      {"sigmoid", nodes::UnaryKind::sigmoid}, {"silu", nodes::UnaryKind::silu},
      {"tanh", nodes::UnaryKind::tanh},       {"erf", nodes::UnaryKind::erf},
      {"relu", nodes::UnaryKind::relu},       {"gelu", nodes::UnaryKind::gelu},
      {"abs", nodes::UnaryKind::abs},         {"sqrt", nodes::UnaryKind::sqrt},
      {"log", nodes::UnaryKind::log},         {"exp", nodes::UnaryKind::exp},
      {"clip", nodes::UnaryKind::clip}};
  nodes::Unary unary;
  unary.kind = kinds.at(function);
  if (function == "clip") {
    unary.low = scalar(args[1]);
    unary.high = scalar(args[2]);
  }
  return {nullptr, g.node(unary, {x}, function)};
}

}  // namespace addnorm::graph
