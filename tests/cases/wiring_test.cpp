// Cases W2, W4, W5, W6 and W7 of cases.md, through the program.
#include <nlohmann/json.hpp>

#include "addnorm/formula/catalogue.h"
#include "addnorm/formula/check.h"
#include "cases/support.h"

namespace addnorm::cases {
namespace {

// ---- W2

struct Inspected {
  Ran ran;
  nlohmann::json json;
};
Inspected inspect(const Bench& bench, const std::string& spec, Arguments arguments = {}) {
  arguments.insert(arguments.begin(), {"inspect", spec, "--json"});
  Inspected result{bench.run(arguments), {}};
  EXPECT_EQ(result.ran.code, 0) << result.ran.err;
  if (result.ran.code == 0) result.json = nlohmann::json::parse(result.ran.out);
  return result;
}
size_t findings(const Inspected& inspected, const std::string& level, const std::string& text) {
  size_t count = 0;
  for (const auto& finding : inspected.json["findings"]) {
    count += finding["level"] == level &&
             finding["message"].get<std::string>().find(text) != std::string::npos;
  }
  return count;
}

TEST(W2, InspectCountsNormsAndParameters) {
  const Bench bench;
  const std::string spec = bench.write("zero.toml", zero_toml());
  struct Count {
    const char* wiring;
    int per_layer, outside, parameters;
  };
  for (const Count& count : {Count{"pre-ln", 2, 1, 176}, Count{"post-ln", 2, 0, 168},
                             Count{"peri-ln", 4, 1, 192}, Count{"res-post-norm", 2, 1, 176},
                             Count{"deepnorm", 2, 0, 168}, Count{"parallel", 1, 1, 168}}) {
    for (const int layers : {1, 3}) {
      const Inspected seen = inspect(bench, spec,
                                     {"--model.wiring", count.wiring, "--model.layers",
                                      std::to_string(layers), "--model.vocab", "4"});
      const auto& norms = seen.json["norms"][0];
      EXPECT_EQ(norms["total"], count.per_layer * layers + count.outside) << count.wiring;
      EXPECT_EQ(norms["blocks"], count.per_layer * layers) << count.wiring;
      EXPECT_EQ(norms["qk"].get<int>() + norms["value"].get<int>() + norms["inner"].get<int>(), 0);
      if (layers == 1) {
        EXPECT_EQ(seen.json["parameters"]["total"], count.parameters) << count.wiring;
      }
      EXPECT_EQ(findings(seen, "warning", "out = x"), 0U) << count.wiring;
      EXPECT_EQ(findings(seen, "information", "out = norm(x)"), 0U) << count.wiring;
    }
  }
  const Ran text = bench.run({"inspect", spec, "--model.layers", "3"});
  EXPECT_TRUE(text.prints("7 = 0 begin + 6 blocks + 1 end")) << text.out;
  EXPECT_TRUE(text.prints("in branches: 0 qk, 0 value, 0 inner")) << text.out;
}

TEST(W2, NormsInsideBranchesHaveALineOfTheirOwn) {
  const Bench bench;
  const std::string spec = bench.write("zero.toml", zero_toml());
  const Inspected seen = inspect(bench, spec,
                                 {"--model.layers", "3", "--model.wiring",
                                  "begin: x = norm(embed)\nblock: n = l2norm(x); x = x + attn(n, "
                                  "qk=rmsnorm, v=rmsnorm, inner=norm) + "
                                  "ffn(n, inner=layernorm)\nend: out = rmsnorm(x, affine=false)"});
  const auto& norms = seen.json["norms"][0];
  EXPECT_EQ(norms["begin"], 1);
  EXPECT_EQ(norms["blocks"], 3);
  EXPECT_EQ(norms["end"], 1);
  EXPECT_EQ(norms["qk"], 6);
  EXPECT_EQ(norms["value"], 3);
  EXPECT_EQ(norms["inner"], 6);
}

TEST(W2, AForgottenFinalNormIsAWarningADoubledOneInformation) {
  const Bench bench;
  const std::string spec = bench.write("zero.toml", zero_toml());
  for (const char* layers : {"1", "3"}) {
    const Inspected none =
        inspect(bench, spec, {"--model.layers", layers, "--model.wiring", "x = x + f(norm(x))"});
    EXPECT_EQ(findings(none, "warning", "out = x"), 1U) << none.ran.out;
    EXPECT_EQ(occurrences(none.ran.err, "out = x"), 1U) << none.ran.err;
    const Inspected twice =
        inspect(bench, spec,
                {"--model.layers", layers, "--model.wiring", "x = norm(x + f(x)); out = norm(x)"});
    EXPECT_EQ(twice.json["norms"][0]["total"], 2 * std::stoi(layers) + 1);
    EXPECT_EQ(findings(twice, "information", "out = norm(x)"), 1U) << twice.ran.out;
    EXPECT_EQ(findings(twice, "warning", ""), 0U) << twice.ran.out;
  }
}

// ---- W4: the suites over every wiring are tests/wirings; here the refusal as a user sees it.

TEST(W4, ACombinationThatIsRefusedIsNamed) {
  const Bench bench;
  const std::string spec = bench.write("zero.toml", zero_toml());
  const Ran gain =
      bench.run({"inspect", spec, "--model.norm", "l2norm", "--model.wiring", "swin-v2"});
  EXPECT_EQ(gain.code, 2);
  EXPECT_TRUE(gain.says("l2norm") && gain.says("gain")) << gain.err;
  const Ran eps = bench.run(
      {"inspect", spec, "--model.norm", "dyt", "--model.wiring", "x = x + f(norm(x, eps=1e-3))"});
  EXPECT_EQ(eps.code, 2);
  EXPECT_TRUE(eps.says("dyt") && eps.says("eps")) << eps.err;
  const Ran cross = bench.run({"inspect", spec, "--model.wiring", "x = x + cross(norm(x))"});
  EXPECT_EQ(cross.code, 2);
  EXPECT_TRUE(cross.says("cross")) << cross.err;
}

// ---- W5

struct Deep {
  int layers;
  double alpha, beta;
};
const Deep deeps[] = {{6, 1.8612097, 0.3799178},
                      {12, 2.2133638, 0.3194716},
                      {24, 2.6321480, 0.2686425},
                      {100, 3.7606031, 0.1880302}};

std::string deep_toml(int layers) {
  return "[model]\nkind = \"decoder\"\nlayers = " + std::to_string(layers) +
         "\nwidth = 64\nheads = 4\nffn = 256\nvocab = 64\ncontext = 16\nwiring = \"deepnorm\"\n";
}

TEST(W5, TheFactorStandsOnTheSkip) {
  for (const Deep& deep : deeps) {
    const graph::Graph graph = lowered(deep_toml(deep.layers));
    int sums = 0;
    for (const graph::Node& node : graph.nodes) {
      const auto* sum = std::get_if<nodes::Sum>(&node.op);
      if (sum == nullptr || node.layer < 0) continue;
      ASSERT_EQ(sum->weights.size(), 2U);
      EXPECT_NEAR(sum->weights[0].value, deep.alpha, 5e-8);
      EXPECT_EQ(sum->weights[1].value, 1);
      // The scaled one is the stream: a norm's result, or the embedding.
      const graph::Value& skip = graph.values[static_cast<size_t>(node.inputs[0])];
      EXPECT_TRUE(
          node.inputs[0] == graph.stacks[0].embed ||
          std::holds_alternative<nodes::Norm>(graph.nodes[static_cast<size_t>(skip.node)].op));
      ++sums;
    }
    EXPECT_EQ(sums, 2 * deep.layers);
  }
}

TEST(W5, TheGainActsOnValueOutputAndFfnOnly) {
  for (const Deep& deep : deeps) {
    const Bench bench;
    const Ran ran =
        bench.run({"init", bench.write("deep.toml", deep_toml(deep.layers)), "--report", "--json"});
    ASSERT_EQ(ran.code, 0) << ran.err;
    std::map<std::string, int> seen;
    const auto report = nlohmann::json::parse(ran.out);
    for (const auto& row : report["tensors"]) {
      const std::string role = row["role"];
      const bool square = role == "q" || role == "k" || role == "v" || role == "attn_out";
      const bool ffn = role == "ffn_in" || role == "ffn_out";
      if (!square && !ffn) continue;
      const double xavier = std::sqrt(2.0 / (ffn ? 64 + 256 : 64 + 64));
      const double gain = role == "q" || role == "k" ? 1 : deep.beta;
      EXPECT_NEAR(row["target_std"], xavier * gain, 5e-8) << row["tensor"];
      EXPECT_LE(std::abs(row["z"].get<double>()), 5) << row["tensor"];
      EXPECT_NEAR(row["measured_std"], xavier * gain,
                  5 * xavier * gain / std::sqrt(2 * row["n"].get<double>()))
          << row["tensor"];
      ++seen[role];
    }
    for (const char* role : {"q", "k", "v", "attn_out", "ffn_in", "ffn_out"})
      EXPECT_EQ(seen[role], deep.layers) << role;
  }
}

TEST(W5, AGainScalesTheSameDraw) {
  const Bench bench;
  const auto drawn = [&](const std::string& gain) {
    const std::string spec = bench.write(
        "deep.toml", deep_toml(2) +
                         "[init]\ndefault = \"xavier_normal(1)\"\nffn_in = \"xavier_normal(" +
                         gain + ")\"\n");
    const fs::path out = bench.path("w.safetensors");
    const Ran ran = bench.run({"init", spec, "--out", out.string()});
    EXPECT_EQ(ran.code, 0) << ran.err;
    const auto file = checkpoint::SafetensorsFile::open(out);
    Tensors tensors;
    for (const auto& tensor : file.tensors()) tensors[tensor.name] = file.read_double(tensor);
    fs::remove(out);
    return tensors;
  };
  const double gain = std::pow(8 * 2, -0.25);
  const Tensors one = drawn("1"), scaled = drawn("(8*L)^(-1/4)");
  const std::string name = "blocks.1.ffn.in.weight";
  ASSERT_EQ(one.at(name).size(), 64U * 256U);
  for (size_t i = 0; i < one.at(name).size(); ++i) {
    // One rounding to float of each draw.
    const double want = gain * one.at(name)[i];
    ASSERT_LE(std::abs(scaled.at(name)[i] - want), std::abs(want) * 0x1p-23) << i;
  }
  EXPECT_EQ(one.at("blocks.1.attn.q.weight"), scaled.at("blocks.1.attn.q.weight"));
}

TEST(W5, WiringsShowGivesConstantsAndRoles) {
  const Bench bench;
  const Ran ran = bench.run({"wirings", "show", "deepnorm"});
  ASSERT_EQ(ran.code, 0) << ran.err;
  for (const char* text : {"(2*L)^(1/4)", "(8*L)^(-1/4)", "attn_out", "ffn_in"})
    EXPECT_TRUE(ran.prints(text)) << text;
}

// ---- W6

std::string pair_toml() {
  return "[model]\nkind = \"encoder-decoder\"\nencoder_layers = 1\ndecoder_layers = 1\nwidth = "
         "8\nheads = 2\n"
         "vocab = 20\ncontext = 16\nnorm_eps = 1e-12\nencoder_wiring = \"x = x + f(norm(x)); out = "
         "norm(x)\"\n"
         "decoder_wiring = \"x = x + f(norm(x)); out = norm(x)\"\n";
}

TEST(W6, TheMemoryIsNormedOnceAtTheEndOfTheEncoder) {
  const Bench bench;
  const std::string spec = bench.write("pair.toml", pair_toml());
  nodes::Batch batch = tokens({{1, 2, 3}, {4, 5, 6}}, {{2, 3, 4}, {5, 6, 7}});
  batch.source_length = 4;
  batch.source = {7, 8, 9, 10, 11, 12, 13, 14};
  const std::string data = bench.batch("b.safetensors", batch);
  const graph::Graph graph = lowered(pair_toml());
  const std::string weights = bench.weights("w.safetensors", graph, random_weights(graph));
  const auto with = [&](const std::string& end) {
    return bench.grad(spec, weights, data,
                      {"--model.encoder_wiring", "x = x + f(norm(x)); out = " + end});
  };
  const Graded a = with("norm(x)"), b = with("norm(10*x)"), c = with("10*norm(x)");
  ASSERT_EQ(a.ran.code, 0) << a.ran.err;
  ASSERT_EQ(b.ran.code, 0) << b.ran.err;
  ASSERT_EQ(c.ran.code, 0) << c.ran.err;
  EXPECT_LE(distance(a["logits"], b["logits"]), 1e-9 * largest(a["logits"]));
  EXPECT_GT(distance(a["logits"], c["logits"]), 1e-3);
  // The argument of cross-attention is the norm before it, on the stream after self-attention.
  const Values& in = a["point:decoder.blocks.0.cross.in"];
  const Values& stream = a["point:decoder.blocks.0.attn.x"];
  const Tensors values = random_weights(graph);
  const Values& gain = values.at("decoder.blocks.0.norm.2.weight");
  const Values& shift = values.at("decoder.blocks.0.norm.2.bias");
  for (size_t row = 0; row < stream.size() / 8; ++row) {
    double mean = 0, variance = 0;
    for (size_t j = 0; j < 8; ++j) mean += stream[row * 8 + j] / 8;
    for (size_t j = 0; j < 8; ++j) variance += std::pow(stream[row * 8 + j] - mean, 2) / 8;
    for (size_t j = 0; j < 8; ++j) {
      const double want =
          gain[j] * (stream[row * 8 + j] - mean) / std::sqrt(variance + 1e-12) + shift[j];
      ASSERT_NEAR(in[row * 8 + j], want, 1e-9 * largest(in));
    }
  }
  // A factor under a norm is cancelled, and says so.
  const Ran warned = bench.run(
      {"inspect", spec, "--model.encoder_wiring", "x = x + f(norm(x)); out = norm(10*x)"});
  EXPECT_EQ(warned.code, 0);
  EXPECT_TRUE(warned.prints("warning") && warned.prints("10*x")) << warned.out;
}

TEST(W6, InspectSaysWhereQueriesAndMemoryComeFrom) {
  const Bench bench;
  const std::string spec = bench.write("pair.toml", pair_toml());
  EXPECT_TRUE(bench.run({"inspect", spec})
                  .prints("query: decoder norm, memory: encoder out (encoder.end.norm.1)"));
  const auto with = [&](const std::string& encoder, const std::string& decoder) {
    return bench.run(
        {"inspect", spec, "--model.encoder_wiring", encoder, "--model.decoder_wiring", decoder});
  };
  EXPECT_TRUE(with("x = x + f(norm(x)); out = 10*norm(x)", "x = x + f(x)")
                  .prints("query: decoder stream, memory: encoder out (10*encoder.end.norm.1)"));
  EXPECT_TRUE(with("x = x + f(norm(x))", "x = norm(x + f(x))")
                  .prints("query: decoder norm, memory: encoder out (encoder.blocks.0.ffn.x)"));
}

// ---- W7

std::string mixed_toml(const std::string& wiring) {
  return "[model]\nkind = \"decoder\"\nlayers = 4\nwidth = 8\nheads = 2\nvocab = 20\ncontext = "
         "16\nwiring = \"\"\"\n" +
         wiring + "\"\"\"\n";
}

TEST(W7, DifferentNormsAtDifferentDepths) {
  const Bench bench;
  const std::string spec =
      bench.write("mixed.toml", mixed_toml("block[1..2]: x = rmsnorm(x + f(x))\nblock[3..4]: x = x "
                                           "+ scalenorm(f(x))\nend: out = norm(x)\n"));
  const Inspected seen = inspect(bench, spec);
  EXPECT_EQ(seen.json["norms"][0]["total"], 9);
  const auto& roles = seen.json["parameters"]["by_role"];
  const graph::Graph graph = lowered(read_file(spec));
  int64_t parameters = 0;
  for (const graph::Parameter& parameter : graph.parameters) {
    if (parameter.name.find(".norm.") != std::string::npos) parameters += parameter.size();
  }
  EXPECT_EQ(parameters, 2 * 2 * 8 + 2 * 2 * 1 + 16);
  EXPECT_EQ(roles["norm"]["elements"], 2 * 2 * 8 + 2 * 2 * 1 + 8);  // without the bias of the last
}

TEST(W7, RangesThatDoNotFitAndUnknownNames) {
  const Bench bench;
  const auto refused = [&](const std::string& wiring) {
    const Ran ran = bench.run({"inspect", bench.write("mixed.toml", mixed_toml(wiring))});
    EXPECT_EQ(ran.code, 2) << ran.err;
    return ran;
  };
  const Ran range = refused("block[1..5]: x = x + f(norm(x))\n");
  EXPECT_TRUE(range.says("1..5") && range.says("4")) << range.err;
  const Ran holes = refused("block[1..2]: x = x + f(norm(x))\n");
  EXPECT_TRUE(holes.says("3") && holes.says("4")) << holes.err;
  const Ran name =
      bench.run({"inspect", bench.write("zero.toml", zero_toml()), "--model.wiring", "pre-lm"});
  EXPECT_EQ(name.code, 2);
  EXPECT_TRUE(name.says("pre-ln")) << name.err;
}

TEST(W7, ARunsFormulaCountsWhereTheCatalogueSaysOtherwise) {
  const Bench bench;
  const std::string spec = bench.write(
      "spec.toml",
      "[model]\nkind = \"decoder\"\nlayers = 1\nwidth = 8\nheads = 2\nvocab = 20\ncontext = 16\n"
      "wiring = \"x = norm(x + 2*f(x))\"\nwiring_name = \"post-ln\"\n");
  const Inspected seen = inspect(bench, spec);
  EXPECT_EQ(findings(seen, "warning", "now differs"), 1U) << seen.ran.out;
  EXPECT_TRUE(seen.ran.prints("norm(x + 2*f(x))"));
}

}  // namespace
}  // namespace addnorm::cases
