// Printing: minimal parentheses, one layout, and text that parses to the same program, also for
// random programs and after random damage.
#include <gtest/gtest.h>

#include <chrono>
#include <string>
#include <vector>

#include "addnorm/base/error.h"
#include "addnorm/base/random.h"
#include "addnorm/formula/program.h"

namespace addnorm::formula {
namespace {

TEST(Printer, MinimalParentheses) {
  for (const char* text : {"a + b*c",
                           "(a + b)*c",
                           "a - (b - c)",
                           "a - b - c",
                           "a/(b*c)",
                           "a/b*c",
                           "(a^b)^c",
                           "a^b^c",
                           "-a^b",
                           "(-a)^b",
                           "a^-b",
                           "-a*b",
                           "-(a*b)",
                           "a*-b",
                           "a - -b",
                           "--a",
                           "a*(b + c)^(1/4)",
                           "norm(a + b, gain=1/sqrt(L))",
                           "attn(x, qk=rmsnorm(eps=1e-05, affine=false), heads=param(1))",
                           "param(0, per=channel, share=layer)",
                           "1e+300 + 0.1 + 1e-300",
                           "dot(a, b)/dot(a, a)*a"}) {
    EXPECT_EQ(print(*parse_expression(text)), text);
  }
  EXPECT_EQ(print(*parse_expression("((a))+((b)*(c))")), "a + b*c");
}

TEST(Printer, Layout) {
  EXPECT_EQ(print(parse("x=x+f(norm(x));out=norm(x)")), "x = x + f(norm(x))\nout = norm(x)");
  EXPECT_EQ(print(parse("let: q=1/4\nblock[1..floor(q*L)]: x=norm(x+f(x))\nblock: y=x; x,y=y,x\n"
                        "end: out=x")),
            "let:                  q = 1/4\n"
            "block[1..floor(q*L)]: x = norm(x + f(x))\n"
            "block:                y = x\n"
            "                      x, y = y, x\n"
            "end:                  out = x");
  EXPECT_EQ(print(parse("begin: x = embed")), "begin: x = embed");
  EXPECT_EQ(print(parse("x = f(x)\nend: y = x; out = y")),
            "block: x = f(x)\nend:   y = x\n       out = y");
}

// A generator of random programs; draw number `index` decides, so a failure names its seed.
class Generator {
 public:
  explicit Generator(uint64_t seed) : random_(seed, "formula generator") {}

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

TEST(Printer, RandomProgramsComeBack) {
  for (uint64_t seed = 0; seed < 5000; ++seed) {
    const Program p = Generator(seed).program();
    const std::string text = print(p);
    Program q;
    try {
      q = parse(text);
    } catch (const Error& error) {
      FAIL() << "seed " << seed << "\n" << text << "\n" << error.what();
    }
    ASSERT_TRUE(same(p, q)) << "seed " << seed << "\n" << text << "\n---\n" << print(q);
    ASSERT_EQ(print(q), text);
  }
}

TEST(Parser, GarbageNeverCrashes) {
  const std::vector<std::string> seeds = {
      "x = norm((2*L)^(1/4)*x + f(x))",
      "let: fraction = 1/4\nblock[1..floor(fraction*L)]: x = norm(x + f(x))\nblock: x = x\nend: "
      "out = norm(x)",
      "x = x + attn(norm(x), qk=rmsnorm(eps=1e-5), heads=param(1)); out = norm(x, gain=.5)",
      "begin: x = embed; r = embed\nblock: y = f(x); x, r = norm(x + y), r + y # c\nend: out = x"};
  const std::string alphabet = "()[];:=,.+-*/^# \n\te0129xfL\xC3\xFF\"@";
  const auto start = std::chrono::steady_clock::now();
  int parsed = 0;
  for (uint64_t i = 0; i < 20000; ++i) {
    const Random random(i, "damage");
    uint64_t draw = 0;
    std::string text = seeds[random.below(draw++, seeds.size())];
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
    try {
      const Program p = parse(text);
      ++parsed;
      ASSERT_TRUE(same(p, parse(print(p)))) << text << "\n---\n" << print(p);
    } catch (const Error& error) {
      ASSERT_FALSE(error.findings().empty()) << text;
    }
  }
  EXPECT_GT(parsed, 1000);
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
  RecordProperty("seconds", std::to_string(seconds.count()));
}

}  // namespace
}  // namespace addnorm::formula
