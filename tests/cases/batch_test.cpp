// Cases T2 and T3 of cases.md: padding through `addnorm grad`, `eval` and `generate`, and ids outside the
// vocabulary.
#include <nlohmann/json.hpp>

#include "cases/support.h"

namespace addnorm::cases {
namespace {

std::string toml(const std::string& positions, const std::string& kind = "decoder") {
  return "[model]\nkind = \"" + kind +
         "\"\nlayers = 2\nwidth = 8\nheads = 2\nvocab = 30\ncontext = 16\ntie_embeddings = "
         "false\npositions = \"" +
         positions + "\"\nwiring = \"pre-ln\"\n";
}

// ---- T2: two prompts of 2 and 5 tokens, padded with id 0.
const std::vector<std::vector<int32_t>> prompts = {{7, 8}, {3, 9, 4, 1, 12}};
const std::vector<std::vector<int32_t>> targets = {{8, 9}, {9, 4, 1, 12, 2}};

nodes::Batch padded(bool left) {
  std::vector<std::vector<int32_t>> ids, to;
  std::vector<std::vector<uint8_t>> mask;
  for (size_t row = 0; row < 2; ++row) {
    const size_t missing = 5 - prompts[row].size();
    const auto fill = [&](auto values, auto pad) {
      values.insert(left ? values.begin() : values.end(), missing, pad);
      return values;
    };
    ids.push_back(fill(prompts[row], 0));
    to.push_back(fill(targets[row], -100));
    mask.push_back(fill(std::vector<uint8_t>(prompts[row].size(), 1), uint8_t{0}));
  }
  return tokens(ids, to, mask);
}

TEST(T2, PaddingChangesNoResult) {
  const Bench bench;
  for (const char* kind : {"decoder", "encoder"}) {
    for (const char* positions : {"learned", "sinusoidal", "rope", "alibi", "t5", "none"}) {
      const std::string spec = bench.write("spec.toml", toml(positions, kind));
      const graph::Graph graph = lowered(toml(positions, kind));
      for (const Precision& precision : precisions()) {
        Tensors values = random_weights(graph);
        const auto grad = [&](const nodes::Batch& batch) {
          Graded graded = bench.grad(spec, bench.weights("w.safetensors", graph, values),
                                     bench.batch("b.safetensors", batch), precision.arguments);
          EXPECT_EQ(graded.ran.code, 0) << graded.ran.err;
          return graded;
        };
        const Graded alone[] = {grad(tokens({prompts[0]}, {targets[0]})),
                                grad(tokens({prompts[1]}, {targets[1]}))};
        for (const bool left : {false, true}) {
          Tensors first;
          for (const double embedding : {0.0, 1e6}) {
            std::fill_n(values.at("embed.tokens.weight").begin(), 8, embedding);
            const Graded both = grad(padded(left));
            const std::string where = std::string(kind) + ", " + positions + ", " + precision.name +
                                      (left ? ", left" : ", right");
            for (size_t row = 0; row < 2; ++row) {
              const auto count = static_cast<int64_t>(prompts[row].size());
              const int64_t begin = static_cast<int64_t>(row) * 5 + (left ? 5 - count : 0);
              const Values got = rows_of(both["logits"], 30, begin, count);
              const Values& want = alone[row]["logits"];
              if (precision.reference) {
                EXPECT_EQ(got, want) << where << ", row " << row;
              } else {
                EXPECT_LE(distance(got, want), 1e-6 * largest(want)) << where << ", row " << row;
              }
            }
            // 2 and 5 targets: the loss and every gradient are the weighted means.
            for (const auto& [name, got] : both.tensors) {
              if (name != "loss" && !name.starts_with("grad:")) continue;
              Values want = alone[0][name];
              for (size_t i = 0; i < want.size(); ++i)
                want[i] = (2 * want[i] + 5 * alone[1][name][i]) / 7;
              const double tolerance = precision.tolerance > 1e-8 ? 1e-5 : 1e-12;
              EXPECT_LE(distance(got, want), tolerance * std::max(largest(want), 0.1))
                  << where << ", " << name;
            }
            const Values pad = rows_of(both["grad:embed.tokens.weight"], 8, 0, 1);
            EXPECT_EQ(largest(pad), 0) << where;
            // The padding's embedding changes nothing that is real.
            if (embedding == 0) {
              first = both.tensors;
            } else {
              for (const auto& [name, got] : both.tensors) {
                if (name == "loss" || name.starts_with("grad:")) {
                  EXPECT_EQ(got, first.at(name)) << where << ", " << name;
                }
              }
            }
          }
        }
      }
    }
  }
}

// Documents of 2 and 5 tokens (and the byte that the last one predicts) in rows of their own.
class T2Text : public testing::Test {
 protected:
  std::string text_toml(const std::string& kind, const std::string& positions) const {
    const bool pair = kind == "encoder-decoder";
    return "[model]\nkind = \"" + kind + "\"\n" +
           (pair ? "encoder_layers = 1\ndecoder_layers = 1\n" : "layers = 2\n") +
           "width = 8\nheads = 2\nvocab = " + (kind == "decoder" ? "256" : "260") +
           "\ncontext = 16\ntie_embeddings = false\npositions = \"" + positions +
           "\"\nwiring = \"pre-ln\"\n[data]\nsource = \"" + bench_.path("both.txt").string() +
           "\"\nvalidation = 0\n" + (pair ? "" : "documents = \"lines\"\n") +
           "[train]\nsteps = 1\nbatch = 2\nlr = 1e-30\nthreads = 2\n";
  }
  struct Evaluated {
    double sum = 0;
    int64_t tokens = 0;
  };
  Evaluated eval(const std::string& spec, const std::string& weights,
                 const std::string& file) const {
    const Ran ran = bench_.run({"eval", spec, "--weights", weights, "--data", file, "--json"});
    EXPECT_EQ(ran.code, 0) << ran.err;
    if (ran.code != 0) return {};
    const auto json = nlohmann::json::parse(ran.out);
    return {json.at("sum"), json.at("tokens")};
  }
  // All rows of token tables for the padding id.
  static void set_padding(Tensors& values, size_t id, double embedding) {
    for (auto& [name, table] : values) {
      if (!name.ends_with("embed.tokens.weight")) continue;
      std::fill_n(table.begin() + static_cast<std::ptrdiff_t>(id * 8), 8, embedding);
    }
  }
  Bench bench_;
};

TEST_F(T2Text, EvalJudgesEveryDocumentAsIfItWereAlone) {
  for (const std::string kind : {"decoder", "encoder", "encoder-decoder"}) {
    const bool pair = kind == "encoder-decoder";
    const std::string documents[] = {pair ? "ab\tx" : "abc", pair ? "defgh\tuvwy" : "defghi"};
    const std::string both = bench_.write("both.txt", documents[0] + "\n" + documents[1] + "\n");
    const std::string alone[] = {bench_.write("one.txt", documents[0] + "\n"),
                                 bench_.write("two.txt", documents[1] + "\n")};
    for (const char* positions : {"learned", "sinusoidal", "rope", "alibi", "t5", "none"}) {
      const std::string where = kind + ", " + positions;
      const std::string toml = text_toml(kind, positions);
      const std::string spec = bench_.write("spec.toml", toml);
      const graph::Graph graph = lowered(toml);
      Tensors values = random_weights(graph);
      double first = 0;
      for (const double embedding : {0.0, 1e6}) {
        set_padding(values, kind == "decoder" ? 0 : 256, embedding);
        const std::string weights = bench_.weights("w.safetensors", graph, values);
        const Evaluated together = eval(spec, weights, both);
        EXPECT_GT(together.tokens, 0) << where;
        if (embedding == 0) {
          first = together.sum;
        } else {
          EXPECT_EQ(together.sum, first) << where;
        }
        if (kind == "encoder") continue;  // which tokens are masked depends on the row
        const Evaluated one = eval(spec, weights, alone[0]), two = eval(spec, weights, alone[1]);
        EXPECT_EQ(one.tokens, 2) << where;
        EXPECT_EQ(two.tokens, 5) << where;
        EXPECT_EQ(together.tokens, 7) << where;
        EXPECT_NEAR(together.sum / (one.sum + two.sum), 1, 1e-6) << where;
      }
    }
  }
}

// A prompt is a batch of its own, without padding: what it gives is what `grad` says of it alone.
TEST_F(T2Text, GenerateGoesOnFromThePromptAlone) {
  bench_.write("both.txt", "abc\ndefghi\n");
  for (const char* positions : {"learned", "sinusoidal", "rope", "alibi", "t5", "none"}) {
    const std::string toml = text_toml("decoder", positions);
    const graph::Graph graph = lowered(toml);
    const std::string spec = bench_.write("spec.toml", toml);
    Tensors values = random_weights(graph);
    for (const double embedding : {0.0, 1e6}) {
      set_padding(values, 0, embedding);
      const std::string weights = bench_.weights("w.safetensors", graph, values);
      const std::string run = bench_.path("run").string();
      fs::remove_all(run);
      const Ran trained = bench_.run({"train", spec, "--weights", weights, "--run", run});
      ASSERT_EQ(trained.code, 0) << trained.err;  // at a rate that changes no weight
      for (const std::string prompt : {"ab", "defgh"}) {
        std::vector<int32_t> ids(prompt.begin(), prompt.end());
        for (int i = 0; i < 2; ++i) {
          const Graded graded = bench_.grad(
              spec, weights,
              bench_.batch("b.safetensors", tokens({ids}, {std::vector<int32_t>(ids.size(), 1)})));
          const auto last = graded["logits"].end() - 256;
          ids.push_back(static_cast<int32_t>(std::max_element(last, last + 256) - last));
          ASSERT_NE(ids.back(), 0) << "another seed of the weights is needed";
        }
        const std::string text(ids.begin(), ids.end());
        const Ran ran = bench_.run(
            {"generate", run, "--prompt", prompt, "--tokens", "2", "--temperature", "0"});
        EXPECT_EQ(ran.code, 0) << ran.err;
        EXPECT_EQ(ran.out, text + "\n") << positions;
      }
    }
  }
}

// ---- T3

TEST(T3, IdsOutsideTheVocabularyAreNamed) {
  const Bench bench;
  const std::string text =
      "[model]\nkind = \"decoder\"\nlayers = 1\nwidth = 8\nheads = 2\nvocab = 100\ncontext = 16\n"
      "wiring = \"pre-ln\"\n";
  const std::string spec = bench.write("spec.toml", text);
  const graph::Graph graph = lowered(text);
  const std::string weights = bench.weights("w.safetensors", graph, random_weights(graph));
  const auto with = [&](const char* tensor, int64_t id, bool under_mask) {
    std::vector<int64_t> ids(6, 5), to(6, 6);
    (std::string(tensor) == "tokens" ? ids : to)[4] = id;
    const std::vector<uint8_t> mask = {1, 1, 1, 1, static_cast<uint8_t>(under_mask ? 0 : 1), 1};
    const std::string path = bench.path("b.safetensors").string();
    checkpoint::write_safetensors(path,
                                  {{"tokens", checkpoint::ElementType::i64, {2, 3}, ids.data(), {}},
                                   {"targets", checkpoint::ElementType::i64, {2, 3}, to.data(), {}},
                                   {"mask", checkpoint::ElementType::u8, {2, 3}, mask.data(), {}}});
    return bench.grad(spec, weights, path);
  };
  for (const char* tensor : {"tokens", "targets"}) {
    for (const bool under_mask : {false, true}) {
      const Graded last = with(tensor, 99, under_mask);
      EXPECT_EQ(last.ran.code, 0) << last.ran.err;
      for (const int64_t id : {int64_t{-1}, int64_t{100}, int64_t{1} << 31, -(int64_t{1} << 40)}) {
        const Graded graded = with(tensor, id, under_mask);
        EXPECT_EQ(graded.ran.code, 2) << tensor << " " << id;
        EXPECT_FALSE(graded.written);
        for (const std::string& part :
             {std::to_string(id), std::string(tensor), std::string("0..99"),
              std::string("sequence 1"), std::string("position 1")}) {
          EXPECT_TRUE(graded.ran.says(part)) << part << ": " << graded.ran.err;
        }
      }
    }
  }
  // -100 is a target that does not count, never a token.
  EXPECT_EQ(with("targets", -100, false).ran.code, 0);
  EXPECT_EQ(with("tokens", -100, false).ran.code, 2);
}

}  // namespace
}  // namespace addnorm::cases
