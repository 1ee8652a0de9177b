// One abstract run of the unrolled program: begin, every layer, end. Types, scalar values, names and
// what reaches `out` are judged on the way; a block without layers is run once beside it.
#include "addnorm/formula/check.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "addnorm/base/text.h"
#include "addnorm/formula/check_expr.h"
#include "addnorm/formula/check_flow.h"
#include "addnorm/formula/check_report.h"
#include "addnorm/formula/functions.h"

namespace addnorm::formula {
namespace {

constexpr Place whole_program{0, 0};

std::string cut(const std::string& name) {
  return name.size() <= 60 ? name : name.substr(0, 60) + "..";
}

// Textual calls of branches, by name.
std::map<std::string, int> branch_names(const Block& block) {
  std::map<std::string, int> count;
  for (const Statement& statement : block.body) {
    for (const ExprPtr& value : statement.values) {
      visit(*value, [&](const Expr& e) {
        if (e.kind == Expr::Kind::call && is_branch(e.name)) ++count[e.name];
      });
    }
  }
  return count;
}

class Checker {
 public:
  Checker(const Program& program, const Context& context)
      : program_(program), context_(context), evaluator_(context, report_, flow_) {}

  Findings run() {
    prepare();
    unused_lets();
    Scope begin = base_scope(Section::begin);
    run_begin(begin);
    carried_ = begin.names;
    std::set<const Block*> used(layout_.block_of.begin(), layout_.block_of.end());
    for (const Block& block : program_.blocks) {
      shape_of(block);
      if (used.count(&block) == 0) run_block(block, 1, false, carried_);
    }
    std::map<std::string, Value> state = carried_;
    for (size_t i = 0; i < layout_.block_of.size(); ++i) {
      if (layout_.block_of[i] != nullptr) {
        run_block(*layout_.block_of[i], static_cast<int>(i) + 1, true, state);
      }
    }
    run_end(state);
    return report_.findings();
  }

  Layout layout() const { return layout_; }

 private:
  void error(const Place& at, const std::string& rule, std::string message) {
    report_.error(at, rule, std::move(message));
  }

  // Let names, ranges, S.
  void prepare() {
    Scalars& scalars = evaluator_.stack_scalars;
    const bool in_pair =
        context_.stack == Stack::pair_encoder || context_.stack == Stack::pair_decoder;
    scalars = {{"L", context_.layers},
               {"N", in_pair ? context_.encoder_layers : context_.layers},
               {"M", in_pair ? context_.decoder_layers : context_.layers},
               {"d", context_.width},
               {"head_dim", context_.head_dim}};
    for (const Block& block : program_.blocks) {
      for (const Statement& s : block.body) {
        evaluator_.block_names.insert(s.names.begin(), s.names.end());
      }
      for (const auto& [name, count] : branch_names(block)) {
        for (int i = 2; i <= count && name != "f"; ++i)
          numbered_.insert(fmt::format("{}{}", name, i));
      }
    }
    run_let();
    assign_layers();
    int calls = 0;
    for (const Block* block : layout_.block_of) {
      layout_.calls_before.push_back(calls);
      if (block != nullptr) calls += branch_calls(*block, context_.stack);
    }
    scalars["S"] = calls;
    layout_.scalars = scalars;
    for (const auto& [name, value] : lets_) {
      if (value.known) layout_.scalars[name] = value.first;
    }
  }

  Scope base_scope(Section section) const {
    Scope scope;
    scope.section = section;
    scope.names = lets_;
    return scope;
  }

