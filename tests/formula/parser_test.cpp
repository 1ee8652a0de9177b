// The language: what parses, to which tree, what is refused and where.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "addnorm/base/error.h"
#include "addnorm/formula/program.h"

namespace addnorm::formula {
namespace {

// The findings of a text that must not parse, one line each.
std::string problems(const std::string& text) {
  try {
    parse(text);
  } catch (const Error& error) {
    EXPECT_EQ(error.failure(), Failure::input);
    return error.what();
  }
  ADD_FAILURE() << "parsed: " << text;
  return "";
}

std::string tree(const Expr& e) {
  std::string out;
  switch (e.kind) {
    case Expr::Kind::number:
    case Expr::Kind::name:
      return print(e);
    case Expr::Kind::negate:
      return "neg(" + tree(*e.args[0]) + ")";
    case Expr::Kind::binary:
      return std::string("(") + tree(*e.args[0]) + e.op + tree(*e.args[1]) + ")";
    case Expr::Kind::call:
      out = e.name + "(";
      for (const ExprPtr& argument : e.args) out += tree(*argument) + ";";
      for (const Option& o : e.options) {
        out += o.name + "=" + (o.value ? tree(*o.value) : o.word) + ";";
      }
      return out + ")";
  }
  return out;
}

std::string tree(const std::string& text) { return tree(*parse_expression(text)); }

TEST(Parser, Precedence) {
  EXPECT_EQ(tree("a + b*c - d/e"), "((a+(b*c))-(d/e))");
  EXPECT_EQ(tree("2^3^2"), "(2^(3^2))");
  EXPECT_EQ(tree("10^-1"), "(10^neg(1))");
  EXPECT_EQ(tree("-a^b"), "neg((a^b))");
  EXPECT_EQ(tree("-a*b"), "(neg(a)*b)");
  EXPECT_EQ(tree("- -+a"), "neg(neg(a))");
  EXPECT_EQ(tree("2/L*f(x)"), "((2/L)*f(x;))");
  EXPECT_EQ(tree("(2*L)^(1/4)*x + f(x)"), "((((2*L)^(1/4))*x)+f(x;))");
  EXPECT_EQ(tree("a - (b - c)"), "(a-(b-c))");
}

TEST(Parser, Numbers) {
  EXPECT_EQ(parse_expression("1.")->number, 1);
  EXPECT_EQ(parse_expression(".5")->number, 0.5);
  EXPECT_EQ(parse_expression("1e-3")->number, 1e-3);
  EXPECT_EQ(parse_expression("2.5E+2")->number, 250);
  const Program p = parse("block[1..4]: x = f(x)\nblock[5..6.]: x = f(x)");
  EXPECT_EQ(p.blocks[0].first->number, 1);
  EXPECT_EQ(p.blocks[0].last->number, 4);
  EXPECT_EQ(p.blocks[1].last->number, 6);
  EXPECT_EQ(problems("x = 1e999*x"),
            "error [formula:1:5] expected a number that double precision holds, got `1e999`");
}

TEST(Parser, OptionsAreWordsKindsOrExpressions) {
  const ExprPtr e = parse_expression(
      "attn(x, qk=rmsnorm(eps=1e-5, affine=false), v=norm, heads=param(1), inner=norm)");
  ASSERT_EQ(e->options.size(), 4u);
  EXPECT_EQ(e->option("qk")->word, "rmsnorm");
  ASSERT_EQ(e->option("qk")->inner.size(), 2u);
  EXPECT_EQ(e->option("qk")->inner[0].value->number, 1e-5);
  EXPECT_EQ(e->option("qk")->inner[1].word, "false");
  EXPECT_EQ(e->option("v")->word, "norm");
  EXPECT_EQ(e->option("heads")->value->name, "param");
  EXPECT_EQ(e->option("none"), nullptr);
  // A kind with an argument is an expression; the checker says what is wrong with it.
  EXPECT_EQ(tree("attn(x, inner=norm(x))"), "attn(x;inner=norm(x;);)");
}

TEST(Parser, Sections) {
  const Program p = parse(
      "y = f(norm(x)); x = x + y; out = norm(x)  # comment with \xC3\xA9\n"
      "let: a = 1; b = 2\n"
      "begin: x = embed\n"
      "end: out = out + x");
  EXPECT_EQ(p.let.size(), 2u);
  EXPECT_EQ(p.begin.size(), 1u);
  ASSERT_EQ(p.blocks.size(), 1u);
  EXPECT_EQ(p.blocks[0].body.size(), 2u);
  ASSERT_EQ(p.end.size(), 2u);
  EXPECT_EQ(print(p.end[0]), "out = norm(x)");
  EXPECT_EQ(p.end[1].at.line, 4);
  EXPECT_EQ(p.end[1].at.column, 6);
}

TEST(Parser, AssignmentsToOutBeforeAHeaderMakeNoBlock) {
  const Program p = parse("out = norm(x)\nblock: x = x + f(x)");
  EXPECT_EQ(p.blocks.size(), 1u);
  EXPECT_EQ(p.end.size(), 1u);
  const Program q = parse("a, out = x, norm(x); x = f(x)");
  EXPECT_EQ(q.end[0].names, (std::vector<std::string>{"a", "out"}));
  EXPECT_EQ(q.end[0].values.size(), 2u);
}

TEST(Parser, NewlinesInBracketsAreSpaces) {
  const Program p = parse("block[1\n..\n2]: x = norm(x +\n  f(x,\n inner\n=norm)\n)\n\n;;x = x");
  EXPECT_EQ(p.blocks[0].body.size(), 2u);
  EXPECT_EQ(p.blocks[0].body[1].at.line, 9);
  EXPECT_NE(problems("x = x +\nf(x)")
                .find("[formula:1:8] expected an expression, got the end of "
                      "the line"),
            std::string::npos);
}

TEST(Parser, EmptyText) {
  EXPECT_TRUE(parse("").blocks.empty());
  EXPECT_TRUE(parse(" ; \n# nothing\n;").blocks.empty());
}

struct Case {
  const char* text;
  const char* message;
};

TEST(Parser, ErrorsNamePlaceExpectedAndGot) {
  const Case cases[] = {
      {"x = x + 2L",
       "[formula:1:10] expected an operator or the end of the statement, got `L`; "
       "try `*` between factors"},
      {"x = x ** 2", "[formula:1:8] expected an expression, got `*`; a power is written `^`"},
      {"x = norm(x",
       "[formula:1:11] expected `,` or `)` for the `(` at 1:9, got the end of the "
       "text"},
      {"x = (x", "[formula:1:7] expected `)` for the `(` at 1:5, got the end of the text"},
      {"norm(x)", "[formula:1:5] expected `=` after `norm`, got `(`"},
      {"x + 1 = 2", "[formula:1:3] expected `=` after `x`, got `+`"},
      {"3 = x", "[formula:1:1] expected a statement `name = expression`, got `3`"},
      {"blok: x = x",
       "[formula:1:1] expected a section let, begin, block or end, got `blok`; try "
       "`block:`"},
      {"let x = 3", "[formula:1:5] expected `:` after `let`, got `x`"},
      {"block[1..2: x = x", "[formula:1:11] expected `]` after the range, got `:`"},
      {"block[1,2]: x = x",
       "[formula:1:8] expected `..` between the first and the last layer of a "
       "range, got `,`"},
      {"let: a = 1\nlet: b = 1", "[formula:2:1] expected `let:` at most once, got a second one"},
      {"x = norm(x, gain=1, x)", "[formula:1:21] expected `option=value` after an option, got `x`"},
      {"x = x @ y",
       "[formula:1:7] expected a name, a number or one of + - * / ^ ( ) [ ] , ; : = "
       ".., got `@`"},
      {"x = 2 \xC3\x97 x", "[formula:1:7] expected ASCII, got the bytes 0xC3 0x97; try `*`"},
      {"x = \xCE\xB1*x",
       "[formula:1:5] expected ASCII, got the bytes 0xCE 0xB1; try letters a to z"},
      {"x = \xFF", "[formula:1:5] expected ASCII, got the byte 0xFF"},
      {"# \xC3\xA9\xC3\xA9\nx = $", "[formula:2:5]"},
      {"x = x, = x", "[formula:1:8] expected an expression, got `=`"},
      {"a b = x", "[formula:1:3] expected `=` after `a`, got `b`"},
  };
  for (const Case& c : cases) {
    const std::string got = problems(c.text);
    EXPECT_NE(got.find(c.message), std::string::npos) << c.text << "\n" << got;
    EXPECT_EQ(got.find('\n'), std::string::npos) << "one mistake, one finding: " << got;
  }
  EXPECT_NE(problems(std::string("x = \0 x", 7)).find("got the byte 0x00"), std::string::npos);
}

TEST(Parser, AllSyntaxErrorsComeTogetherInOrder) {
  EXPECT_EQ(problems("x = (x + ; y = norm(x\nz = 1 + * 2\nend: out = norm(,x)"),
            "error [formula:1:10] expected an expression, got `;`\n"
            "error [formula:2:1] expected `,` or `)` for the `(` at 1:20, got `z`; try `*` between "
            "factors\n"
            "error [formula:2:9] expected an expression, got `*`\n"
            "error [formula:3:17] expected an expression, got `,`");
}

TEST(Parser, ManyErrorsAreCutOff) {
  std::string text;
  for (int i = 0; i < 10000; ++i) text += "x = ;";
  const std::string got = problems(text);
  EXPECT_LT(got.size(), 10000u);
  EXPECT_NE(got.find("too many problems"), std::string::npos);
}

TEST(Parser, NestingIsLimited) {
  const std::string open(30000, '('), close(30000, ')');
  EXPECT_NE(problems("x = " + open + "x" + close).find("at most 200 nested levels"),
            std::string::npos);
  EXPECT_NE(problems("x = " + open).find("at most 200 nested levels"), std::string::npos);
  std::string calls, powers = "x = 2", signs = "x = ";
  for (int i = 0; i < 30000; ++i) {
    calls += "norm(";
    powers += "^2";
    signs += "-";
  }
  EXPECT_NE(problems("x = " + calls + "x").find("nested levels"), std::string::npos);
  EXPECT_NE(problems(powers).find("nested levels"), std::string::npos);
  EXPECT_NE(problems(signs + "x").find("signs in a row"), std::string::npos);
  std::string kinds = "x = attn(x, qk=";
  for (int i = 0; i < 30000; ++i) kinds += "norm(eps=";
  EXPECT_NE(problems(kinds).find("nested"), std::string::npos);

  EXPECT_NO_THROW(parse("x = " + std::string(150, '(') + "x" + std::string(150, ')')));
}

TEST(Parser, LongSumsAreLimitedAndDestroyed) {
  std::string text = "x = x";
  for (int i = 0; i < 900; ++i) text += " + x";
  const Program p = parse(text);
  EXPECT_TRUE(same(p, parse(print(p))));
  for (int i = 0; i < 100000; ++i) text += " + x";
  EXPECT_NE(problems(text).find("[formula:1:5] expected an expression of at most 1000 levels"),
            std::string::npos);
  std::string product = "x = x";
  for (int i = 0; i < 100000; ++i) product += "*x";
  EXPECT_NE(problems(product).find("at most 1000 levels"), std::string::npos);
}

TEST(Parser, StatementsAreCounted) {
  std::string text;
  for (int i = 0; i < 1000; ++i) text += "x = x + f(norm(x))\n";
  EXPECT_EQ(parse(text).blocks.front().body.size(), 1000U);
  EXPECT_EQ(problems(text + text),
            "error [formula:1001:1] expected at most 1000 statements, got more; try a block, which "
            "stands for every layer");
}

TEST(Parser, HugeTextIsRefused) {
  EXPECT_NE(problems(std::string(2000000, 'x')).find("at most 1000000 bytes, got 2000000"),
            std::string::npos);
}

TEST(Parser, ExpressionsAlone) {
  EXPECT_EQ(tree("1/sqrt(head_dim)\n"), "(1/sqrt(head_dim;))");
  EXPECT_THROW(parse_expression(""), Error);
  EXPECT_THROW(parse_expression("1; 2"), Error);
  try {
    parse_expression("2 L");
    FAIL();
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(),
                 "error [expression:1:3] expected the end of the expression, got `L`; try `*` "
                 "between factors");
  }
}

TEST(Program, VisitGoesOuterFirstInTextOrder) {
  std::string seen;
  visit(*parse_expression("a + norm(b*c, gain=g) - attn(x, qk=rmsnorm(eps=e))"),
        [&](const Expr& e) {
          if (e.kind == Expr::Kind::name || e.kind == Expr::Kind::call) seen += e.name + " ";
        });
  EXPECT_EQ(seen, "a norm b c g attn x e ");
  EXPECT_TRUE(calls_f(parse("x = x + attn(x)*dot(f(x), x)").blocks[0]));
  EXPECT_FALSE(calls_f(parse("f = x").blocks[0]));
}

TEST(Program, SameLooksAtTreesNotPlaces) {
  EXPECT_TRUE(same(parse("x=x+f(x)"), parse("block:\n x = (x) + f( x )")));
  EXPECT_FALSE(same(parse("x = a - (b - c)"), parse("x = a - b - c")));
  EXPECT_FALSE(same(parse("x = norm(x, gain=1)"), parse("x = norm(x, gain=2)")));
  EXPECT_FALSE(same(parse("x = norm(x)"), parse("x = norm(x, gain=2)")));
  EXPECT_FALSE(same(parse("x = a"), parse("y = a")));
  EXPECT_FALSE(same(parse("block[1..2]: x = a"), parse("block: x = a")));
  EXPECT_FALSE(same(parse("x = attn(x, qk=norm)"), parse("x = attn(x, qk=rmsnorm)")));
}

}  // namespace
}  // namespace addnorm::formula
