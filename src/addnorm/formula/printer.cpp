// Trees to text that parses to the same trees, with no parentheses that are not needed.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "addnorm/base/text.h"
#include "addnorm/formula/program.h"

namespace addnorm::formula {
namespace {

// How tightly an expression holds together: sum 1, product 2, sign 3, power 4, primary 5.
int strength(const Expr& e) {
  switch (e.kind) {
    case Expr::Kind::number:
      return std::signbit(e.number) ? 3 : 5;
    case Expr::Kind::name:
    case Expr::Kind::call:
      return 5;
    case Expr::Kind::negate:
      return 3;
    case Expr::Kind::binary:
      return e.op == '^' ? 4 : e.op == '*' || e.op == '/' ? 2 : 1;
  }
  return 5;
}

void write(const Expr& e, std::string& out);

void write(const Expr& e, int least, std::string& out) {
  const bool parentheses = strength(e) < least;
  if (parentheses) out += '(';
  write(e, out);
  if (parentheses) out += ')';
}

void write(const std::vector<Option>& options, bool comma, std::string& out) {
  for (const Option& option : options) {
    if (comma) out += ", ";
    comma = true;
    out += option.name + "=" + option.word;
    if (option.value) write(*option.value, out);
    if (!option.inner.empty()) {
      out += '(';
      write(option.inner, false, out);
      out += ')';
    }
  }
}

void write(const Expr& e, std::string& out) {
  switch (e.kind) {
    case Expr::Kind::number:
      out += shortest(e.number);
      break;
    case Expr::Kind::name:
      out += e.name;
      break;
    case Expr::Kind::negate:
      out += '-';
      write(*e.args[0], 3, out);
      break;
    case Expr::Kind::binary: {
      const int own = strength(e);
      const bool power = e.op == '^';
      write(*e.args[0], power ? 5 : own, out);
      if (own == 1) {
        out += {' ', e.op, ' '};
      } else {
        out += e.op;
      }
      write(*e.args[1], power ? 3 : own + 1, out);
      break;
    }
    case Expr::Kind::call:
      out += e.name + "(";
      for (size_t i = 0; i < e.args.size(); ++i) {
        if (i > 0) out += ", ";
        write(*e.args[i], out);
      }
      write(e.options, !e.args.empty(), out);
      out += ')';
      break;
  }
}

void write(const Statement& statement, std::string& out) {
  out += join(statement.names, ", ") + " = ";
  for (size_t i = 0; i < statement.values.size(); ++i) {
    if (i > 0) out += ", ";
    write(*statement.values[i], out);
  }
}

bool assigns_out(const Statement& statement) {
  return std::count(statement.names.begin(), statement.names.end(), "out") > 0;
}

std::string header(const Block& block) {
  if (!block.first) return "block:";
  return "block[" + print(*block.first) + ".." + print(*block.last) + "]:";
}

// `header`, then one statement per line, all at column `indent`.
void write(const std::string& header, const std::vector<Statement>& body, size_t indent,
           std::string& out) {
  out += header;
  size_t column = header.size();
  for (const Statement& statement : body) {
    if (column > 0 && column >= indent) {
      out += '\n';
      column = 0;
    }
    out.append(indent - column, ' ');
    write(statement, out);
    out += '\n';
    column = 0;
  }
  if (body.empty()) out += '\n';
}

// One block for every layer and nothing but `out` after it needs no headers.
bool plain(const Program& p) {
  return p.let.empty() && p.begin.empty() && p.blocks.size() == 1 && !p.blocks[0].first &&
         !p.blocks[0].body.empty() &&
         std::none_of(p.blocks[0].body.begin(), p.blocks[0].body.end(), assigns_out) &&
         std::all_of(p.end.begin(), p.end.end(), assigns_out);
}

}  // namespace

std::string print(const Expr& expression) {
  std::string out;
  write(expression, out);
  return out;
}

std::string print(const Statement& statement) {
  std::string out;
  write(statement, out);
  return out;
}

std::string print(const Program& program) {
  std::string out;
  if (plain(program)) {
    write("", program.blocks[0].body, 0, out);
    write("", program.end, 0, out);
    if (program.end.empty()) out.pop_back();
  } else {
    size_t indent = 7;  // "block: "
    for (const Block& block : program.blocks) indent = std::max(indent, header(block).size() + 1);
    indent = std::min<size_t>(indent, 32);
    if (!program.let.empty()) write("let:", program.let, indent, out);
    if (!program.begin.empty()) write("begin:", program.begin, indent, out);
    for (const Block& block : program.blocks) write(header(block), block.body, indent, out);
    if (!program.end.empty()) write("end:", program.end, indent, out);
  }
  while (!out.empty() && out.back() == '\n') out.pop_back();
  return out;
}

}  // namespace addnorm::formula
