// Recursive descent over the grammar of docs/formula.md. A syntax error ends its statement; parsing
// goes on at the next one, so that one Error holds all of them. Nesting and depth are limited, so
// that no text can exhaust the stack, here or in anything that walks the tree later.
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "addnorm/base/text.h"
#include "addnorm/formula/lexer.h"
#include "addnorm/formula/program.h"

namespace addnorm::formula {
namespace {

constexpr int nesting_limit = 200;  // parentheses and powers inside each other
constexpr int depth_limit = 1000;   // levels of an expression's tree, sums of many terms included
constexpr size_t size_limit = 1000000;
constexpr int statement_limit = 1000;  // what follows takes time by their square
constexpr size_t problem_limit = 50;

bool is_header_word(const std::string& word) {
  return word == "let" || word == "begin" || word == "block" || word == "end";
}

bool is_option_word(const std::string& word) {
  return word == "true" || word == "false" || word == "channel" || word == "layer" ||
         word == "stack" || is_norm_kind(word);
}

// A statement that cannot be read further; its problem is reported.
struct Stop {};

struct Tree {
  ExprPtr expr;
  int depth = 1;
};

class Parser {
 public:
  Parser(const std::string& text, std::string source) : source_(std::move(source)) {
    if (text.size() > size_limit) {
      fail_input(source_,
                 fmt::format("expected at most {} bytes, got {}", size_limit, text.size()));
    }
    tokens_ = lex(text, source_, problems_);
  }

  Program program() {
    Program result;
    std::vector<Statement> headless_out;
    std::vector<Statement>* section = nullptr;  // null before the first header
    bool headless_block = false;
    bool seen_let = false, seen_begin = false, seen_end = false;
    while (true) {
      while (is_separator()) ++next_;
      if (token().kind == Token::Kind::end) break;
      const size_t start = next_;
      nesting_ = 0;
      try {
        if (is_header(start)) {
          const Token header = token();
          section = open(result);
          bool* seen = header.text == "let"     ? &seen_let
                       : header.text == "begin" ? &seen_begin
                       : header.text == "end"   ? &seen_end
                                                : nullptr;
          if (seen != nullptr && *seen) {
            report(header.at, fmt::format("expected `{0}:` at most once, got a second one; try "
                                          "one `{0}:` with all its statements",
                                          header.text));
          }
          if (seen != nullptr) *seen = true;
          continue;
        }
        Statement one = statement();
        end_of_statement();
        if (++statements_ > statement_limit) {
          report(one.at, fmt::format("expected at most {} statements, got more; try a block, which "
                                     "stands for every layer",
                                     statement_limit));
          break;
        }
        if (section != nullptr) {
          section->push_back(std::move(one));
        } else if (std::count(one.names.begin(), one.names.end(), "out") > 0) {
          headless_out.push_back(std::move(one));
        } else {
          if (!headless_block) result.blocks.push_back({one.at, nullptr, nullptr, {}});
          headless_block = true;
          result.blocks.front().body.push_back(std::move(one));
        }
      } catch (const Stop&) {
        recover(start);
      }
    }
    result.end.insert(result.end.begin(), std::make_move_iterator(headless_out.begin()),
                      std::make_move_iterator(headless_out.end()));
    finish();
    return result;
  }

  ExprPtr expression() {
    brackets_.push_back({});  // newlines are spaces throughout
    ExprPtr result;
    try {
      result = sum().expr;
      if (token().kind != Token::Kind::end) {
        expected("the end of the expression", juxtaposition_hint());
      }
    } catch (const Stop&) {
    }
    finish();
    return result;
  }

 private:
  // The next token; inside parentheses and brackets newlines are spaces.
  const Token& token() {
    if (!brackets_.empty()) {
      while (tokens_[next_].kind == Token::Kind::line) ++next_;
    }
    return tokens_[next_];
  }

  bool is(const char* symbol) {
    return token().kind == Token::Kind::symbol && token().text == symbol;
  }

