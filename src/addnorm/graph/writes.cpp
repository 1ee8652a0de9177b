#include "addnorm/graph/writes.h"

#include <string>
#include <vector>

#include "addnorm/formula/scalar.h"

namespace addnorm::graph {
namespace {

using formula::Expr;

struct Spot {  // where an expression stands
  const Expr* parent = nullptr;
  size_t argument = 0;
  size_t statement = 0;
  size_t value = 0;
};

class Search {
 public:
  explicit Search(const formula::Block& block) : block_(block) {
    for (size_t s = 0; s < block.body.size(); ++s) {
      for (size_t v = 0; v < block.body[s].values.size(); ++v) {
        place(*block.body[s].values[v], {nullptr, 0, s, v});
      }
    }
  }

  Writes run() {
    Writes writes;
    for (const Expr* expression : order_) {
      if (expression->kind != Expr::Kind::call || !formula::is_branch(expression->name)) continue;
      if (const Expr* operand = climb(expression)) writes.emplace(operand, expression);
    }
    return writes;
  }

 private:
  void place(const Expr& expression, const Spot& spot) {
    spots_[&expression] = spot;
    order_.push_back(&expression);
    for (size_t i = 0; i < expression.args.size(); ++i) {
      place(*expression.args[i], {&expression, i, spot.statement, spot.value});
    }
  }

  // From a value outwards; null where this way leads to no addition.
  const Expr* climb(const Expr* expression) {
    for (;;) {
      const Spot& spot = spots_.at(expression);
      const Expr* parent = spot.parent;
      if (parent == nullptr) return follow_name(spot);
      if (parent->kind == Expr::Kind::binary) {
        if (parent->op == '+' || parent->op == '-') return expression;
        if (parent->op == '^' || (parent->op == '/' && spot.argument == 1)) return nullptr;
      } else if (parent->kind == Expr::Kind::call) {
        const std::string& name = parent->name;
        const bool through =
            name == "drop" || formula::is_norm_kind(name) ||
            (formula::is_scalar_function(name) && name != "floor" && name != "ceil");
        if (!through) return nullptr;
      }
      expression = parent;
    }
  }

  // The later uses of the name that a right side was assigned to, until it is assigned again.
  const Expr* follow_name(const Spot& spot) {
    const formula::Statement& from = block_.body[spot.statement];
    if (spot.value >= from.names.size()) return nullptr;
    const auto known = followed_.find({spot.statement, spot.value});
    if (known != followed_.end()) return known->second;
    const Expr*& found = followed_[{spot.statement, spot.value}];
    const std::string& name = from.names[spot.value];
    for (const Expr* use : order_) {
      if (use->kind != Expr::Kind::name || use->name != name) continue;
      const size_t statement = spots_.at(use).statement;
      if (statement <= spot.statement || assigned_between(name, spot.statement, statement))
        continue;
      if ((found = climb(use)) != nullptr) break;
    }
    return found;
  }

  bool assigned_between(const std::string& name, size_t after, size_t before) const {
    for (size_t s = after + 1; s < before; ++s) {
      for (const std::string& other : block_.body[s].names) {
        if (other == name) return true;
      }
    }
    return false;
  }

  const formula::Block& block_;
  std::map<const Expr*, Spot> spots_;
  std::map<std::pair<size_t, size_t>, const Expr*> followed_;  // (statement, value) -> operand
  std::vector<const Expr*> order_;  // order of the text, outer before inner
};

}  // namespace

Writes find_writes(const formula::Block& block) { return Search(block).run(); }

}  // namespace addnorm::graph
