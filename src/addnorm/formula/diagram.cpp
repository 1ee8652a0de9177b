#include "addnorm/formula/diagram.h"

#include <algorithm>
#include <map>
#include <set>
#include <vector>

#include "addnorm/base/text.h"
#include "addnorm/formula/picture.h"
#include "addnorm/formula/scalar.h"

namespace addnorm::formula {
namespace {

constexpr const char* hole = "·";  // stands for what flows in, inside the text of a box

struct Term {
  char op = '+';  // + - in a sum, * / in a product
  ExprPtr value;
};

ExprPtr with_branch(const ExprPtr& expression, const std::string& branch) {
  auto copy = std::make_shared<Expr>(*expression);
  if (copy->kind == Expr::Kind::call && copy->name == "f") copy->name = branch;
  for (ExprPtr& argument : copy->args) argument = with_branch(argument, branch);
  return copy;
}

void flatten(const ExprPtr& expression, const std::string& ops, char op, std::vector<Term>& terms) {
  const bool inner =
      expression->kind == Expr::Kind::binary && ops.find(expression->op) != std::string::npos;
  // a - (b + c) and a/(b*c) stay as they are written.
  if (!inner || op != ops.front()) {
    terms.push_back({op, expression});
    return;
  }
  flatten(expression->args[0], ops, op, terms);
  const bool nested = expression->op == ops.front();
  if (nested) {
    flatten(expression->args[1], ops, ops.front(), terms);
  } else {
    terms.push_back({expression->op, expression->args[1]});
  }
}

std::string in_parentheses(const Expr& expression) {
  const std::string text = print(expression);
  const bool sum =
      expression.kind == Expr::Kind::binary && (expression.op == '+' || expression.op == '-');
  return sum || expression.kind == Expr::Kind::negate ? "(" + text + ")" : text;
}

class Artist {
 public:
  explicit Artist(std::set<std::string> scalars) : scalars_(std::move(scalars)) {}

  // Statements that run one after the other. `carried` names are never drawn into another statement.
  std::string draw(const std::vector<Statement>& statements, const std::set<std::string>& carried) {
    std::string text;
    Picture open;  // the last drawing, not yet written
    std::vector<std::string> open_names;
    const auto write = [&] {
      if (!open.rows.empty()) text += utf8(open, 4) + "\n";
      open = {};
    };
    for (size_t i = 0; i < statements.size(); ++i) {
      const Statement& statement = statements[i];
      if (is_text(statement)) {
        write();
        for (size_t k = 0; k < statement.names.size() && k < statement.values.size(); ++k) {
          if (is_constant(*statement.values[k])) scalars_.insert(statement.names[k]);
        }
        text += "    " + print(statement) + "\n";
        const bool last = i + 1 == statements.size() || !is_text(statements[i + 1]);
        if (last) text += "\n";
        continue;
      }
      if (drawn_into_next(statements, i, carried)) continue;
      std::vector<Picture> values;
      for (const ExprPtr& value : statement.values) values.push_back(picture(value));
      definitions_.clear();
      Picture made = values.size() == 1 ? values.front() : beside(values);
      merge_inlets(made);
      label_inlets(made);
      label_outlets(made, statement.names);
      const size_t inlet = continuing(open, open_names, made);
      if (inlet < made.inlets.size()) {
        open = go_on(open, open.outlets.front(), made, inlet);
      } else {
        write();
        open = made;
      }
      open_names = statement.names;
    }
    write();
    return text;
  }

 private:
  // Known before running, or learned numbers alone: no line leads into it.
  bool is_constant(const Expr& expression) const {
    bool constant = true;
    visit(expression, [&](const Expr& e) {
      if (e.kind == Expr::Kind::name && !scalars_.contains(e.name)) constant = false;
      if (e.kind == Expr::Kind::call && is_branch(e.name)) constant = false;
    });
    return constant;
  }

  // Copies and numbers need no drawing.
  bool is_text(const Statement& statement) const {
    return std::all_of(statement.values.begin(), statement.values.end(),
                       [this](const ExprPtr& value) {
                         return value->kind == Expr::Kind::name || is_constant(*value);
                       });
  }

  static size_t uses(const Expr& expression, const std::string& name) {
    size_t count = 0;
    visit(expression,
          [&](const Expr& e) { count += e.kind == Expr::Kind::name && e.name == name; });
    return count;
  }

  // Whether lines enter the term from `name` alone, and once.
  bool fed_by(const Expr& term, const std::string& name) const {
    size_t lines = 0;
    visit(term, [&](const Expr& e) {
      lines += e.kind == Expr::Kind::name && !scalars_.contains(e.name);
    });
    return lines == 1 && uses(term, name) == 1;
  }

  // A run of neighbouring terms of one sum that holds all uses of `name`, fed by it alone: then what
  // the name stands for can be drawn above them. Begins at the returned index, `terms.size()` if none.
  size_t run_of(const std::vector<Term>& terms, const std::string& name, size_t count) const {
    for (size_t i = 0; i + count <= terms.size(); ++i) {
      const auto fed = [&](const Term& term) {
        return term.op == '+' && !is_constant(*term.value) && fed_by(*term.value, name);
      };
      const auto from = terms.begin() + static_cast<std::ptrdiff_t>(i);
      if (std::all_of(from, from + static_cast<std::ptrdiff_t>(count), fed)) return i;
    }
    return terms.size();
  }