  bool accept(const char* symbol) {
    if (!is(symbol)) return false;
    ++next_;
    return true;
  }

  bool is_symbol(size_t i, const char* symbol) const {
    return i < tokens_.size() && tokens_[i].kind == Token::Kind::symbol &&
           tokens_[i].text == symbol;
  }

  bool is_separator() { return token().kind == Token::Kind::line || is(";"); }

  bool is_header(size_t i) const {
    if (tokens_[i].kind != Token::Kind::name) return false;
    return is_symbol(i + 1, ":") || (tokens_[i].text == "block" && is_symbol(i + 1, "[")) ||
           (is_header_word(tokens_[i].text) && !is_symbol(i + 1, "=") && !is_symbol(i + 1, ","));
  }

  static std::string shown(const Token& token) {
    if (token.kind == Token::Kind::line) return "the end of the line";
    if (token.kind == Token::Kind::end) return "the end of the text";
    if (token.text.size() > 40) return fmt::format("`{}..`", token.text.substr(0, 40));
    return fmt::format("`{}`", token.text);
  }

  void report(const Place& at, const std::string& message) {
    if (problems_.size() < problem_limit) {
      problems_.push_back({Level::error, where(source_, at), message});
    }
  }

  [[noreturn]] void stop(const Place& at, const std::string& message) {
    report(at, message);
    throw Stop{};
  }

  [[noreturn]] void expected(const std::string& what, const std::string& hint = "") {
    const Token& got = token();
    if (got.kind == Token::Kind::bad) throw Stop{};  // reported by the lexer
    stop(got.at,
         fmt::format("expected {}, got {}{}{}", what, shown(got), hint.empty() ? "" : "; ", hint));
  }

  void expect(const char* symbol, const std::string& what) {
    if (!accept(symbol)) expected(what);
  }

  std::string juxtaposition_hint() {
    const bool factor =
        token().kind == Token::Kind::name || token().kind == Token::Kind::number || is("(");
    return factor ? "try `*` between factors" : "";
  }

  void end_of_statement() {
    if (is_separator() || token().kind == Token::Kind::end) return;
    expected("an operator or the end of the statement", juxtaposition_hint());
  }

  // Moves to the end of the statement that began at `start`. Inside an unclosed parenthesis it ends
  // where a line looks like the start of another statement.
  void recover(size_t start) {
    brackets_.clear();
    while (next_ > start && tokens_[next_ - 1].kind == Token::Kind::line) --next_;
    int open = 0;
    for (size_t i = start; i < next_; ++i) count_bracket(i, open);
    while (tokens_[next_].kind != Token::Kind::end) {
      const bool ends = tokens_[next_].kind == Token::Kind::line || is_symbol(next_, ";");
      if (ends && (open <= 0 || starts_statement(next_))) return;
      count_bracket(next_, open);
      ++next_;
    }
  }

  void count_bracket(size_t i, int& open) const {
    if (is_symbol(i, "(") || is_symbol(i, "[")) ++open;
    if (is_symbol(i, ")") || is_symbol(i, "]")) --open;
  }

  // After the separator at `i`: a header, or `a, b =` where no comma before it makes it an option.
  bool starts_statement(size_t i) const {
    const bool after_comma = i > 0 && is_symbol(i - 1, ",");
    while (tokens_[i].kind == Token::Kind::line || is_symbol(i, ";")) ++i;
    if (tokens_[i].kind != Token::Kind::name) return false;
    if (is_header(i)) return true;
    while (is_symbol(i + 1, ",") && tokens_[i + 2].kind == Token::Kind::name) i += 2;
    return is_symbol(i + 1, "=") && !after_comma;
  }

  void finish() {
    if (problems_.empty()) return;
    // The lexer's come first; a stable order by place is what a reader wants.
    std::stable_sort(problems_.begin(), problems_.end(), [](const Finding& a, const Finding& b) {
      return place_of(a.where) < place_of(b.where);
    });
    if (problems_.size() >= problem_limit) {
      problems_.resize(problem_limit);
      problems_.push_back({Level::error, source_, "too many problems, the rest is not shown"});
    }
    throw Error(problems_);
  }

