// Random programs and damaged ones for the tests of the language. Draw number `index` of stream
// `seed` decides, so a failure names its seed.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "addnorm/base/random.h"
#include "addnorm/formula/program.h"

namespace addnorm::formula {

class RandomProgram {
 public:
  explicit RandomProgram(uint64_t seed) : random_(seed, "formula generator") {}

  Program program() {
    Program p;
    if (below(2)) p.let = statements(1 + below(3));
    if (below(2)) p.begin = statements(1 + below(3));
    const size_t blocks = below(4);
    for (size_t i = 0; i < blocks; ++i) {
      Block block;
      if (below(2)) {
        block.first = expression(2);
        block.last = expression(2);
      }
      block.body = statements(below(4));
      p.blocks.push_back(block);
    }
    if (below(2)) p.end = statements(1 + below(3));
    return p;
  }

  size_t below(size_t n) { return random_.below(index_++, n); }

 private:
  std::string name() {
    static const std::vector<std::string> names = {
        "x", "y",    "out", "L",   "embed", "norm",  "let",    "block",
        "e", "true", "e2",  "a_b", "f",     "layer", "memory", "t"};
    return names[below(names.size())];
  }

  std::vector<Statement> statements(size_t n) {
    std::vector<Statement> result(n);
    for (Statement& s : result) {
      const size_t width = 1 + below(3) / 2;
      for (size_t i = 0; i < width; ++i) {
        s.names.push_back(name());
        s.name_places.push_back({});
        s.values.push_back(expression(4));
      }
    }
    return result;
  }

  std::vector<Option> options(int depth) {
    std::vector<Option> result;
    for (size_t n = below(3); n > 0; --n) {
      Option option;
      option.name = name();
      const size_t kind = below(4);
      if (kind == 0) {
        option.word = below(2) ? "true" : "channel";
      } else if (kind == 1) {
        option.word = below(2) ? "rmsnorm" : "norm";
        if (depth > 0 && below(2)) option.inner = options(depth - 1);
      } else {
        // Names that stand for words would be read as words here.
        do {
          option.value = expression(depth - 1);
        } while (option.value->kind == Expr::Kind::name);
      }
      result.push_back(option);
    }
    return result;
  }

  ExprPtr expression(int depth) {
    auto e = std::make_shared<Expr>();
    const size_t kind = depth <= 0 ? below(2) : below(6);
    if (kind == 0) {
      e->kind = Expr::Kind::number;
      const double values[] = {0, 1, 2, 0.25, 1e-7, 1e22, 5e-324, random_.uniform(index_++) * 100};
      e->number = values[below(8)];
    } else if (kind == 1) {
      e->kind = Expr::Kind::name;
      e->name = name();
    } else if (kind == 2) {
      e->kind = Expr::Kind::negate;
      e->args = {expression(depth - 1)};
    } else if (kind == 3) {
      e->kind = Expr::Kind::call;
      e->name = name();
      // A kind without arguments would be read as an option's kind.
      const size_t least = is_norm_kind(e->name) ? 1 : 0;
      for (size_t n = least + below(3); n > 0; --n) e->args.push_back(expression(depth - 1));
      e->options = options(depth - 1);
    } else {
      e->kind = Expr::Kind::binary;
      e->op = "+-*/^"[below(5)];
      e->args = {expression(depth - 1), expression(depth - 1)};
    }
    return e;
  }

  Random random_;
  uint64_t index_ = 0;
};

// A good program with one to six random edits.
inline std::string damaged_program(uint64_t seed) {
  static const std::vector<std::string> good = {
      "x = norm((2*L)^(1/4)*x + f(x))",
      "let: fraction = 1/4\nblock[1..floor(fraction*L)]: x = norm(x + f(x))\nblock: x = x\nend: "
      "out = norm(x)",
      "x = x + attn(norm(x), qk=rmsnorm(eps=1e-5), heads=param(1)); out = norm(x, gain=.5)",
      "begin: x = embed; r = embed\nblock: y = f(x); x, r = norm(x + y), r + y # c\nend: out = x"};
  static const std::string alphabet = "()[];:=,.+-*/^# \n\te0129xfL\xC3\xFF\"@";
  const Random random(seed, "damage");
  uint64_t draw = 0;
  std::string text = good[random.below(draw++, good.size())];
  for (uint64_t n = 1 + random.below(draw++, 6); n > 0; --n) {
    const size_t at = random.below(draw++, text.size());
    const char c = alphabet[random.below(draw++, alphabet.size())];
    switch (random.below(draw++, 4)) {
      case 0:
        text.erase(at, 1 + random.below(draw++, 5));
        break;
      case 1:
        text.insert(at, 1, c);
        break;
      case 2:
        text[at] = c;
        break;
      default:
        text += text.substr(at);
        break;
    }
    if (text.empty()) text = "x";
  }
  return text;
}

}  // namespace addnorm::formula
