// Drawings: the known shapes line by line, and for every wiring that lines connect and that each
// branch and norm of the program is there.
#include "addnorm/formula/diagram.h"

#include <gtest/gtest.h>

#include <map>

#include "addnorm/formula/catalogue.h"
#include "addnorm/formula/picture.h"

namespace addnorm::formula {
namespace {

std::string drawn(const std::string& formula, Stack stack = Stack::decoder) {
  return diagram(parse(formula), stack);
}

// Grid of characters; a port mask says where a line leaves a character: 1 up, 2 down, 4 left, 8 right.
std::vector<std::u32string> grid_of(const std::string& text) {
  std::vector<std::u32string> rows(1);
  for (size_t i = 0; i < text.size();) {
    const auto c = static_cast<unsigned char>(text[i]);
    const int length = c < 0x80 ? 1 : c < 0xE0 ? 2 : 3;
    char32_t code = c;
    if (length == 2) code = (c & 0x1Fu) << 6 | (static_cast<unsigned char>(text[i + 1]) & 0x3Fu);
    if (length == 3) {
      code = (c & 0x0Fu) << 12 | (static_cast<unsigned char>(text[i + 1]) & 0x3Fu) << 6 |
             (static_cast<unsigned char>(text[i + 2]) & 0x3Fu);
    }
    i += static_cast<size_t>(length);
    if (code == U'\n') {
      rows.emplace_back();
    } else {
      rows.back() += code;
    }
  }
  return rows;
}

int ports(char32_t c) {
  static const std::map<char32_t, int> table = {
      {U'│', 3},  {U'║', 3},  {U'─', 12}, {U'═', 12}, {U'├', 11}, {U'┬', 14},
      {U'╤', 14}, {U'┴', 13}, {U'╧', 13}, {U'┐', 6},  {U'╗', 6},  {U'┘', 5},
      {U'╝', 5},  {U'┌', 10}, {U'╔', 10}, {U'└', 9},  {U'╚', 9}};
  const auto at = table.find(c);
  return at == table.end() ? 0 : at->second;
}

// Every line goes on: into a line, or into a text.
std::string loose_ends(const std::string& text) {
  const auto rows = grid_of(text);
  const auto at = [&](size_t r, size_t c) -> char32_t {
    return r < rows.size() && c < rows[r].size() ? rows[r][c] : U' ';
  };
  const auto is_text = [&](size_t r, size_t c) {
    if (at(r, c) != U' ') return ports(at(r, c)) == 0;
    // A space inside a text.
    return c > 0 && at(r, c - 1) != U' ' && at(r, c + 1) != U' ' && ports(at(r, c - 1)) == 0 &&
           ports(at(r, c + 1)) == 0;
  };
  std::string found;
  const auto judge = [&](size_t r, size_t c, size_t r2, size_t c2, int out, int in) {
    const bool from = (ports(at(r, c)) & out) != 0, to = (ports(at(r2, c2)) & in) != 0;
    if (from == to || (from && is_text(r2, c2)) || (to && is_text(r, c))) return;
    found += " row " + std::to_string(r) + " column " + std::to_string(c);
  };
  for (size_t r = 0; r < rows.size(); ++r) {
    for (size_t c = 0; c < rows[r].size() + 1; ++c) {
      judge(r, c, r + 1, c, 2, 1);
      judge(r, c, r, c + 1, 8, 4);
    }
  }
  return found;
}

size_t count(const std::string& text, const std::string& part) {
  size_t n = 0;
  for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++n;
  return n;
}

size_t calls(const Program& program, Stack stack, const std::string& name) {
  size_t n = 0;
  const auto look = [&](const std::vector<Statement>& body, size_t times) {
    for (const Statement& statement : body) {
      for (const ExprPtr& value : statement.values) {
        visit(*value, [&](const Expr& e) {
          n += e.kind == Expr::Kind::call && e.name == name ? times : 0;
        });
      }
    }
  };
  look(program.begin, 1);
  look(program.end, 1);
  for (const Block& block : program.blocks)
    look(block.body, calls_f(block) ? branches(stack).size() : 1);
  return n;
}

size_t boxes(const std::string& text, const std::string& name, const std::string& side) {
  size_t n = 0;
  for (const std::string blanks : {" ", "  "}) {
    n += count(text, side + blanks + name + " ");
  }
  return n;
}

TEST(Diagram, PreLn) {
  EXPECT_EQ(drawn("x = x + attn(norm(x));  x = x + ffn(norm(x));  out = norm(x)"),
            "every layer\n"
            "\n"
            "     x\n"
            "     ├─────────┐\n"
            "     │         │\n"
            "     │     ┌───┴───┐\n"
            "     │     │ norm  │\n"
            "     │     └───┬───┘\n"
            "     │     ╔═══╧═══╗\n"
            "     │     ║ attn  ║\n"
            "     │     ╚═══╤═══╝\n"
            "    (+)────────┘\n"
            "     │\n"
            "     x\n"
            "     ├─────────┐\n"
            "     │         │\n"
            "     │     ┌───┴───┐\n"
            "     │     │ norm  │\n"
            "     │     └───┬───┘\n"
            "     │     ╔═══╧═══╗\n"
            "     │     ║  ffn  ║\n"
            "     │     ╚═══╤═══╝\n"
            "    (+)────────┘\n"
            "     │\n"
            "     x\n"
            "\n"
            "after the last layer\n"
            "\n"
            "        x\n"
            "        │\n"
            "    ┌───┴───┐\n"
            "    │ norm  │\n"
            "    └───┬───┘\n"
            "       out\n");
}

TEST(Diagram, DeepNormHasItsFactorOnTheSkip) {
  EXPECT_EQ(drawn("x = norm((2*L)^(1/4)*x + attn(x))"),
            "every layer\n"
            "\n"
            "          x\n"
            "          ├──────────────┐\n"
            "          │              │\n"
            "          │          ╔═══╧═══╗\n"
            "    ×(2*L)^(1/4)     ║ attn  ║\n"
            "          │          ╚═══╤═══╝\n"
            "         (+)─────────────┘\n"
            "          │\n"
            "      ┌───┴───┐\n"
            "      │ norm  │\n"
            "      └───┬───┘\n"
            "          x\n");
}

TEST(Diagram, ParallelBranchesShareTheirNorm) {
  EXPECT_EQ(drawn("n = norm(x);  x = x + attn(n) + ffn(n)"),
            "every layer\n"
            "\n"
            "     x\n"
            "     ├─────────┐\n"
            "     │         │\n"
            "     │     ┌───┴───┐\n"
            "     │     │ norm  │\n"
            "     │     └───┬───┘\n"
            "     │         n\n"
            "     │         │\n"
            "     │         ├─────────────┐\n"
            "     │         │             │\n"
            "     │     ╔═══╧═══╗     ╔═══╧═══╗\n"
            "     │     ║ attn  ║     ║  ffn  ║\n"
            "     │     ╚═══╤═══╝     ╚═══╤═══╝\n"
            "    (+)────────┴─────────────┘\n"
            "     │\n"
            "     x\n");
}

TEST(Diagram, TwoStreams) {
  EXPECT_EQ(drawn("begin: x = embed;  y = embed\nblock: x = x + attn(norm(y));  y = y - ffn(x)\n"
                  "end: out = norm((x + y)/2)"),
            "before the first layer\n"
            "\n"
            "    x = embed\n"
            "    y = embed\n"
            "\n"
            "every layer\n"
            "\n"
            "               x         y\n"
            "               │         │\n"
            "               │     ┌───┴───┐\n"
            "               │     │ norm  │\n"
            "               │     └───┬───┘\n"
            "               │     ╔═══╧═══╗\n"
            "               │     ║ attn  ║\n"
            "               │     ╚═══╤═══╝\n"
            "              (+)────────┘\n"
            "               │\n"
            "     y         x\n"
            "     │         │\n"
            "     │     ╔═══╧═══╗\n"
            "     │     ║  ffn  ║\n"
            "     │     ╚═══╤═══╝\n"
            "     │       ×(-1)\n"
            "     │         │\n"
            "    (+)────────┘\n"
            "     │\n"
            "     y\n"
            "\n"
            "after the last layer\n"
            "\n"
            "        x     y\n"
            "        │     │\n"
            "       (+)────┘\n"
            "        │\n"
            "       ÷2\n"
            "        │\n"
            "    ┌───┴───┐\n"
            "    │ norm  │\n"
            "    └───┬───┘\n"
            "       out\n");
}

TEST(Diagram, SublayerFormulasAreDrawnForEachBranch) {
  const std::string pair = drawn("x = x + f(norm(x))", Stack::pair_decoder);
  const size_t attn = pair.find("attn"), cross = pair.find("cross"), ffn = pair.find("ffn");
  EXPECT_TRUE(attn < cross && cross < ffn && ffn != std::string::npos) << pair;
  EXPECT_EQ(count(pair, "(+)"), 3u);
  EXPECT_TRUE(pair.find("cross ← memory") != std::string::npos) << pair;
  EXPECT_EQ(count(drawn("x = x + f(norm(x))"), "(+)"), 2u);
}

TEST(Diagram, ANameThatIsReassignedIsNotDrawnLater) {
  // a keeps the old x: it must not be drawn into the last statement, where x is new.
  const std::string text = drawn("a = norm(x);  x = attn(a) + x;  x = x + ffn(a)");
  EXPECT_EQ(count(text, "│ norm  │"), 1u) << text;
  EXPECT_EQ(loose_ends(text), "") << text;
}

TEST(Diagram, NewValuesUnderOldNames) {
  for (const char* formula : {"n = norm(x);  n = n + attn(n);  x = x + n",
                              "y = norm(x);  a = y + x;  y = norm(a);  x = x + f(y)",
                              "y = norm(x);  z = y;  a = y + z;  y = norm(a);  x = y + f(y)",
                              "a = norm(x);  a = norm(a);  a = norm(a);  x = f(a)",
                              "a, b = norm(x), f(x);  b, a = a, b;  x = a + b"}) {
    const std::string text = drawn(formula);
    const Program program = parse(formula);
    EXPECT_EQ(boxes(text, "norm", "│"), calls(program, Stack::decoder, "norm")) << text;
    EXPECT_EQ(loose_ends(text), "") << text;
  }
}

TEST(Diagram, LooseEndsAreSeen) {
  EXPECT_EQ(loose_ends("x\n│\nx\n"), "");
  EXPECT_NE(loose_ends("x\n│\n\n"), "");
  EXPECT_NE(loose_ends("├─ \n│\n"), "");
}

TEST(Diagram, EveryWiringIsDrawnWhole) {
  for (const Entry& entry : Catalogue::builtin().entries()) {
    for (const Stack stack : {Stack::decoder, Stack::pair_decoder}) {
      const Program program = parse(entry.formula);
      const std::string text = diagram(program, stack);
      EXPECT_EQ(loose_ends(text), "") << entry.name << "\n" << text;
      for (const char* norm : {"norm", "layernorm", "rmsnorm", "scalenorm", "l2norm", "dyt", "derf",
                               "sigmoid", "tanh", "relu", "detach"}) {
        EXPECT_EQ(boxes(text, norm, "│"), calls(program, stack, norm))
            << entry.name << " " << norm << "\n"
            << text;
      }
      const size_t f = calls(program, stack, "f") / branches(stack).size();
      EXPECT_EQ(boxes(text, "attn", "║"), calls(program, stack, "attn") + f) << entry.name << "\n"
                                                                             << text;
      EXPECT_EQ(boxes(text, "ffn", "║"), calls(program, stack, "ffn") + f) << entry.name << "\n"
                                                                           << text;
    }
  }
}

}  // namespace
}  // namespace addnorm::formula