  static std::pair<int, int> place_of(const std::string& where_text) {
    const std::vector<std::string> parts = split(where_text, ':');
    if (parts.size() < 3) return {0, 0};
    return {std::stoi(parts[parts.size() - 2]), std::stoi(parts.back())};
  }

  // Reads a header and returns where its statements go.
  std::vector<Statement>* open(Program& result) {
    const Token word = token();
    if (!is_header_word(word.text)) {
      const std::string near = nearest(word.text, {"let", "begin", "block", "end"});
      ++next_;
      ++next_;
      report(word.at, fmt::format("expected a section let, begin, block or end, got `{}`{}",
                                  word.text.substr(0, 40),
                                  near.empty() ? "" : fmt::format("; try `{}:`", near)));
      ignored_.clear();
      return &ignored_;
    }
    ++next_;
    Block block;
    block.at = word.at;
    if (word.text == "block" && is("[")) {
      brackets_.push_back(token().at);
      ++next_;
      block.first = sum().expr;
      expect("..", "`..` between the first and the last layer of a range");
      block.last = sum().expr;
      expect("]", "`]` after the range");
      brackets_.pop_back();
    }
    expect(":", fmt::format("`:` after `{}`", word.text));
    if (word.text == "let") return &result.let;
    if (word.text == "begin") return &result.begin;
    if (word.text == "end") return &result.end;
    result.blocks.push_back(std::move(block));
    return &result.blocks.back().body;
  }

  Statement statement() {
    Statement result;
    result.at = token().at;
    do {
      if (token().kind != Token::Kind::name) expected("a statement `name = expression`");
      result.names.push_back(token().text);
      result.name_places.push_back(token().at);
      ++next_;
    } while (accept(","));
    expect("=", fmt::format("`=` after `{}`", result.names.back().substr(0, 40)));
    do {
      result.values.push_back(sum().expr);
    } while (accept(","));
    return result;
  }

  static std::shared_ptr<Expr> node(Expr::Kind kind, const Place& at) {
    auto result = std::make_shared<Expr>();
    result->kind = kind;
    result->at = at;
    return result;
  }

  // Places are those of an expression's first character, parentheses around it left out.
  Tree binary(char op, const Tree& left, const Tree& right) {
    const int depth = 1 + std::max(left.depth, right.depth);
    if (depth > depth_limit) {
      stop(left.expr->at, fmt::format("expected an expression of at most {} levels, got a deeper "
                                      "one; try several statements",
                                      depth_limit));
    }
    auto result = node(Expr::Kind::binary, left.expr->at);
    result->op = op;
    result->args = {left.expr, right.expr};
    return {std::move(result), depth};
  }

  Tree sum() {
    Tree left = product();
    while (is("+") || is("-")) {
      const char op = token().text[0];
      ++next_;
      left = binary(op, left, product());
    }
    return left;
  }

  Tree product() {
    Tree left = unary();
    while (is("*") || is("/")) {
      const char op = token().text[0];
      ++next_;
      if (op == '*' && is("*")) expected("an expression", "a power is written `^`");
      left = binary(op, left, unary());
    }
    return left;
  }

  // Every nesting passes here.
  Tree unary() {
    if (++nesting_ > nesting_limit) {
      stop(token().at, fmt::format("expected at most {} nested levels, got more; try several "
                                   "statements",
                                   nesting_limit));
    }
    std::vector<Place> minuses;
    while (is("+") || is("-")) {
      if (is("-")) minuses.push_back(token().at);
      ++next_;
      if (minuses.size() > nesting_limit) {
        stop(token().at,
             fmt::format("expected at most {} signs in a row, got more", nesting_limit));
      }
    }
    Tree result = power();
    while (!minuses.empty()) {
      auto negated = node(Expr::Kind::negate, minuses.back());
      negated->args = {result.expr};
      result = {std::move(negated), result.depth + 1};
      minuses.pop_back();
    }
    --nesting_;
    return result;
  }

