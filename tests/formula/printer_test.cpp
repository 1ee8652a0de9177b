// Printing: minimal parentheses, one layout, and text that parses to the same program, also for
// random programs and after random damage.
#include <gtest/gtest.h>

#include <ctime>
#include <string>
#include <vector>

#include "addnorm/base/error.h"
#include "addnorm/base/random.h"
#include "addnorm/formula/program.h"
#include "formula/random_program.h"

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

TEST(Printer, RandomProgramsComeBack) {
  for (uint64_t seed = 0; seed < 5000; ++seed) {
    const Program p = RandomProgram(seed).program();
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
  const std::clock_t start = std::clock();
  int parsed = 0;
  for (uint64_t i = 0; i < 20000; ++i) {
    const std::string text = damaged_program(i);
    try {
      const Program p = parse(text);
      ++parsed;
      ASSERT_TRUE(same(p, parse(print(p)))) << text << "\n---\n" << print(p);
    } catch (const Error& error) {
      ASSERT_FALSE(error.findings().empty()) << text;
    }
  }
  EXPECT_GT(parsed, 1000);
  const double seconds = static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC;
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  EXPECT_LT(seconds, 20);
#else
  EXPECT_LT(seconds, 2);  // of processor time
#endif
}

}  // namespace
}  // namespace addnorm::formula