  bool has_run(const ExprPtr& expression, const std::string& name, size_t count) const {
    if (expression->kind == Expr::Kind::binary && expression->op == '+') {
      std::vector<Term> terms;
      flatten(expression, "+-", '+', terms);
      if (run_of(terms, name, count) < terms.size()) return true;
    }
    return std::any_of(expression->args.begin(), expression->args.end(),
                       [&](const ExprPtr& argument) { return has_run(argument, name, count); });
  }

  // Marks statement i to be drawn inside statement i + 1, if that is the only one that reads it.
  bool drawn_into_next(const std::vector<Statement>& statements, size_t i,
                       const std::set<std::string>& carried) {
    const Statement& statement = statements[i];
    if (statement.names.size() != 1 || statement.values.size() != 1 || i + 1 == statements.size()) {
      return false;
    }
    const std::string& name = statement.names.front();
    const Statement& next = statements[i + 1];
    if (carried.contains(name) || next.values.size() != 1 || is_text(next)) return false;
    for (size_t k = i + 2; k < statements.size(); ++k) {
      for (const ExprPtr& value : statements[k].values) {
        if (uses(*value, name) > 0) return false;
      }
      const auto& names = statements[k].names;
      if (std::find(names.begin(), names.end(), name) != names.end()) break;
    }
    const size_t count = uses(*next.values.front(), name);
    if (count == 0 || (count > 1 && !has_run(next.values.front(), name, count))) return false;
    // A new value under a name whose old value is still to be drawn: the old one is meant inside.
    if (uses(*statement.values.front(), name) > 0 || definitions_.contains(name)) return false;
    for (const auto& [other, definition] : definitions_) {
      if (uses(*definition.value, name) > 0) return false;
    }
    // What was to be drawn into this one goes along.
    definitions_[name] = {statement.values.front(), count};
    return true;
  }

  // The inlet of `made` that goes on from the open drawing, `inlets.size()` if there is none.
  static size_t continuing(const Picture& open, const std::vector<std::string>& names,
                           const Picture& made) {
    const size_t none = made.inlets.size();
    if (open.rows.empty() || names.size() != 1) return none;
    size_t found = none;
    for (size_t i = 0; i < made.inlets.size(); ++i) {
      if (made.inlets[i].name != names.front()) continue;
      if (found != none) return none;
      found = i;
    }
    return found;
  }

  Picture picture(const ExprPtr& expression) {
    if (is_constant(*expression)) return constant(print(*expression));
    switch (expression->kind) {
      case Expr::Kind::number:
        return constant(print(*expression));
      case Expr::Kind::name:
        return named(expression->name);
      case Expr::Kind::negate: {
        Picture made = picture(expression->args[0]);
        add_text(made, "×(-1)");
        return made;
      }
      case Expr::Kind::binary:
        return binary(expression);
      case Expr::Kind::call:
        return call(*expression);
    }
    return {};
  }

  Picture named(const std::string& name) {
    const auto definition = definitions_.find(name);
    if (definition == definitions_.end() || definition->second.uses != 1) return line(name);
    Picture made = picture(definition->second.value);
    add_text(made, name);
    return made;
  }

  Picture binary(const ExprPtr& expression) {
    if (expression->op == '^') {
      if (is_constant(*expression->args[1])) {
        Picture made = picture(expression->args[0]);
        add_text(made, "^" + in_parentheses(*expression->args[1]));
        return made;
      }
      return joined({picture(expression->args[0]), picture(expression->args[1])}, "(^)");
    }
    return expression->op == '+' || expression->op == '-' ? sum(expression) : product(expression);
  }

  static Picture joined(const std::vector<Picture>& parts, const std::string& symbol) {
    Picture made = beside(parts);
    join(made, symbol);
    return made;
  }

  Picture sum(const ExprPtr& expression) {
    std::vector<Term> terms;
    flatten(expression, "+-", '+', terms);
    std::vector<Picture> parts;
    std::vector<std::string> constants;
    for (size_t i = 0; i < terms.size(); ++i) {
      const Term& term = terms[i];
      if (is_constant(*term.value)) {
        constants.push_back(std::string(1, term.op) + in_parentheses(*term.value));
        continue;
      }
      if (const size_t count = fan(terms, i); count > 1) {
        parts.push_back(fanned(terms, i, count));
        i += count - 1;
        continue;
      }
      Picture part = picture(term.value);
      if (term.op == '-') add_text(part, "×(-1)");
      parts.push_back(part);
    }
    Picture made = parts.size() == 1 && parts.front().outlets.size() == 1 ? parts.front()
                                                                          : joined(parts, "(+)");
    for (const std::string& text : constants) add_text(made, text);
    return made;
  }

  // How many terms from i on are fed by one name that is drawn above them.
  size_t fan(const std::vector<Term>& terms, size_t i) const {
    for (const auto& [name, definition] : definitions_) {
      if (definition.uses > 1 && run_of(terms, name, definition.uses) == i) return definition.uses;
    }
    return 1;
  }

