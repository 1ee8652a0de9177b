// What can be asked of a formula's tree without judging it.
#include "addnorm/formula/program.h"

#include <algorithm>

namespace addnorm::formula {
namespace {

bool same(const ExprPtr& a, const ExprPtr& b) {
  if (!a || !b) return !a && !b;
  return formula::same(*a, *b);
}

template <class T, class Equal>
bool all_same(const std::vector<T>& a, const std::vector<T>& b, Equal equal) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), equal);
}

bool same_option(const Option& a, const Option& b) {
  return a.name == b.name && a.word == b.word && same(a.value, b.value) &&
         all_same(a.inner, b.inner, same_option);
}

bool same_statement(const Statement& a, const Statement& b) {
  return a.names == b.names &&
         all_same(a.values, b.values, [](const auto& x, const auto& y) { return same(x, y); });
}

void visit_options(const std::vector<Option>& options,
                   const std::function<void(const Expr&)>& see) {
  for (const Option& option : options) {
    if (option.value) visit(*option.value, see);
    visit_options(option.inner, see);
  }
}

}  // namespace

const Option* Expr::option(const std::string& option_name) const {
  for (const Option& candidate : options) {
    if (candidate.name == option_name) return &candidate;
  }
  return nullptr;
}

bool same(const Expr& a, const Expr& b) {
  return a.kind == b.kind && a.number == b.number && a.name == b.name && a.op == b.op &&
         all_same(a.args, b.args, [](const auto& x, const auto& y) { return same(x, y); }) &&
         all_same(a.options, b.options, same_option);
}

bool same(const Program& a, const Program& b) {
  return all_same(a.let, b.let, same_statement) && all_same(a.begin, b.begin, same_statement) &&
         all_same(a.end, b.end, same_statement) &&
         all_same(a.blocks, b.blocks, [](const Block& x, const Block& y) {
           return same(x.first, y.first) && same(x.last, y.last) &&
                  all_same(x.body, y.body, same_statement);
         });
}

bool is_norm_kind(const std::string& name) {
  return name == "norm" || name == "layernorm" || name == "rmsnorm" || name == "scalenorm" ||
         name == "l2norm" || name == "dyt" || name == "derf";
}

bool is_branch(const std::string& name) {
  return name == "attn" || name == "cross" || name == "ffn" || name == "f";
}

bool calls_f(const Block& block) {
  bool found = false;
  for (const Statement& statement : block.body) {
    for (const ExprPtr& value : statement.values) {
      visit(*value,
            [&](const Expr& e) { found = found || (e.kind == Expr::Kind::call && e.name == "f"); });
    }
  }
  return found;
}

void visit(const Expr& expression, const std::function<void(const Expr&)>& see) {
  see(expression);
  for (const ExprPtr& argument : expression.args) visit(*argument, see);
  visit_options(expression.options, see);
}

}  // namespace addnorm::formula