  void run_let() {
    Scope scope = base_scope(Section::let);
    for (const Statement& statement : program_.let) {
      std::vector<Value> values;
      for (const ExprPtr& value : statement.values) {
        values.push_back(evaluator_.scalar(*value, scope, "in `let`"));
      }
      values = matched(statement, std::move(values));
      for (size_t i = 0; i < statement.names.size(); ++i) {
        const std::string& name = statement.names[i];
        if (!may_set(statement, i, Section::let)) continue;
        if (lets_.count(name) > 0) {
          error(statement.name_places[i], "let twice",
                fmt::format("expected each `let` name once, got a second `{}`", cut(name)));
          continue;
        }
        Value value = values[i];
        value.type = Type::scalar;
        const auto given = context_.let_overrides.find(name);
        if (given != context_.let_overrides.end()) value = Value::scalar(given->second);
        value.known = value.known && std::isfinite(value.first);
        lets_[name] = value;
        scope.names[name] = value;
      }
    }
    std::vector<std::string> names;
    for (const auto& [name, value] : lets_) names.push_back(name);
    for (const auto& [name, value] : context_.let_overrides) {
      if (lets_.count(name) == 0) {
        const std::string near = nearest(name, names);
        error(whole_program, "override " + name,
              fmt::format("expected a `let` name of the program, got `{}`{}", cut(name),
                          near.empty() ? "" : fmt::format("; try `{}`", near)));
      } else if (!std::isfinite(value)) {
        error(whole_program, "override " + name,
              fmt::format("expected a finite number for `{}`, got {}", cut(name), shortest(value)));
      }
    }
  }

  void unused_lets() {
    std::set<std::string> read;
    const auto see = [&](const ExprPtr& value) {
      if (!value) return;
      visit(*value, [&](const Expr& e) {
        if (e.kind == Expr::Kind::name) read.insert(e.name);
      });
    };
    const auto see_all = [&](const std::vector<Statement>& body) {
      for (const Statement& s : body) std::for_each(s.values.begin(), s.values.end(), see);
    };
    see_all(program_.let);
    see_all(program_.begin);
    see_all(program_.end);
    for (const Block& block : program_.blocks) {
      see(block.first);
      see(block.last);
      see_all(block.body);
    }
    for (const Statement& statement : program_.let) {
      for (size_t i = 0; i < statement.names.size(); ++i) {
        if (lets_.count(statement.names[i]) == 0 || read.count(statement.names[i]) > 0) continue;
        error(statement.name_places[i], "unused",
              fmt::format("expected every `let` name to be read, got `{}`, which is not",
                          cut(statement.names[i])));
      }
    }
  }

  // A bound of a range, rounded; nullopt where it is no whole number.
  std::optional<double> bound(const Expr& expression) {
    const Scope scope = base_scope(Section::range);
    const Value value = evaluator_.scalar(expression, scope, "as a bound of a range");
    if (!value.known) return std::nullopt;
    const double whole = std::round(value.first);
    if (std::abs(value.first - whole) <= 1e-9) return whole;
    error(expression.at, "whole",
          fmt::format("expected a whole number as a bound of a range, got `{}` = {}{}; try `floor`",
                      cut(print(expression)), shortest(value.first),
                      evaluator_.resolved(expression, scope)));
    return std::nullopt;
  }

  void assign_layers() {
    const int layers = context_.layers;
    layout_.block_of.assign(static_cast<size_t>(std::max(layers, 0)), nullptr);
    if (program_.blocks.empty()) {
      error(whole_program, "no block",
            "expected at least one block, got none; try `x = x + f(norm(x))`");
      return;
    }
    bool ranges_known = true, all_taken = false;
    for (const Block& block : program_.blocks) {
      if (block.body.empty()) {
        error(block.at, "empty", "expected statements in a block, got none");
      }
      if (all_taken) {
        error(block.at, "after",
              "expected no block after one without a range, got one; that one holds every layer "
              "left, so try it last");
      }
      double first = 1, last = layers;
      if (block.first) {
        const std::optional<double> low = bound(*block.first), high = bound(*block.last);
        if (!low || !high) {
          ranges_known = false;
          continue;
        }
        if (*high < *low) continue;  // holds no layer
        if (*low < 1 || *high > layers) {
          error(block.at, "range",
                fmt::format("expected a range within 1..L = 1..{}, got `block[{}..{}]` = {}..{}",
                            layers, cut(print(*block.first)), cut(print(*block.last)),
                            shortest(*low), shortest(*high)));
        }
        first = std::min(std::max(*low, 1.0), layers + 1.0);
        last = std::min<double>(*high, layers);
      } else {
        all_taken = true;
      }
      for (int layer = static_cast<int>(first); layer <= static_cast<int>(last); ++layer) {
        const Block*& held = layout_.block_of[static_cast<size_t>(layer) - 1];
        if (held == nullptr) held = &block;
      }
    }
    std::vector<int> bare;
    for (int layer = 1; layer <= layers; ++layer) {
      if (layout_.block_of[static_cast<size_t>(layer) - 1] == nullptr) bare.push_back(layer);
    }
    if (!bare.empty() && ranges_known) {
      error(
          program_.blocks.back().at, "bare layers",
          fmt::format("expected a block for every layer, got none for layer{} {} of {}; try a last "
                      "`block:` without a range",
                      bare.size() > 1 ? "s" : "", layer_list(bare), layers));
    }
  }