  Picture fanned(const std::vector<Term>& terms, size_t i, size_t count) {
    std::string name;
    for (const auto& [candidate, definition] : definitions_) {
      if (definition.uses == count && run_of(terms, candidate, count) == i) name = candidate;
    }
    const ExprPtr value = definitions_.at(name).value;
    std::vector<Picture> parts;
    for (size_t k = i; k < i + count; ++k) parts.push_back(picture(terms[k].value));
    return feed(picture(value), name, beside(parts));
  }

  Picture product(const ExprPtr& expression) {
    std::vector<Term> terms;
    flatten(expression, "*/", '*', terms);
    std::vector<Picture> parts;
    std::vector<std::string> factors;
    std::vector<ExprPtr> divisors;
    for (const Term& term : terms) {
      if (is_constant(*term.value)) {
        factors.push_back((term.op == '*' ? "×" : "÷") + in_parentheses(*term.value));
      } else if (term.op == '*') {
        parts.push_back(picture(term.value));
      } else {
        divisors.push_back(term.value);
      }
    }
    Picture made;
    if (parts.empty()) {
      // Only numbers are divided: they stand where the line begins.
      std::string text;
      for (const std::string& factor : factors) text += text.empty() ? factor.substr(2) : factor;
      made = constant(text);
      factors.clear();
    } else {
      made = parts.size() == 1 ? parts.front() : joined(parts, "(×)");
    }
    for (const ExprPtr& divisor : divisors) made = joined({made, picture(divisor)}, "(÷)");
    for (const std::string& factor : factors) add_text(made, factor);
    return made;
  }

  Picture call(const Expr& expression) {
    std::vector<Picture> parts;
    Expr shell = expression;
    for (ExprPtr& argument : shell.args) {
      if (is_constant(*argument) && !is_branch(expression.name)) continue;
      parts.push_back(picture(argument));
      auto mark = std::make_shared<Expr>();
      mark->kind = Expr::Kind::name;
      mark->name = hole;
      argument = mark;
    }
    if (parts.size() > 1) return joined(parts, "(" + expression.name + ")");
    if (parts.empty()) return constant(print(expression));
    std::string text = expression.name;
    if (shell.args.size() > 1) {
      text = print(shell);
    } else if (!shell.options.empty()) {
      text = print(shell);  // "attn(·, qk=rmsnorm)"
      const std::string before = std::string("(") + hole + ", ";
      const size_t at = text.find(before);
      if (at != std::string::npos)
        text = text.substr(0, at) + " " + text.substr(at + before.size());
      if (at != std::string::npos && text.back() == ')') text.pop_back();
    }
    if (expression.name == "cross") text += " ← memory";
    add_box(parts.front(), text, is_branch(expression.name));
    return parts.front();
  }

  struct Definition {
    ExprPtr value;
    size_t uses = 0;
  };

  std::set<std::string> scalars_;
  std::map<std::string, Definition> definitions_;  // names drawn into the statement that reads them
};

std::set<std::string> scalar_names(const Program& program) {
  std::set<std::string> names = {"L", "S", "N", "M", "d", "head_dim", "l", "s", "t"};
  for (const Statement& statement : program.let)
    names.insert(statement.names.begin(), statement.names.end());
  return names;
}

std::vector<Statement> instance(const std::vector<Statement>& body, const std::string& branch) {
  std::vector<Statement> statements = body;
  for (Statement& statement : statements) {
    for (ExprPtr& value : statement.values) value = with_branch(value, branch);
  }
  return statements;
}

std::string header(const Block& block, bool only) {
  if (block.first) return "layers " + print(*block.first) + " .. " + print(*block.last) + "\n\n";
  return only ? "every layer\n\n" : "every other layer\n\n";
}

}  // namespace

std::string diagram(const Program& program, Stack stack) {
  std::string text;
  std::set<std::string> carried = {"x"};
  for (const Statement& statement : program.begin) {
    carried.insert(statement.names.begin(), statement.names.end());
  }
  const std::set<std::string> scalars = scalar_names(program);
  if (!program.let.empty()) {
    text += "let\n\n";
    for (const Statement& statement : program.let) text += "    " + print(statement) + "\n";
    text += "\n";
  }
  if (!program.begin.empty())
    text += "before the first layer\n\n" + Artist(scalars).draw(program.begin, carried);
  for (const Block& block : program.blocks) {
    text += header(block, program.blocks.size() == 1);
    std::vector<Statement> statements = block.body;
    if (calls_f(block)) {
      statements.clear();
      for (const std::string& branch : branches(stack)) {
        const std::vector<Statement> some = instance(block.body, branch);
        statements.insert(statements.end(), some.begin(), some.end());
      }
    }
    text += Artist(scalars).draw(statements, carried);
  }
  if (!program.end.empty())
    text += "after the last layer\n\n" + Artist(scalars).draw(program.end, carried);
  while (text.ends_with("\n\n")) text.pop_back();
  return text;
}

}  // namespace addnorm::formula
