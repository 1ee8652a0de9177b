// What is written from the registry: the resolved specification loads to the same one, the commented
// default loads, and docs/specification.md is up to date.
#include <gtest/gtest.h>

#include "addnorm/base/files.h"
#include "addnorm/base/text.h"
#include "addnorm/model/keys.h"
#include "support.h"

namespace addnorm::test {
namespace {

using model::Needs;

void expect_same(const model::Specification& a, const model::Specification& b) {
  for (const model::Key& key : model::keys()) EXPECT_EQ(key.read(a), key.read(b)) << key.path;
  EXPECT_EQ(a.init, b.init);
}

TEST(Listing, ResolvedLoadsToTheSame) {
  const std::string rest =
      "[data]\nsource = [\"a \\\"b\\\".txt\", \"c.txt\"]\nvalidation = \"val.txt\"\n"
      "[train]\nsteps = 10\nlr = 1e-3\nwarmup = \"5%\"\neps = 1e-9\nweight_decay = 0.3\n"
      "[train.lr_scale]\nattn_out = \"1/sqrt(L)\"\n[init]\nhead = \"zeros\"\n";
  for (const char* wiring :
       {"deepnorm", "gpt2", "mix-ln(fraction=0.5)", "x = x + f(norm(x))",
        "block[1..1]: x = norm(x + f(x)) # \\\"q\\\"\\nblock: x = x + f(norm(x))"}) {
    const auto spec =
        parsed(small("norm_eps = 1e-7\nbias = [\"q\"]\n", wiring) + rest, {}, Needs::training);
    const std::string text = model::resolved_toml(spec);
    SCOPED_TRACE(text);
    const auto again = parsed(text, {}, Needs::training);
    expect_same(spec, again);
    EXPECT_TRUE(again.findings.empty()) << warnings(again);
  }
}

TEST(Listing, ResolvedPairLoadsToTheSame) {
  const auto spec = parsed(
      "[model]\nkind = \"encoder-decoder\"\nencoder_layers = 2\ndecoder_layers = 3\nwidth = 16\n"
      "heads = 4\nvocab = 256\ncontext = 16\nwiring = \"deepnorm\"\n[init]\nencoder.q = "
      "\"zeros\"\n");
  EXPECT_EQ(spec.init.at("encoder.v"), "xavier_normal(0.87*(N^4*M)^(-1/16))");
  EXPECT_EQ(spec.init.at("decoder.v"), "xavier_normal((12*M)^(-1/4))");
  expect_same(spec, parsed(model::resolved_toml(spec)));
}

TEST(Listing, ResolvedSaysWhereValuesCameFrom) {
  const std::string text =
      model::resolved_toml(parsed(small("", "deepnorm"), {{"model.ffn", "24"}}));
  EXPECT_TRUE(contains(text, "\nwidth = 16  # file\n")) << text;
  EXPECT_TRUE(contains(text, "\nffn = 24  # flag\n")) << text;
  EXPECT_TRUE(contains(text, "\nhead_dim = 4  # default\n")) << text;
  EXPECT_TRUE(contains(text, "\nwiring = \"x = norm((2*L)^(1/4)*x + f(x))\"  # file\n")) << text;
  EXPECT_TRUE(contains(text, "\nwiring_name = \"deepnorm\"  # file\n")) << text;
  EXPECT_TRUE(contains(text, "\nv = \"xavier_normal((8*L)^(-1/4))\"  # wiring\n")) << text;
  EXPECT_TRUE(contains(text, "\ndefault = \"normal(0.02)\"  # default\n")) << text;
}

TEST(Listing, LetValuesAreWrittenIn) {
  const auto spec = parsed(small("", "mix-ln(fraction=1/2)"), {{"model.layers", "4"}});
  EXPECT_EQ(spec.model.wiring_name, "mix-ln(fraction=1/2)");
  const auto plain = parsed(small("", "mix-ln"), {{"model.layers", "4"}});
  EXPECT_NE(spec.model.wiring, plain.model.wiring);
  const auto again = parsed(model::resolved_toml(spec));
  EXPECT_EQ(graph_of(again).parameter_count(), graph_of(spec).parameter_count());
  EXPECT_EQ(shape_of(again).decoder.let_overrides.size(), 0U);
  EXPECT_EQ(formula::layout(shape_of(again).decoder.program,
                            graph::context_of(shape_of(again), graph::StackSide::single))
                .scalars.at("fraction"),
            0.5);
}

TEST(Listing, ANameWhoseEntryDiffersIsSaid) {
  const auto spec = parsed(small("wiring_name = \"pre-ln\"\n", "x = norm(x + f(x))"));
  EXPECT_TRUE(contains(warnings(spec),
                       "model.wiring_name] \"pre-ln\" is a catalogue entry that now differs"))
      << warnings(spec);
  EXPECT_EQ(parsed(small("wiring_name = \"pre-ln\"\n", "x = x+f( norm(x) ); out = norm(x)"))
                .findings.size(),
            0U);
  EXPECT_EQ(
      parsed(small("wiring_name = \"mine\"\n", "x = x+f(norm(x)); out = norm(x)")).findings.size(),
      0U);
}

// The resolved text of a run: sources stay what they were, a name that is gone is said.
TEST(Listing, SourcesSurviveReadingAgain) {
  const auto& catalogue = formula::Catalogue::builtin();
  for (const char* wiring :
       {"deepnorm", "mix-ln",
        "block[1..1]: x = norm(x + f(x)) # flag\\nblock: x = x + f(norm(x))"}) {
    const auto spec =
        parsed(small("", wiring) +
                   "[init]\nhead = \"zeros\"\n[data]\nsource = "
                   "\"a  # flag\"\n[train]\nsteps = 5\nlr = 1e-3\n[train.decay]\nq = 0.5\n",
               {{"model.ffn", "24"}}, Needs::training);
    const std::string text = model::resolved_toml(spec);
    SCOPED_TRACE(text);
    const auto again = model::parse_resolved(text, "spec.toml", {}, Needs::training, catalogue);
    EXPECT_EQ(model::resolved_toml(again), text);
    EXPECT_EQ(again.sources.at("model.ffn"), model::Source::flag);
    EXPECT_EQ(again.sources.at("train.decay.q"), model::Source::file);
    EXPECT_EQ(again.sources.at("train.batch"), model::Source::default_value);
    const auto changed =
        model::parse_resolved(text, "spec.toml", {{"train.lr", "0.5"}}, Needs::training, catalogue);
    EXPECT_EQ(changed.sources.at("train.lr"), model::Source::flag);
    EXPECT_EQ(changed.sources.at("train.steps"), model::Source::file);
    EXPECT_EQ(changed.sources.at("train.batch"), model::Source::default_value);
  }
  std::string text = model::resolved_toml(parsed(small("", "deepnorm")));
  text.replace(text.find("\"deepnorm\""), 10, "\"forgotten\"");
  const auto gone = model::parse_resolved(text, "spec.toml", {}, Needs::model, catalogue);
  EXPECT_TRUE(contains(warnings(gone), "\"forgotten\" is not in the catalogue")) << warnings(gone);
}

// `addnorm spec > my.toml` is a specification for every verb.
TEST(Listing, CommentedDefaultIsEnoughForTheModelAlone) {
  EXPECT_EQ(parsed(model::commented_default()).model.vocab, 256);
  EXPECT_EQ(parsed(model::commented_default(), {{"model.kind", "encoder"}}).model.vocab, 260);
}

TEST(Listing, CommentedDefaultLoads) {
  const std::string text = model::commented_default();
  const auto spec = parsed(text, {}, Needs::training);
  EXPECT_EQ(spec.model.layers, 6);
  EXPECT_EQ(spec.train.lr, 1e-3);
  EXPECT_EQ(spec.data.source, std::vector<std::string>{"corpus.txt"});
  EXPECT_EQ(spec.findings.size(), 0U) << warnings(spec);
  // It is what a text alone trains with.
  expect_same(spec, model::for_text("corpus.txt", {}, formula::Catalogue::builtin()));
  for (const model::Key& key : model::keys()) {
    EXPECT_TRUE(contains(text, "\n" + key.name() + " = ") ||
                contains(text, "\n# " + key.name() + " = "))
        << key.path;
  }
  for (const std::string& line : split(text, '\n')) EXPECT_LE(line.size(), 110U) << line;
}

TEST(Listing, DocumentationIsUpToDate) {
  const std::string file = read_file(ADDNORM_SOURCE_DIR "/docs/specification.md");
  EXPECT_EQ(file, model::documentation()) << "write it anew: addnorm spec --docs";
  for (const model::Key& key : model::keys()) {
    EXPECT_TRUE(contains(file, "| `" + key.name() + "` |")) << key.path;
  }
}

TEST(Listing, HelpOfFlags) {
  const auto lines = model::flag_lines("train");
  EXPECT_EQ(lines.size(), 24U);
  EXPECT_TRUE(contains(lines[0], "--train.steps"));
  EXPECT_EQ(model::flag_lines().size(), model::keys().size());
}

}  // namespace
}  // namespace addnorm::test