  // `f` beside named branches.
  void shape_of(const Block& block) {
    const Expr* first_named = nullptr;
    bool sublayer = false;
    for (const Statement& statement : block.body) {
      for (const ExprPtr& value : statement.values) {
        visit(*value, [&](const Expr& e) {
          if (e.kind != Expr::Kind::call || !is_branch(e.name)) return;
          if (e.name == "f") sublayer = true;
          if (e.name != "f" && first_named == nullptr) first_named = &e;
        });
      }
    }
    if (!sublayer || first_named == nullptr) return;
    error(first_named->at, "mixed",
          fmt::format("expected a block to use either `f` or attn, cross and ffn, got `{}` beside "
                      "`f`",
                      first_named->name));
  }

  // As many values as names, bad ones where they are missing.
  std::vector<Value> matched(const Statement& statement, std::vector<Value> values) {
    if (values.size() != statement.names.size()) {
      const auto counted = [](size_t n, const char* what) {
        return fmt::format("{} {}{}", n, what, n == 1 ? "" : "s");
      };
      error(statement.at, "count",
            fmt::format("expected {}, got {}", counted(statement.names.size(), "value"),
                        values.size()));
      evaluator_.uses_lost = true;
      values.assign(statement.names.size(), Value{});
    }
    return values;
  }

  // Whether name number `i` of a statement may be assigned in this section.
  bool may_set(const Statement& statement, size_t i, Section section) {
    const std::string& name = statement.names[i];
    const Place& at = statement.name_places[i];
    const auto begin = statement.names.begin();
    if (std::find(begin, begin + static_cast<std::ptrdiff_t>(i), name) !=
        begin + static_cast<std::ptrdiff_t>(i)) {
      error(at, "left twice",
            fmt::format("expected each name once on the left, got `{}` twice", cut(name)));
      return false;
    }
    static const std::map<std::string, std::string> reserved = {
        {"L", "the number of layers"},
        {"S", "the number of branch calls"},
        {"d", "the width"},
        {"head_dim", "the width of a head"},
        {"N", "the number of encoder layers"},
        {"M", "the number of decoder layers"},
        {"l", "the layer"},
        {"s", "the branch instance"},
        {"t", "the update"},
        {"embed", "the input embedding"},
        {"memory", "the encoder's output"},
        {"in", "a branch's argument among the points"},
        {"write", "what a branch adds among the points"}};
    std::string meaning;
    if (const auto found = reserved.find(name); found != reserved.end()) {
      meaning = found->second;
    } else if (is_branch(name) || numbered_.count(name) > 0) {
      meaning = "a branch";
    } else if (find_function(name) != nullptr) {
      meaning = "a function";
    } else if (name == "true" || name == "false" || name == "channel" || name == "layer" ||
               name == "stack" || name == "let" || name == "begin" || name == "block" ||
               name == "end") {
      meaning = "a word of the language";
    }
    if (!meaning.empty()) {
      error(at, "reserved",
            fmt::format("expected a name of your own, got `{}`, which is reserved "
                        "({})",
                        name, meaning));
      return false;
    }
    if (name == "out" && section != Section::end) {
      error(at, "reserved",
            "expected `out` to be set in `end` only, got it elsewhere; try `end: "
            "out = ..`");
      return false;
    }
    if (section != Section::let && lets_.count(name) > 0) {
      error(at, "reserved",
            fmt::format("expected a name of your own, got the `let` name `{}`, "
                        "which is set nowhere else",
                        cut(name)));
      return false;
    }
    return true;
  }

  // What `name` must be, bad where it may be anything.
  Type required(const std::string& name, Section section, const Scope& scope) const {
    if (name == "x" || name == "out") return Type::tensor;
    const auto& carried = section == Section::begin ? scope.names : carried_;
    const auto found = carried.find(name);
    return found == carried.end() ? Type::bad : found->second.type;
  }

