// The catalogue: every wiring is there with its formula, and files of a user's own are read strictly.
#include "addnorm/formula/catalogue.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <map>
#include <set>

#include "addnorm/formula/scalar.h"
#include "addnorm/graph/graph.h"
#include "catalogue/formulas.h"

namespace addnorm::formula {
namespace {

const Catalogue& builtin() { return Catalogue::builtin(); }

// The message of the Error that `action` throws, "" if it throws none.
template <typename Action>
std::string message_of(const Action& action) {
  try {
    action();
  } catch (const Error& error) {
    EXPECT_EQ(error.failure(), Failure::input);
    return error.what();
  }
  return "";
}

std::string problems(const std::string& file_text) {
  return message_of([&] { Catalogue::with_file(file_text, "mine.txt"); });
}

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

double rule_factor(const std::vector<InitRule>& rules, const std::string& role,
                   const Scalars& scalars) {
  for (const InitRule& rule : rules) {
    if (rule.role != role) continue;
    return evaluate(*parse_expression(rule.rule)->args.at(0), scalars).value();
  }
  ADD_FAILURE() << "no rule for " << role;
  return 0;
}

TEST(Catalogue, HoldsEveryFormulaAsTheSameProgram) {
  std::set<std::string> expected;
  for (const Formula& formula : formulas) {
    expected.insert(formula.name);
    const Entry* entry = builtin().find(formula.name);
    ASSERT_NE(entry, nullptr) << formula.name;
    EXPECT_EQ(entry->name, formula.name);
    EXPECT_TRUE(same(parse(entry->formula), parse(formula.text)))
        << formula.name << "\n"
        << print(parse(entry->formula)) << "\n"
        << print(parse(formula.text));
  }
  for (const Entry& entry : builtin().entries())
    EXPECT_TRUE(expected.contains(entry.name)) << entry.name;
  EXPECT_EQ(builtin().entries().size(), std::size(formulas));
}

TEST(Catalogue, FormulasPrintAndParseAgain) {
  for (const Entry& entry : builtin().entries()) {
    const Program program = parse(entry.formula);
    const std::string text = print(program);
    EXPECT_TRUE(same(parse(text), program)) << entry.name << "\n" << text;
    EXPECT_EQ(print(parse(text)), text);
  }
}

TEST(Catalogue, NamesAndAliasesAreUnique) {
  const std::vector<std::string> names = builtin().names();
  EXPECT_EQ(std::set<std::string>(names.begin(), names.end()).size(), names.size());
  EXPECT_GT(names.size(), 100u);
  for (const Entry& entry : builtin().entries()) {
    for (const std::string& alias : entry.aliases)
      EXPECT_EQ(builtin().find(alias), &entry) << alias;
  }
  EXPECT_EQ(builtin().find("palm")->name, "parallel");
  EXPECT_EQ(builtin().find("bitnet")->name, "sub-ln");
  EXPECT_EQ(builtin().find("PALM"), nullptr);
}

TEST(Catalogue, EntriesSayWhereTheyComeFrom) {
  for (const Entry& entry : builtin().entries()) {
    EXPECT_TRUE(entry.year >= 2015 && entry.year <= 2026) << entry.name;
    for (const auto* text : {&entry.title, &entry.adds, &entry.evidence, &entry.where}) {
      EXPECT_FALSE(text->empty()) << entry.name;
    }
  }
  EXPECT_TRUE(builtin().find("post-ln")->needs_warmup);
  EXPECT_FALSE(builtin().find("pre-ln")->needs_warmup);
  // A variant takes over what it does not say, but not what is only true of the other formula.
  const Entry& variant = *builtin().find("deepnorm/encoder");
  EXPECT_EQ(variant.paper, builtin().find("deepnorm")->paper);
  EXPECT_EQ(variant.tests.size(), 2u);
}

TEST(Catalogue, RolesAreThoseOfTheGraph) {
  std::set<std::string> roles;
  for (const graph::Role role : graph::all_roles()) {
    if (role != graph::Role::bias) roles.insert(graph::role_name(role));
  }
  EXPECT_EQ(std::set<std::string>(init_roles().begin(), init_roles().end()), roles);
}

TEST(Catalogue, InitializationHasThePublishedNumbers) {
  const Entry& deepnorm = *builtin().find("deepnorm");
  const std::map<int, double> beta = {
      {6, 0.379918}, {12, 0.319472}, {24, 0.268642}, {32, 0.25}, {100, 0.188030}};
  for (const auto& [layers, expected] : beta) {
    for (const char* role : {"v", "attn_out", "ffn_in", "ffn_gate", "ffn_out"}) {
      EXPECT_NEAR(rule_factor(deepnorm.init, role, {{"L", layers}}), expected, 5e-7);
    }
    EXPECT_EQ(rule_factor(deepnorm.init, "q", {{"L", layers}}), 1);
  }
  const std::map<int, std::pair<double, double>> pairs = {{6, {0.496989, 0.343295}},
                                                          {12, {0.400198, 0.288675}},
                                                          {18, {0.352571, 0.260847}},
                                                          {24, {0.322258, 0.242746}}};
  for (const auto& [layers, expected] : pairs) {
    const Scalars scalars = {{"N", layers}, {"M", layers}};
    for (const char* name : {"deepnorm", "deepnorm/encoder", "deepnorm/decoder"}) {
      const auto& rules = builtin().find(name)->pair_init;
      EXPECT_NEAR(rule_factor(rules, "encoder.ffn_in", scalars), expected.first, 5e-7);
      EXPECT_NEAR(rule_factor(rules, "decoder.ffn_in", scalars), expected.second, 5e-7);
      EXPECT_NEAR(rule_factor(rules, "cross_v", scalars), expected.second, 5e-7);
      EXPECT_EQ(rule_factor(rules, "cross_q", scalars), 1);
    }
  }
  const Entry& sub_ln = *builtin().find("sub-ln");
  EXPECT_NEAR(rule_factor(sub_ln.init, "v", {{"L", 12}}), 1.78271, 5e-6);
  EXPECT_NEAR(rule_factor(sub_ln.pair_init, "encoder.v", {{"N", 6}, {"M", 6}}), 1.54729, 5e-6);
  EXPECT_NEAR(rule_factor(sub_ln.pair_init, "decoder.v", {{"N", 6}, {"M", 6}}), 1.70011, 5e-6);
  const Entry& fixup = *builtin().find("fixup");
  EXPECT_NEAR(rule_factor(fixup.init, "ffn_in", {{"S", 12}}), 0.288675, 5e-7);
  EXPECT_NEAR(rule_factor(fixup.init, "q", {{"S", 12}}), 0.660901, 5e-7);
  const Entry& t_fixup = *builtin().find("t-fixup");
  EXPECT_NEAR(rule_factor(t_fixup.pair_init, "encoder.v", {{"N", 12}}), 0.359981, 5e-7);
  EXPECT_NEAR(rule_factor(t_fixup.pair_init, "decoder.v", {{"M", 12}}), 0.310202, 5e-7);
  EXPECT_NEAR(rule_factor(builtin().find("gpt2")->init, "ffn_out", {{"S", 24}}), 0.00408248, 5e-9);
  EXPECT_EQ(rule_factor(builtin().find("ds-init")->init, "ffn_out", {{"l", 4}}), 0.5);
  // An entry with rules for one stack alone: cross-attention follows self-attention.
  EXPECT_NEAR(rule_factor(builtin().find("gpt2")->pair_init, "cross_out", {{"S", 36}}), 0.02 / 6,
              1e-12);
  EXPECT_TRUE(builtin().find("pre-ln")->init.empty());
  EXPECT_TRUE(builtin().find("pre-ln")->pair_init.empty());
}

TEST(Catalogue, PublishedFactorsOfTheSkip) {
  const auto factor = [](const std::string& name, const Scalars& scalars) {
    // The number that multiplies a name in the first sum of the formula.
    double found = 0;
    visit(*parse(builtin().find(name)->formula).blocks.at(0).body.back().values.at(0),
          [&](const Expr& e) {
            if (e.kind != Expr::Kind::binary || e.op != '*' || found != 0) return;
            found = evaluate(*e.args[0], scalars).value_or(0);
          });
    return found;
  };
  EXPECT_NEAR(factor("deepnorm", {{"L", 6}}), 1.86121, 5e-6);
  EXPECT_NEAR(factor("deepnorm", {{"L", 100}}), 3.76060, 5e-6);
  EXPECT_NEAR(factor("deepnorm/encoder", {{"N", 6}, {"M", 6}}), 1.41794, 5e-6);
  EXPECT_NEAR(factor("deepnorm/decoder", {{"M", 24}}), 2.91295, 5e-6);
  EXPECT_NEAR(factor("admin-torch", {{"S", 12}}), 2.01701, 5e-6);
  EXPECT_NEAR(factor("minimax-01", {{"L", 80}}), 3.5565588200778455, 1e-14);
  EXPECT_TRUE(
      contains(builtin().find("layer-scale")->formula, "param(10^(-1 - 4*clip(L - 18, 0, 1)"));
}

TEST(Catalogue, AUsersEntryIsAvailableLikeABuiltInOne) {
  const Catalogue mine = Catalogue::with_file(
      "# mine\n[half]\naliases: halved\nyear: 2026\nformula: x = norm(x/2 + f(x))\n\n"
      "[half/decoder]\nfrom: half\nformula:\n  x = norm(x/2 + attn(x))\n  x = norm(x + cross(x) + "
      "ffn(x))\n"
      "[pre-ln]\nformula: x = x + f(norm(x))\n",
      "mine.txt");
  EXPECT_EQ(mine.entries().size(), builtin().entries().size() + 2);
  EXPECT_EQ(resolve("halved", Stack::decoder, mine).name, "half");
  EXPECT_EQ(resolve("halved", Stack::pair_decoder, mine).name, "half/decoder");
  EXPECT_EQ(mine.find("half")->where, "mine.txt:2");
  EXPECT_EQ(mine.find("half/decoder")->year, 2026);
  EXPECT_TRUE(parse(mine.find("pre-ln")->formula).end.empty());  // replaced
  EXPECT_FALSE(parse(builtin().find("pre-ln")->formula).end.empty());
}

// The example of the manual, as it stands there.
TEST(Catalogue, TheManualsExampleLoads) {
  std::ifstream manual(std::string(ADDNORM_SOURCE_DIR) + "/docs/wirings.md");
  std::string entries, keys;
  bool inside = false;
  for (std::string line; std::getline(manual, line);) {
    if (line.starts_with("    # a comment")) inside = true;
    if (line.starts_with("| ")) inside = false, keys += line + "\n";
    if (inside && line.size() > 4) entries += line.substr(4) + "\n";
  }
  const Catalogue mine = Catalogue::with_file(entries, "manual");
  EXPECT_EQ(resolve("halved(share=1)", Stack::decoder, mine).let_overrides.at("share"), 1);
  EXPECT_EQ(mine.find("half-post/decoder")->init.size(), 7u);
  for (const char* key :
       {"from", "aliases", "year", "title", "paper", "users", "evidence", "formula", "init", "pair",
        "warmup", "adds", "closed", "tests", "notes", "traps"}) {
    EXPECT_TRUE(contains(keys, std::string("`") + key + "`")) << key;
  }
}

TEST(Catalogue, EveryProblemOfAFileIsToldWithItsLine) {
  const std::string text =
      "lost: 1\n"                     // 1
      "[a b]\n"                       // 2
      "[one]\n"                       // 3
      "yaer: 2020\n"                  // 4
      "year: soon\n"                  // 5
      "formula: x = norm(x + f(x)\n"  // 6
      "[two]\n"                       // 7
      "init:\n"                       // 8
      "  q kk = normal(0.02)\n"       // 9
      "  v = normall(1)\n"            // 10
      "  ffn_in = normal(depth)\n"    // 11
      "  ffn_out normal(1)\n"         // 12
      "warmup: maybe\n"               // 13
      "[one]\n"                       // 14
      "formula: x = x + f(x)\n"       // 15
      "formula: x = f(x)\n"           // 16
      "aliases: palm\n"               // 17
      "[three]\n"                     // 18
      "from: deepnrom\n"              // 19
      "no colon\n"                    // 20
      "formula:\n"                    // 21
      "  x = x + attn(x)\n"           // 22
      "  x = x + ffn(x\n";            // 23
  const std::string said = problems(text);
  const std::vector<std::pair<int, std::string>> expected = {{1, "before \"lost\""},
                                                             {2, "[a b]"},
                                                             {4, "try year"},
                                                             {5, "a year"},
                                                             {6, "formula:1:"},
                                                             {7, "a formula in the entry two"},
                                                             {9, "try k"},
                                                             {10, "try normal"},
                                                             {11, "\"depth\""},
                                                             {12, "roles = rule"},
                                                             {13, "needed"},
                                                             {14, "first in line 3"},
                                                             {16, "first in line 15"},
                                                             {19, "try deepnorm"},
                                                             {20, "key: value"},
                                                             {23, "formula:2:"}};
  for (const auto& [line, part] : expected) {
    const std::string where = "[mine.txt:" + std::to_string(line) + "]";
    const size_t at = said.find(where);
    ASSERT_NE(at, std::string::npos) << where << "\n" << said;
    EXPECT_TRUE(contains(said.substr(at, said.find('\n', at) - at), part)) << where << part << "\n"
                                                                           << said;
  }
  EXPECT_TRUE(contains(said, "palm"));
}

TEST(Catalogue, RulesThatInitCannotSayAreRefused) {
  for (const char* rule :
       {"zeros", "normal(0.02)", "xavier_normal((8*L)^(-1/4))", "uniform(sqrt(3/fan_in))",
        "trunc_normal(0.02)", "constant(0)", "normal(0.02/sqrt(2*l))"}) {
    EXPECT_EQ(init_rule_problem(rule), "") << rule;
  }
  for (const char* rule : {"", "normal", "normal()", "normal(1, 2)", "ones", "0.02", "normal(t)",
                           "normal(norm(1))", "normal(0.02", "zeros(1)", "-normal(1)"}) {
    EXPECT_NE(init_rule_problem(rule), "") << rule;
  }
}

TEST(Catalogue, EmptyAndOddFiles) {
  EXPECT_EQ(problems(""), "");
  EXPECT_EQ(problems("# nothing\n\n"), "");
  EXPECT_EQ(problems("[a]\r\nformula: x = f(x)\r\n"), "");
  EXPECT_NE(problems("  indented\n"), "");
  EXPECT_NE(problems("[a]\n  indented\n"), "");
  EXPECT_NE(problems("[\n"), "");
  EXPECT_NE(problems("[]\n"), "");
  EXPECT_NE(problems(std::string("\0\x01\xff\n[", 5)), "");
  EXPECT_NE(problems("[a]\nformula:\n"), "");
  EXPECT_NE(problems("[a]\nformula: x = " + std::string(30000, '(') + "\n"), "");
}

TEST(Resolve, AFormulaHasAnEqualsSignOutsideParentheses) {
  EXPECT_TRUE(is_formula("x = f(x)"));
  EXPECT_FALSE(is_formula("mix-ln(fraction=0.06)"));
  EXPECT_FALSE(is_formula("pre-ln"));
  const Wiring own = resolve("x = norm(2*x + norm(f(norm(x))))", Stack::decoder, builtin());
  EXPECT_EQ(own.name, "");
  EXPECT_EQ(own.entry, nullptr);
  EXPECT_EQ(own.program.blocks.size(), 1u);
}

TEST(Resolve, LetValuesInParentheses) {
  const Wiring mix = resolve(" mix-ln (fraction = 0.06) ", Stack::decoder, builtin());
  EXPECT_EQ(mix.name, "mix-ln");
  EXPECT_EQ(mix.let_overrides.at("fraction"), 0.06);
  EXPECT_EQ(
      resolve("depth-mup(base=max(2, 8/2))", Stack::decoder, builtin()).let_overrides.at("base"),
      4);
  const auto fails = [](const std::string& text) {
    return message_of([&] { resolve(text, Stack::decoder, builtin()); });
  };
  EXPECT_TRUE(contains(fails("mix-ln(fracton=0.06)"), "try fraction"));
  EXPECT_TRUE(contains(fails("pre-ln(base=1)"), "no let"));
  EXPECT_TRUE(contains(fails("mix-ln(0.06)"), "name=value"));
  EXPECT_TRUE(contains(fails("mix-ln(fraction=1, fraction=2)"), "second"));
  EXPECT_TRUE(contains(fails("mix-ln(fraction=L)"), "a number"));
  EXPECT_TRUE(contains(fails("mix-ln(fraction=0.06"), "expected )"));
  EXPECT_NE(fails("mix-ln(fraction=1+)"), "");
  EXPECT_NE(fails("mix-ln()"), "");
}

TEST(Resolve, PairsTakeTheFormOfTheirStack) {
  EXPECT_EQ(resolve("deepnorm", Stack::decoder, builtin()).name, "deepnorm");
  EXPECT_EQ(resolve("deepnet", Stack::pair_encoder, builtin()).name, "deepnorm/encoder");
  EXPECT_EQ(resolve("deepnorm", Stack::pair_decoder, builtin()).name, "deepnorm/decoder");
  EXPECT_EQ(resolve("sub-ln", Stack::pair_encoder, builtin()).name, "sub-ln");
  EXPECT_EQ(resolve("sub-ln", Stack::pair_decoder, builtin()).name, "sub-ln/decoder");
  EXPECT_EQ(resolve("b2t", Stack::pair_decoder, builtin()).name, "b2t/decoder");
  EXPECT_EQ(resolve("post-ln", Stack::pair_decoder, builtin()).name, "post-ln");
}

TEST(Resolve, UnknownNamesComeWithTheNearest) {
  const auto said = message_of([] { resolve("pre-lm", Stack::decoder, builtin()); });
  EXPECT_TRUE(contains(said, "try pre-ln")) << said;
  const auto far = message_of([] { resolve("qqqqqqqqqqqq", Stack::decoder, builtin()); });
  EXPECT_TRUE(contains(far, "addnorm wirings")) << far;
  EXPECT_NE(message_of([] { resolve("", Stack::decoder, builtin()); }), "");
}

}  // namespace
}  // namespace addnorm::formula
