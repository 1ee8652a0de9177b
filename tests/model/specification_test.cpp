// The strict parser: every problem at once with file, line, key and the nearest key; overrides;
// defaults that follow from other keys; what several keys mean together.
#include "addnorm/model/specification.h"

#include <gtest/gtest.h>

#include <fstream>

#include "addnorm/base/files.h"
#include "support.h"

namespace addnorm::test {
namespace {

using model::Needs;
using model::Source;

TEST(Specification, SizesFollowFromWidthAndHeads) {
  const auto spec = parsed(small());
  EXPECT_EQ(spec.model.kv_heads, 4);
  EXPECT_EQ(spec.model.head_dim, 4);
  EXPECT_EQ(spec.model.ffn, 64);
  EXPECT_EQ(spec.sources.at("model.ffn"), Source::default_value);
  EXPECT_EQ(spec.sources.at("model.width"), Source::file);
  EXPECT_EQ(spec.model.activation, "gelu");
  EXPECT_FALSE(spec.model.norm_eps.has_value());
  EXPECT_EQ(spec.findings.size(), 0U) << warnings(spec);

  const auto changed = parsed(small("kv_heads = 2\nhead_dim = 6\nffn = 10\n"));
  EXPECT_EQ(changed.model.kv_heads, 2);
  EXPECT_EQ(changed.model.head_dim, 6);
  EXPECT_EQ(changed.model.ffn, 10);
}

TEST(Specification, AllProblemsComeAtOnceInTheOrderOfTheFile) {
  const std::string text = problems(
      "[model]\n"              // 1
      "kind = \"decodr\"\n"    // 2
      "layers = 2.5\n"         // 3
      "widht = 16\n"           // 4
      "heads = 0\n"            // 5
      "lr = 0.1\n"             // 6
      "vocab = 10\n"           // 7
      "context = \"long\"\n"   // 8
      "wiring = \"pre-lm\"\n"  // 9
      "[modle]\n"              // 10
      "x = 1\n"
      "[init]\n"  // 12
      "q = \"norml(1)\"\n"
      "ffn_ot = \"zeros\"\n");  // 14
  EXPECT_TRUE(contains(text,
                       "spec.toml:2: model.kind] expected one of decoder encoder encoder-decoder, "
                       "got \"decodr\"; try \"decoder\""))
      << text;
  EXPECT_TRUE(contains(text, "spec.toml:3: model.layers] expected a whole number of at least 1"))
      << text;
  EXPECT_TRUE(contains(text, "spec.toml:4: model.widht]")) << text;
  EXPECT_TRUE(contains(text, "try `[model] width`")) << text;
  EXPECT_TRUE(contains(text,
                       "spec.toml:5: model.heads] expected a whole number of at least 1 and of "
                       "at most 1e+09, got 0"))
      << text;
  EXPECT_TRUE(contains(text, "spec.toml:6: model.lr]")) << text;
  EXPECT_TRUE(contains(text, "try `[train] lr`")) << text;
  EXPECT_TRUE(contains(text, "spec.toml:8: model.context] expected a whole number")) << text;
  EXPECT_TRUE(contains(text, "got \"long\"")) << text;
  EXPECT_TRUE(contains(text, "spec.toml:10: modle]")) << text;
  EXPECT_TRUE(contains(text, "try `[model]`")) << text;
  EXPECT_TRUE(contains(text, "spec.toml:13: init.q]")) << text;
  EXPECT_TRUE(contains(text, "try normal")) << text;
  EXPECT_TRUE(contains(text, "try `[init] ffn_out`")) << text;
  EXPECT_TRUE(contains(text, "spec.toml: model.width] expected a whole number")) << text;
  EXPECT_TRUE(contains(text, "the key is required; try `width = 256`")) << text;
  size_t last = 0;
  for (const char* line : {":2:", ":3:", ":4:", ":5:", ":6:", ":8:", ":10:", ":13:", ":14:"}) {
    const size_t at = text.find(line);
    ASSERT_NE(at, std::string::npos) << line;
    EXPECT_GT(at, last) << line;
    last = at;
  }
}

TEST(Specification, ProblemsOfTheFormulaStandBesideThoseOfKeys) {
  const std::string text = problems(small("dropout = 1.5\n", "x = x + f(nrom(x)); out = norm(y)"));
  EXPECT_TRUE(contains(text, "model.dropout")) << text;
  EXPECT_TRUE(contains(text, "spec.toml:8: model.wiring:1:")) << text;
  EXPECT_TRUE(contains(text, "nrom")) << text;
  EXPECT_TRUE(contains(text, "`y`") || contains(text, "y")) << text;
}

TEST(Specification, NearestNameOfAWiring) {
  const std::string text = problems(small("", "pre-lm"));
  EXPECT_TRUE(contains(text, "pre-ln")) << text;
  EXPECT_TRUE(contains(text, "spec.toml:8: model.wiring")) << text;
}

TEST(Specification, TextThatIsNoToml) {
  const std::string text = problems("[model\nkind = 3");
  EXPECT_TRUE(contains(text, "spec.toml:1:")) << text;
  EXPECT_TRUE(contains(text, "expected TOML")) << text;
  EXPECT_TRUE(contains(problems(std::string("\xff\xfe\x00\x01", 4)), "expected TOML"));
  EXPECT_TRUE(contains(problems("a = " + std::string(100000, '[')), "expected TOML"));
  EXPECT_TRUE(contains(problems(""), "model.kind"));
}

TEST(Specification, FlagsOverrideTheFile) {
  const auto spec = parsed(small(),
                           {{"model.layers", "5"},
                            {"model.wiring", "x = norm(x + f(x))"},
                            {"model.bias", "q,k"},
                            {"model.embed_scale", "sqrt(d)"},
                            {"init.q", "zeros"}},
                           Needs::model);
  EXPECT_EQ(spec.model.layers, 5);
  EXPECT_EQ(spec.model.wiring, "x = norm(x + f(x))");
  EXPECT_EQ(spec.model.wiring_name, "");
  EXPECT_EQ(spec.model.bias, (std::vector<std::string>{"q", "k"}));
  EXPECT_EQ(spec.init.at("q"), "zeros");
  EXPECT_EQ(spec.sources.at("model.layers"), Source::flag);
  EXPECT_EQ(spec.sources.at("init.q"), Source::flag);
}

TEST(Specification, ProblemsOfFlagsNameTheFlag) {
  const std::string text =
      problems(small(), {{"model.layer", "3"}, {"model.width", "wide"}, {"train.warmup", "1.5"}});
  EXPECT_TRUE(contains(text, "[--model.layer] expected a key of the specification")) << text;
  EXPECT_TRUE(contains(text, "try `[model] layers`")) << text;
  EXPECT_TRUE(contains(text, "[--model.width] expected a whole number of at least 1")) << text;
  EXPECT_TRUE(contains(text, "got \"wide\"")) << text;
  EXPECT_TRUE(contains(text, "[--train.warmup]")) << text;
  // What a value's text could add to TOML stays text.
  EXPECT_TRUE(contains(problems(small(), {{"model.width", "16\nlayers = 9"}}), "model.width"));
}

TEST(Specification, HeadsMustFit) {
  EXPECT_TRUE(contains(problems(small("head_dim = 4\n", "pre-ln"), {{"model.kv_heads", "3"}}),
                       "[--model.kv_heads] expected a divisor of heads 4, got 3"));
  const std::string text = problems(small(), {{"model.width", "18"}});
  EXPECT_TRUE(contains(text, "model.heads] expected a divisor of width 18, got 4; try 3")) << text;
  EXPECT_EQ(parsed(small("head_dim = 5\n"), {{"model.width", "18"}}).model.head_dim, 5);
}

TEST(Specification, RotaryChannels) {
  const std::string rope = "positions = \"rope\"\nhead_dim = 6\n";
  EXPECT_EQ(parsed(small(rope)).model.rotary_dim, 6);
  EXPECT_EQ(parsed(small(rope + "rotary_dim = 4\n")).model.rotary_dim, 4);
  EXPECT_TRUE(
      contains(problems(small(rope + "rotary_dim = 3\n")), "expected an even number, got 3"));
  EXPECT_TRUE(
      contains(problems(small(rope + "rotary_dim = 8\n")), "expected at most head_dim = 6"));
  EXPECT_TRUE(contains(problems(small("positions = \"rope\"\nhead_dim = 5\n")), "even head_dim"));
}

TEST(Specification, KeysWithoutEffectAreWarnings) {
  const auto spec =
      parsed(small("rope_base = 500\nrelative_buckets = 8\nnorm_eps = 1e-3\n"
                   "norm = \"dyt\"\nnorm_bias = false\n[train]\nmomentum = 0.5\n"
                   "decay_steps = 3\nmin_lr = 0\n"));
  const std::string text = warnings(spec);
  for (const char* key :
       {"rope_base", "relative_buckets", "norm_eps", "norm_bias", "momentum", "decay_steps"}) {
    EXPECT_TRUE(contains(text, std::string(key) + "] no effect")) << key << "\n" << text;
  }
  EXPECT_EQ(spec.findings.size(), 6U) << text;
  EXPECT_TRUE(contains(text, "warning [spec.toml:9: model.rope_base]")) << text;

  EXPECT_EQ(parsed(small("norm = \"dyt\"\nnorm_eps = 1e-3\n",
                         "x = x + attn(norm(x), qk=rmsnorm); x = x + ffn(norm(x)); out = norm(x)"))
                .findings.size(),
            0U);
  EXPECT_EQ(
      parsed(small("norm_eps = 1e-3\nnorm = \"dyt\"\n",
                   "x = x + attn(norm(x), qk=rmsnorm(eps=1)); x = x + ffn(norm(x)); out = norm(x)"))
          .findings.size(),
      1U);
}

TEST(Specification, KeysOfOneStackAndOfPairs) {
  const std::string pair =
      "[model]\nkind = \"encoder-decoder\"\nencoder_layers = 2\ndecoder_layers = 3\nwidth = 16\n"
      "heads = 4\nvocab = 256\ncontext = 16\n";
  const auto spec = parsed(pair + "wiring = \"deepnorm\"\n");
  EXPECT_EQ(spec.model.wiring, "");
  EXPECT_EQ(spec.model.encoder_wiring_name, "deepnorm");
  EXPECT_TRUE(contains(spec.model.encoder_wiring, "0.81")) << spec.model.encoder_wiring;
  EXPECT_TRUE(contains(spec.model.decoder_wiring, "3*M")) << spec.model.decoder_wiring;
  const auto mixed = parsed(pair + "wiring = \"post-ln\"\ndecoder_wiring = \"pre-ln\"\n");
  EXPECT_EQ(mixed.model.encoder_wiring_name, "post-ln");
  EXPECT_EQ(mixed.model.decoder_wiring_name, "pre-ln");
  // A flag for both stacks replaces what the file says of one.
  const auto flag = parsed(pair + "wiring = \"post-ln\"\ndecoder_wiring = \"pre-ln\"\n",
                           {{"model.wiring", "peri-ln"}});
  EXPECT_EQ(flag.model.decoder_wiring_name, "peri-ln");

  EXPECT_TRUE(contains(problems(pair), "model.wiring] expected"));
  EXPECT_TRUE(contains(problems(pair + "wiring = \"pre-ln\"\nlayers = 2\n"),
                       "model.layers] no key of kind = \"encoder-decoder\""));
  EXPECT_TRUE(contains(problems(small("encoder_layers = 2\n")), "model.encoder_layers] no key of"));
  EXPECT_TRUE(contains(problems(small("share_embeddings = true\n")), "model.share_embeddings]"));
  EXPECT_TRUE(contains(problems(small("[init]\nencoder.q = \"zeros\"\n")), "init.encoder.q]"));
}

TEST(Specification, SectionsThatAVerbDoesNotNeed) {
  EXPECT_NO_THROW(parsed(small()));
  const std::string text = problems(small(), {}, Needs::training);
  for (const char* key : {"data.source]", "train.steps]", "train.lr]"}) {
    EXPECT_TRUE(contains(text, key)) << text;
  }
  // Given values are judged all the same.
  EXPECT_TRUE(
      contains(problems(small("[train]\nbeta1 = 1\n")), "of at least 0 and below 1, got 1"));
}

TEST(Specification, VocabularyAndTokenizer) {
  const std::string rest = "[data]\nsource = \"a.txt\"\n[train]\nsteps = 10\nlr = 1e-3\n";
  const std::string bare =
      "[model]\nkind = \"decoder\"\nlayers = 2\nwidth = 16\nheads = 4\n"
      "context = 16\nwiring = \"pre-ln\"\n";
  EXPECT_TRUE(contains(problems(bare), "model.vocab]"));
  // Known without the text, or not.
  EXPECT_EQ(parsed(bare + rest).model.vocab, 256);
  EXPECT_EQ(parsed(bare, {{"data.tokenizer", "bytes"}}).model.vocab, 256);
  EXPECT_EQ(parsed(bare + rest, {{"model.kind", "encoder"}}).model.vocab, 260);
  EXPECT_TRUE(contains(problems(bare + rest, {{"data.tokenizer", "chars"}}),
                       "it depends on the text; try `vocab = N`"));
  EXPECT_EQ(parsed(bare + rest, {{"data.tokenizer", "chars"}}, Needs::text).model.vocab, 0);
  EXPECT_EQ(parsed(bare + rest, {}, Needs::training).model.vocab, 256);
  EXPECT_EQ(parsed(bare + rest, {{"model.kind", "encoder"}}, Needs::training).model.vocab, 260);
  EXPECT_EQ(parsed(bare + rest, {{"data.tokenizer", "chars"}}, Needs::training).model.vocab, 0);
  EXPECT_EQ(parsed(bare + rest, {{"model.vocab", "300"}}, Needs::training).model.vocab, 300);
  EXPECT_TRUE(contains(problems(bare + rest, {{"model.vocab", "200"}}, Needs::training),
                       "[--model.vocab] expected at least 256"));
}

TEST(Specification, LearningRateAndWarmup) {
  const std::string text = small("[data]\nsource = \"a.txt\"\n[train]\nsteps = 40\nlr = 1e-2\n");
  EXPECT_TRUE(contains(problems(text, {{"train.min_lr", "0.1"}}, Needs::training),
                       "expected at most lr = 0.01, got 0.1"));
  auto spec = parsed(text, {{"train.warmup", "5%"}}, Needs::training);
  EXPECT_EQ(model::warmup_steps(spec.train), 2);
  spec = parsed(text, {{"train.warmup", "6%"}}, Needs::training);
  EXPECT_EQ(model::warmup_steps(spec.train), 3);  // 2.4, rounded up
  spec = parsed(text, {{"train.warmup", "80"}}, Needs::training);
  EXPECT_EQ(model::warmup_steps(spec.train), 80);
  EXPECT_TRUE(contains(warnings(spec), "the largest learning rate reached is 0.005, not 0.01"));
  spec = parsed(text, {}, Needs::training);
  EXPECT_EQ(model::decay_steps(spec.train), 8);
  EXPECT_EQ(model::weight_decay(spec.train), 0.1);
  spec = parsed(text, {{"train.optimizer", "sgd"}}, Needs::training);
  EXPECT_EQ(model::weight_decay(spec.train), 0);
  EXPECT_TRUE(
      contains(problems(text, {{"train.warmup", "120%"}}, Needs::training), "train.warmup"));
}

TEST(Specification, NumbersThatLookRight) {
  const std::string text = small("[data]\nsource = \"a.txt\"\n[train]\nsteps = 40\nlr = 1e-2\n");
  const auto flagged = [&](const char* key, const char* value) {
    return problems(text, {{key, value}}, Needs::training);
  };
  EXPECT_EQ(parsed(text, {{"train.steps", "1e3"}}, Needs::training).train.steps, 1000);
  EXPECT_EQ(parsed(text, {{"train.warmup", "1.5E1"}}, Needs::training).train.warmup, "15");
  EXPECT_TRUE(contains(flagged("train.steps", "1e-3"), "expected a whole number")) << "1e-3";
  EXPECT_TRUE(contains(flagged("train.steps", "1e300"), "expected a whole number"));
  EXPECT_TRUE(contains(flagged("train.steps", "1000.0"),
                       "got 1000 with a decimal point or an exponent; try 1000"));
  EXPECT_TRUE(contains(problems(small("[train]\nsteps = 1e3\n")), "try 1000"));
  for (const char* value : {"inf", "nan", "-inf"}) {
    EXPECT_TRUE(contains(flagged("train.lr", value), "expected a finite number of at least 0"))
        << flagged("train.lr", value);
  }
  EXPECT_TRUE(contains(flagged("train.lr_scale.q", "inf"), "finite"))
      << flagged("train.lr_scale.q", "inf");
  for (const char* empty : {"", "  "}) {
    EXPECT_TRUE(contains(flagged("model.wiring", empty), "expected a wiring, got an empty text"))
        << flagged("model.wiring", empty);
  }
  EXPECT_TRUE(contains(flagged("data.tokenizer", ""), "got an empty one"));
}

// Weights are 32-bit floats.
TEST(Specification, RulesThatNoFloatHoldsAreRefused) {
  for (const char* rule : {"normal(1e300)", "xavier_uniform(1e37)", "constant(-1e37)"}) {
    const std::string text = problems(small(), {{"init.default", rule}});
    EXPECT_TRUE(contains(text, "[--init.default] expected a number of at most 1e36")) << text;
  }
  EXPECT_NO_THROW(parsed(small(), {{"init.default", "normal(1e30)"}}));
  const std::string over = problems(small(), {{"init.default", "normal(1e999)"}});
  EXPECT_TRUE(contains(over, "expected a number in normal(..), got `normal(1e999)`")) << over;
  EXPECT_FALSE(contains(over, "try normal")) << over;
}

TEST(Specification, ExpressionsAreJudged) {
  EXPECT_TRUE(contains(problems(small("embed_scale = \"sqrt(width)\"\n")), "got `width`"));
  EXPECT_TRUE(
      contains(problems(small("logit_scale = \"1/(L - 2)\"\n")), "expected a finite number"));
  EXPECT_TRUE(contains(problems(small("embed_scale = \"t\"\n")), "got `t`"));
  EXPECT_TRUE(contains(problems(small("embed_scale = \"sqrt(d\"\n")), "model.embed_scale]"));
  const auto shape =
      shape_of(parsed(small("embed_scale = \"sqrt(d)\"\nlogit_scale = 0.5\n"
                            "attn_scale = \"min(t/10, 1)/S\"\n")));
  EXPECT_EQ(shape.embed_scale, 4);
  EXPECT_EQ(shape.logit_scale, 0.5);
  ASSERT_TRUE(shape.attn_scale);
  EXPECT_EQ(formula::evaluate(*shape.attn_scale, {{"t", 5}}), 0.125);
  EXPECT_TRUE(contains(problems(small("attn_scale = \"t\"\n")), "at t = infinity"));
}

TEST(Specification, PairsNeedOneScaleForBothStacks) {
  const std::string pair =
      "[model]\nkind = \"encoder-decoder\"\nencoder_layers = 2\ndecoder_layers = 3\nwidth = 16\n"
      "heads = 4\nvocab = 256\ncontext = 16\nwiring = \"pre-ln\"\n";
  EXPECT_TRUE(contains(problems(pair + "embed_scale = \"L\"\n"), "expected one value for both"));
  EXPECT_EQ(shape_of(parsed(pair + "embed_scale = \"N*M\"\n")).embed_scale, 6);
}

TEST(Specification, TextAloneTakesTheListing) {
  const auto spec =
      model::for_text("my \"text\".txt", {{"model.layers", "2"}}, formula::Catalogue::builtin());
  EXPECT_EQ(spec.data.source, std::vector<std::string>{"my \"text\".txt"});
  EXPECT_EQ(spec.model.layers, 2);
  EXPECT_EQ(spec.model.width, 256);
  EXPECT_EQ(spec.model.wiring_name, "pre-ln");
  EXPECT_EQ(spec.train.steps, 1000);
  EXPECT_EQ(spec.train.lr, 1e-3);
  const auto pair =
      model::for_text("a.txt", {{"model.kind", "encoder-decoder"}}, formula::Catalogue::builtin());
  EXPECT_EQ(pair.model.encoder_layers, 6);
  EXPECT_EQ(pair.model.vocab, 260);
}

TEST(Specification, FilesOfTheGoldenCasesLoad) {
  int count = 0;
  for (const auto& folder : std::filesystem::directory_iterator(ADDNORM_TEST_DATA "/golden")) {
    if (!folder.is_directory()) continue;
    const auto spec =
        model::load(folder.path() / "spec.toml", {}, Needs::model, formula::Catalogue::builtin());
    EXPECT_GT(graph_of(spec).parameter_count(), 0) << folder.path();
    ++count;
  }
  EXPECT_EQ(count, 37);
}

TEST(Specification, MissingOrStrangeFiles) {
  const TemporaryFolder folder;
  const auto& catalogue = formula::Catalogue::builtin();
  const auto load = [&](const std::filesystem::path& path) {
    return failure_of([&] { model::load(path, {}, Needs::model, catalogue); });
  };
  EXPECT_EQ(load(folder.path() / "none.toml").first, Failure::input);
  EXPECT_EQ(load(folder.path()).first, Failure::input);
  // A text is not a specification with a thousand mistakes.
  for (const char* content : {"In the beginning = the word\n", "", "x = 1\n"}) {
    std::ofstream(folder.path() / "my.txt") << content;
    const auto [failure, message] = load(folder.path() / "my.txt");
    EXPECT_EQ(failure, Failure::input);
    EXPECT_TRUE(contains(message, "`addnorm train` and `addnorm sweep` take a text")) << message;
    EXPECT_FALSE(contains(message, "syntax")) << message;
  }
  std::ofstream(folder.path() / "spec") << small();
  EXPECT_EQ(model::load(folder.path() / "spec", {}, Needs::model, catalogue).model.layers, 2);
}

TEST(RoleFactors, ReadExpressionsAndDefaults) {
  const auto spec =
      parsed(small("[train.lr_scale]\nattn_out = \"1/sqrt(L)\"\nbias = 3\n"
                   "[train.decay]\nembed = 0\nnorm = 0.5\n"));
  const auto shape = shape_of(spec);
  using graph::Role;
  const auto side = graph::StackSide::single;
  EXPECT_DOUBLE_EQ(model::lr_scale(spec.train, shape, Role::attn_out, side), std::sqrt(0.5));
  EXPECT_EQ(model::lr_scale(spec.train, shape, Role::bias, side), 3);
  EXPECT_EQ(model::lr_scale(spec.train, shape, Role::q, side), 1);
  EXPECT_EQ(model::decay_scale(spec.train, shape, Role::embed, side), 0);
  EXPECT_EQ(model::decay_scale(spec.train, shape, Role::norm, side), 0.5);
  EXPECT_EQ(model::decay_scale(spec.train, shape, Role::bias, side), 0);
  EXPECT_EQ(model::decay_scale(spec.train, shape, Role::param, side), 0);
  EXPECT_EQ(model::decay_scale(spec.train, shape, Role::q, side), 1);
  EXPECT_TRUE(contains(problems(small("[train.decay]\nq = \"1/(L - 2)\"\n")), "train.decay.q"));
}

}  // namespace
}  // namespace addnorm::test