  void run(const Statement& statement, Scope& scope) {
    std::vector<Value> values;
    for (const ExprPtr& value : statement.values) {
      values.push_back(evaluator_.evaluate(*value, scope));
    }
    const size_t given = values.size();
    values = matched(statement, std::move(values));
    for (size_t i = 0; i < statement.names.size(); ++i) {
      const std::string& name = statement.names[i];
      if (!may_set(statement, i, scope.section)) continue;
      const Type type = required(name, scope.section, scope);
      Value value = values[i];
      if (type != Type::bad && value.type != Type::bad && value.type != type) {
        error(given > i ? statement.values[i]->at : statement.at, "assigned type",
              fmt::format("expected {} for `{}`, got {}", type_name(type), cut(name),
                          type_name(value.type)));
        value.known = false;
        evaluator_.uses_lost = true;
      }
      if (type != Type::bad) value.type = type;
      scope.names[name] = value;
    }
  }

  void run_begin(Scope& scope) {
    const bool sets_x = std::any_of(
        program_.begin.begin(), program_.begin.end(),
        [](const Statement& s) { return std::count(s.names.begin(), s.names.end(), "x") > 0; });
    Value embed;
    embed.type = Type::tensor;
    embed.node = flow_.embed();
    if (!sets_x) scope.names["x"] = embed;
    for (const Statement& statement : program_.begin) run(statement, scope);
    // A `begin` that could not set `x` has its mistake reported.
    scope.names.insert({"x", embed});
  }

  void run_block(const Block& block, int layer, bool exists, std::map<std::string, Value>& state) {
    Scope scope = base_scope(Section::block);
    scope.layer = layer;
    scope.exists = exists;
    scope.sublayer = calls_f(block);
    const std::vector<std::string> stands_for =
        scope.sublayer ? branches(context_.stack) : std::vector<std::string>{""};
    const int calls = branch_calls(block, context_.stack) / static_cast<int>(stands_for.size());
    scope.instance = 1 + (exists ? layout_.calls_before[static_cast<size_t>(layer) - 1] : 0);
    std::map<std::string, Value> carried = state;
    for (const std::string& branch : stands_for) {
      scope.branch = branch;
      scope.names = carried;
      for (const Statement& statement : block.body) run(statement, scope);
      for (auto& [name, value] : carried) value = scope.names.at(name);
      scope.instance += calls;
    }
    if (exists) state = std::move(carried);
  }

  void run_end(const std::map<std::string, Value>& state) {
    Scope scope = base_scope(Section::end);
    scope.names = state;
    Place out_at = whole_program;
    for (const Statement& statement : program_.end) {
      run(statement, scope);
      if (std::count(statement.names.begin(), statement.names.end(), "out") > 0) {
        out_at = statement.at;
      }
    }
    if (evaluator_.uses_lost || program_.blocks.empty()) return;
    const auto out = scope.names.find(out_at.line > 0 ? "out" : "x");
    flow_.judge(out == scope.names.end() ? Flow::nothing : out->second.node, out_at, report_);
    if (context_.stack == Stack::pair_decoder && !evaluator_.reads_memory) {
      error(whole_program, "memory unread",
            "expected the decoder of a pair to read `memory`, got a program that never does; try "
            "`f` or `cross(..)`");
    }
  }

  const Program& program_;
  const Context& context_;
  Report report_;
  Flow flow_;
  Evaluator evaluator_;
  Layout layout_;
  std::map<std::string, Value> lets_;
  std::map<std::string, Value> carried_;  // let names among them
  std::set<std::string> numbered_;        // ffn2 ..
};

}  // namespace

std::vector<std::string> branches(Stack stack) {
  if (stack == Stack::pair_decoder) return {"attn", "cross", "ffn"};
  return {"attn", "ffn"};
}

int branch_calls(const Block& block, Stack stack) {
  int calls = 0;
  for (const auto& [name, count] : branch_names(block)) {
    calls += name == "f" ? count * static_cast<int>(branches(stack).size()) : count;
  }
  return calls;
}

Findings check(const Program& program, const Context& context) {
  return Checker(program, context).run();
}

Layout layout(const Program& program, const Context& context) {
  Checker checker(program, context);
  const Findings findings = checker.run();
  if (has_errors(findings)) throw Error(findings);
  return checker.layout();
}

}  // namespace addnorm::formula