  Tree power() {
    Tree base = primary();
    if (!accept("^")) return base;
    return binary('^', base, unary());
  }

  Tree primary() {
    const Token& first = token();
    if (first.kind == Token::Kind::number) {
      auto result = node(Expr::Kind::number, first.at);
      result->number = first.number;
      ++next_;
      return {std::move(result), 1};
    }
    if (first.kind == Token::Kind::name) {
      ++next_;
      if (is("(")) return call(first);
      auto result = node(Expr::Kind::name, first.at);
      result->name = first.text;
      return {std::move(result), 1};
    }
    if (is("(")) {
      open_parenthesis();
      Tree inner = sum();
      close_parenthesis("");
      return inner;
    }
    expected("an expression");
  }

  void open_parenthesis() {
    brackets_.push_back(token().at);
    ++next_;
  }

  void close_parenthesis(const std::string& or_what) {
    if (is(")")) {
      brackets_.pop_back();
      ++next_;
      return;
    }
    const Place at = brackets_.back();
    expected(fmt::format("{}`)` for the `(` at {}:{}", or_what, at.line, at.column),
             juxtaposition_hint());
  }

  // After the name, at "(". How many arguments and which options a function takes is the checker's
  // business.
  Tree call(const Token& name) {
    auto result = node(Expr::Kind::call, name.at);
    result->name = name.text;
    int depth = 0;
    open_parenthesis();
    if (!is(")")) {
      do {
        if (is_option()) {
          result->options.push_back(option(depth));
          continue;
        }
        if (!result->options.empty()) expected("`option=value` after an option");
        const Tree argument = sum();
        depth = std::max(depth, argument.depth);
        result->args.push_back(argument.expr);
      } while (accept(","));
    }
    close_parenthesis("`,` or ");
    return {std::move(result), 1 + depth};
  }

  // `name =` here; newlines may stand between.
  bool is_option() {
    if (token().kind != Token::Kind::name) return false;
    size_t i = next_ + 1;
    while (tokens_[i].kind == Token::Kind::line) ++i;
    return is_symbol(i, "=");
  }

  Option option(int& depth) {
    Option result;
    result.name = token().text;
    result.at = token().at;
    ++next_;
    expect("=", "`=`");
    if (token().kind == Token::Kind::name && is_option_word(token().text)) {
      const size_t word = next_;
      ++next_;
      if (is(",") || is(")")) {
        result.word = tokens_[word].text;
        return result;
      }
      if (is_norm_kind(tokens_[word].text) && is("(")) {
        const size_t bracket = next_;
        ++next_;
        brackets_.push_back(tokens_[bracket].at);
        if (is_option()) {
          result.word = tokens_[word].text;
          if (++nesting_ > nesting_limit) expected("fewer nested options");
          do {
            if (!is_option()) expected("`option=value`");
            result.inner.push_back(option(depth));
          } while (accept(","));
          --nesting_;
          close_parenthesis("`,` or ");
          return result;
        }
        brackets_.pop_back();
      }
      next_ = word;  // an expression after all
    }
    const Tree value = sum();
    depth = std::max(depth, value.depth);
    result.value = value.expr;
    return result;
  }

  std::string source_;
  std::vector<Token> tokens_;
  Findings problems_;
  size_t next_ = 0;
  int nesting_ = 0;
  int statements_ = 0;
  std::vector<Place> brackets_;     // open ones, innermost last
  std::vector<Statement> ignored_;  // statements under a header that does not exist
};

}  // namespace

Program parse(const std::string& text) { return Parser(text, "formula").program(); }

ExprPtr parse_expression(const std::string& text) {
  return Parser(text, "expression").expression();
}

}  // namespace addnorm::formula
