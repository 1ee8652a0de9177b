// Cases N1, N3, G7 and P7 of cases.md, through `addnorm grad` and `addnorm inspect`.
#include "cases/support.h"

namespace addnorm::cases {
namespace {

// ---- N1, G7: the first non-finite tensor

class NonFinite : public testing::Test {
 protected:
  // The zero model with the numbers that overflow float: 10 behind the first matrix of the ffn of
  // `layer`, `weight` in its second.
  Graded overflow(const Arguments& arguments, const model::Overrides& overrides = {}, int layer = 0,
                  double weight = 3.4e38) {
    const std::string block = "blocks." + std::to_string(layer) + ".ffn.";
    const graph::Graph graph = lowered(zero_toml(), overrides);
    Tensors values = zero_weights(graph);
    values.at(block + "in.bias")[0] = 10;
    values.at(block + "out.weight")[0] = weight;
    Arguments all = arguments;
    for (const auto& [key, value] : overrides) all.insert(all.end(), {"--" + key, value});
    return bench_.grad(bench_.write("zero.toml", zero_toml()),
                       bench_.weights("w.safetensors", graph, values),
                       bench_.batch("b.safetensors", tokens({{98, 97}}, {{97, 98}})), all);
  }
  Bench bench_;
};
using N1 = NonFinite;
using G7 = NonFinite;

TEST_F(N1, AnOverflowNamesTheFirstTensorAndWritesNothing) {
  for (const char* wiring : {"pre-ln", "post-ln", "peri-ln", "parallel"}) {
    for (const char* activation : {"relu", "gelu", "silu"}) {  // fused with the bias before them
      const model::Overrides overrides = {{"model.wiring", wiring},
                                          {"model.activation", activation}};
      for (const Precision& precision : precisions()) {
        const Graded graded = overflow(precision.arguments, overrides);
        const std::string where = std::string(wiring) + ", " + activation + ", " + precision.name;
        if (std::string(precision.name) == "double") {
          EXPECT_EQ(graded.ran.code, 0) << where << graded.ran.err;
          expect_finite(graded.tensors);
          continue;
        }
        EXPECT_EQ(graded.ran.code, 3) << where;
        EXPECT_FALSE(graded.written) << where;
        EXPECT_TRUE(graded.ran.says("blocks.0.ffn.out")) << where << graded.ran.err;
        EXPECT_FALSE(graded.ran.says("backward")) << where << graded.ran.err;
        EXPECT_TRUE(graded.ran.says("sequence 0, token 0")) << where << graded.ran.err;
      }
    }
  }
}

TEST_F(N1, NonFiniteWeightsAreRefusedAndCounted) {
  for (const double bad : {double(INFINITY), -double(INFINITY), double(NAN)}) {
    for (const Precision& precision : precisions()) {
      const Graded graded = overflow(precision.arguments, {}, 0, bad);
      EXPECT_EQ(graded.ran.code, 3) << precision.name;
      EXPECT_FALSE(graded.written);
      EXPECT_TRUE(graded.ran.says("blocks.0.ffn.out.weight") && graded.ran.says("index 0"))
          << graded.ran.err;
    }
    const Ran inspected = bench_.run({"inspect", bench_.path("w.safetensors").string()});
    EXPECT_EQ(inspected.code, 0) << inspected.err;
    EXPECT_TRUE(inspected.prints("1 non-finite value")) << inspected.out;
  }
}

TEST_F(N1, AWeightThatOverflowsFloatOnlyIsNonFiniteOnlyThere) {
  EXPECT_EQ(overflow({"--precision", "double"}, {}, 0, 3.4e39).ran.code, 0);
  EXPECT_EQ(overflow({"--precision", "float"}, {}, 0, 3.4e39).ran.code, 3);
}

TEST_F(G7, TheProducerIsNamedWithTheRangeOfItsInput) {
  for (const Precision& precision : {precisions()[1], precisions()[2]}) {
    const Graded graded = overflow(precision.arguments, {{"model.layers", "4"}}, 2);
    EXPECT_EQ(graded.ran.code, 3);
    EXPECT_FALSE(graded.written);
    EXPECT_TRUE(graded.ran.says("first non-finite one in blocks.2.ffn.out")) << graded.ran.err;
    EXPECT_TRUE(graded.ran.says(" in 0..10")) << graded.ran.err;
    // What only passes it on comes after it.
    const std::string& text = graded.ran.err;
    EXPECT_LT(text.find("blocks.2.ffn.out"), text.find("blocks.3.attn")) << text;
    EXPECT_TRUE(graded.ran.says("blocks.3.attn")) << text;
  }
}

TEST_F(G7, TheDerivativeOfALengthAtZeroIsZero) {
  const std::string wiring = "b = ffn(norm(x)); x = x + attn(norm(x))*rms(b)";
  const graph::Graph graph = lowered(zero_toml(), {{"model.wiring", wiring}});
  for (const Precision& precision : precisions()) {
    Arguments arguments = precision.arguments;
    arguments.insert(arguments.end(), {"--model.wiring", wiring});
    const Graded graded =
        bench_.grad(bench_.write("zero.toml", zero_toml()),
                    bench_.weights("w.safetensors", graph, zero_weights(graph)),
                    bench_.batch("b.safetensors", tokens({{97, 98}}, {{98, 97}})), arguments);
    EXPECT_EQ(graded.ran.code, 0) << precision.name << graded.ran.err;
    expect_finite(graded.tensors);
  }
}

TEST_F(G7, TheRootAtZeroIsNamedAsTheProducerInTheBackwardPass) {
  const std::string wiring = "b = ffn(norm(x)); x = x + sqrt(abs(b)); out = norm(x)";
  const std::string spec = bench_.write("zero.toml", zero_toml());
  const graph::Graph graph = lowered(zero_toml(), {{"model.wiring", wiring}});
  const std::string weights = bench_.weights("w.safetensors", graph, zero_weights(graph));
  const std::string batch = bench_.batch("b.safetensors", tokens({{97}}, {{97}}));
  for (const Precision& precision : precisions()) {
    Arguments arguments = precision.arguments;
    arguments.insert(arguments.end(), {"--model.wiring", wiring});
    const Graded graded = bench_.grad(spec, weights, batch, arguments);
    EXPECT_EQ(graded.ran.code, 3) << precision.name;
    EXPECT_FALSE(graded.written) << precision.name;
    for (const char* text : {"backward", "sqrt", "1:27", "0..0", "loss 6.89572"}) {
      EXPECT_TRUE(graded.ran.says(text))
          << precision.name << ", " << text << ": " << graded.ran.err;
    }
  }
}

// ---- N3: rows whose keys are all masked

class N3 : public testing::Test {
 protected:
  // The zero model whose attention is the mean of the visible normed values.
  Graded mean_attention(const nodes::Batch& batch, const Arguments& arguments,
                        const std::string& kind = "decoder", double bias = 0) {
    const graph::Graph graph = lowered(zero_toml(), {{"model.kind", kind}});
    Tensors values = zero_weights(graph);
    for (size_t i = 0; i < 4; ++i) {
      values.at("blocks.0.attn.v.weight")[i * 5] = values.at("blocks.0.attn.o.weight")[i * 5] = 1;
      values.at("blocks.0.attn.o.bias")[i] = bias;
    }
    Arguments all = arguments;
    all.insert(all.end(), {"--model.kind", kind});
    Graded graded = bench_.grad(bench_.write("zero.toml", zero_toml()),
                                bench_.weights("w.safetensors", graph, values),
                                bench_.batch("b.safetensors", batch), all);
    EXPECT_EQ(graded.ran.code, 0) << graded.ran.err;
    expect_finite(graded.tensors);
    return graded;
  }
  static void expect_row(const Values& got, int64_t row, const Values& want, double tolerance) {
    EXPECT_LE(distance(rows_of(got, 4, row, 1), want), tolerance) << "row " << row;
  }
  Bench bench_;
  const Values a_{-1.3416408, -0.4472136, 0.4472136, 1.3416408}, zero_{0, 0, 0, 0};
  const Values mean_{0.1952050, -0.5122819, -0.0650683, 0.3821453};
  static constexpr double digits = 1e-7, float_digits = 1e-6;
};

TEST_F(N3, AMaskedSequenceGivesZeroAndTakesNothing) {
  const std::string out = "point:blocks.0.attn.out";
  for (const char* kind : {"decoder", "encoder"}) {
    const bool decoder = std::string(kind) == "decoder";
    for (const Precision& precision : precisions()) {
      const double near = precision.tolerance > 1e-8 ? float_digits : digits;
      const Graded both =
          mean_attention(tokens({{97, 98}, {97, 98}}, {{98, 97}, {-100, -100}}, {{1, 1}, {0, 0}}),
                         precision.arguments, kind);
      expect_row(both[out], 0, decoder ? a_ : mean_, near);
      expect_row(both[out], 1, mean_, near);
      expect_row(both[out], 2, zero_, 0);
      expect_row(both[out], 3, zero_, 0);
      EXPECT_EQ(occurrences(both.ran.err, "warning"), 1U) << both.ran.err;
      EXPECT_TRUE(both.ran.says("2 attention rows")) << both.ran.err;
      // Sequence 0 alone is the same computation.
      const Graded alone =
          mean_attention(tokens({{97, 98}}, {{98, 97}}), precision.arguments, kind);
      for (const auto& [name, want] : alone.tensors) {
        Values got = both[name];
        const bool per_token = name.find("point:") != std::string::npos || name == "logits";
        if (per_token) {
          const auto half = static_cast<std::ptrdiff_t>(got.size() / 2);
          if (name.starts_with("grad_point:")) {
            EXPECT_EQ(largest({got.begin() + half, got.end()}), 0)
                << name << ", " << precision.name;
          }
          got.resize(static_cast<size_t>(half));
        }
        if (precision.reference) {
          EXPECT_EQ(got, want) << name << ", " << precision.name << ", " << kind;
        } else {
          EXPECT_LE(distance(got, want), 1e-6 * std::max(largest(want), 1e-3))
              << name << ", " << kind;
        }
      }
    }
  }
}

TEST_F(N3, CausalRowsThatSeeOnlyMaskedKeysGiveZero) {
  std::vector<int32_t> ids(16, 97), targets(16, -100);
  std::vector<uint8_t> mask(16, 0);
  ids[15] = 98;
  for (size_t i = 12; i < 16; ++i) {
    mask[i] = 1;
    targets[i] = 97;
  }
  for (const Precision& precision : precisions()) {
    const double near = precision.tolerance > 1e-8 ? float_digits : digits;
    const Graded graded = mean_attention(tokens({ids}, {targets}, {mask}), precision.arguments);
    const Values& out = graded["point:blocks.0.attn.out"];
    for (int64_t row = 0; row < 12; ++row) expect_row(out, row, zero_, 0);
    for (int64_t row = 12; row < 15; ++row) expect_row(out, row, a_, near);
    expect_row(out, 15, {-0.5732179, -0.4797478, 0.1910726, 0.8618930}, near);
    EXPECT_TRUE(graded.ran.says("12 attention rows")) << graded.ran.err;
    EXPECT_EQ(occurrences(graded.ran.err, "warning"), 1U) << graded.ran.err;
  }
}

TEST_F(N3, EveryLengthAndEngineAgreesAndTheBiasIsWhatIsLeft) {
  for (const int length : {1, 2, 16, 100}) {
    for (const char* kind : {"decoder", "encoder"}) {
      std::vector<std::vector<int32_t>> ids(3), targets(3);
      std::vector<std::vector<uint8_t>> mask(3);
      for (size_t row = 0; row < 3; ++row) {
        for (int i = 0; i < length; ++i) {
          ids[row].push_back(97 + (i + static_cast<int>(row)) % 3);
          targets[row].push_back(97);
          mask[row].push_back(row == 1 ? 0 : row == 2 ? i >= length / 2 : 1);
        }
      }
      const nodes::Batch batch = tokens(ids, targets, mask);
      const Graded exact = mean_attention(batch, precisions()[0].arguments, kind, 0.5);
      for (const Precision& precision : precisions()) {
        const Graded graded = mean_attention(batch, precision.arguments, kind, 0.5);
        const Values& out = graded["point:blocks.0.attn.out"];
        for (int i = 0; i < length; ++i) expect_row(out, length + i, {0.5, 0.5, 0.5, 0.5}, 0);
        for (const auto& [name, want] : exact.tensors) {
          EXPECT_LE(distance(graded[name], want),
                    5 * precision.tolerance * std::max(largest(want), 1e-2))
              << name << ", " << precision.name << ", " << kind << ", " << length;
        }
      }
    }
  }
}

// ---- P7

TEST(P7, EachActivationIsItself) {
  const Bench bench;
  const std::string toml =
      "[model]\nkind = \"decoder\"\nlayers = 1\nwidth = 4\nheads = 1\nffn = 4\npositions = "
      "\"none\"\nvocab = 5\n"
      "context = 8\ntie_embeddings = false\nbias = false\nwiring = \"x = x + ffn(x)\"\n";
  const std::string spec = bench.write("act.toml", toml);
  const graph::Graph graph = lowered(toml);
  Tensors values;
  for (const graph::Parameter& parameter : graph.parameters) {
    values[parameter.name].assign(static_cast<size_t>(parameter.size()), 0);
  }
  const Values x{-3, -1, 0, 1, 3};
  for (size_t i = 0; i < 5; ++i) values["embed.tokens.weight"][i * 4] = x[i];
  for (size_t i = 0; i < 4; ++i) {
    values["blocks.0.ffn.in.weight"][i * 5] = values["blocks.0.ffn.out.weight"][i * 5] = 1;
  }
  const std::string weights = bench.weights("w.safetensors", graph, values);
  const std::string batch =
      bench.batch("b.safetensors", tokens({{0, 1, 2, 3, 4}}, {{0, 1, 2, 3, 4}}));
  const std::map<std::string, Values> table = {
      {"gelu", {-0.004049694, -0.158655254, 0, 0.841344746, 2.995950306}},
      {"gelu_tanh", {-0.003637392, -0.158808009, 0, 0.841191991, 2.996362608}},
      {"silu", {-0.142277620, -0.268941421, 0, 0.731058579, 2.857722380}},
      {"relu", {0, 0, 0, 1, 3}},
      {"relu2", {0, 0, 0, 1, 9}}};
  for (const auto& [name, want] : table) {
    for (const Precision& precision : precisions()) {
      Arguments arguments = precision.arguments;
      arguments.insert(arguments.end(), {"--model.activation", name});
      const Graded graded = bench.grad(spec, weights, batch, arguments);
      ASSERT_EQ(graded.ran.code, 0) << graded.ran.err;
      for (size_t i = 0; i < 5; ++i) {
        const double tolerance = 6e-10 + (precision.tolerance > 1e-8 ? 1e-7 * std::abs(x[i]) : 0);
        EXPECT_NEAR(graded["point:blocks.0.ffn.out"][i * 4], want[i], tolerance)
            << name << ", " << precision.name;
      }
    }
  }
}

TEST(P7, UnknownActivationsAreRefusedNeverMapped) {
  const Bench bench;
  const std::string spec = bench.write("zero.toml", zero_toml());
  for (const char* name : {"quick_gelu", "geluu", "gelu_fast", "GELU"}) {
    const Ran ran = bench.run({"inspect", spec, "--model.activation", name});
    EXPECT_EQ(ran.code, 2) << name;
    EXPECT_TRUE(ran.says(name)) << ran.err;
  }
  EXPECT_TRUE(bench.run({"inspect", spec, "--model.activation", "geluu"}).says("try \"gelu\""));
}

}  // namespace
}  // namespace addnorm::cases
