// Case W1 of cases.md, through the program: what stands in the stream after a layer whose branches give
// nothing, or one number; for the table of the case, for faults, and for every wiring of the catalogue.
#include <optional>
#include <set>

#include "addnorm/formula/catalogue.h"
#include "cases/interpreter.h"
#include "cases/support.h"

namespace addnorm::cases {
namespace {

Values layer_norm(const Values& a) {
  double mean = 0, squares = 0;
  for (const double x : a) mean += x / 4;
  for (const double x : a) squares += (x - mean) * (x - mean) / 4;
  Values result;
  for (const double x : a) result.push_back((x - mean) / std::sqrt(squares + 1e-12));
  return result;
}
Values plus(Values a, const Values& b, double factor = 1) {
  for (size_t i = 0; i < a.size(); ++i) a[i] += factor * b[i];
  return a;
}
Values times(double factor, Values a) {
  for (double& x : a) x *= factor;
  return a;
}

const Values x{1, 2, 3, 4}, e1{1, 0, 0, 0};
const double alpha = std::pow(2, 0.25);

struct Row {
  std::string wiring, point;
  Values none, ffn, attention;
  Values ffn_digits, attention_digits;  // as cases.md prints them; empty: exact
};
const std::vector<Row>& rows() {
  static const std::vector<Row> all = [] {
    const std::string stream = "point:blocks.0.ffn.x";
    const Values a = layer_norm(x), with_bias{2, 2, 3, 4};
    const Values peri = plus(x, layer_norm(e1));
    const Values peri_digits{2.7320508, 1.4226497, 2.4226497, 3.4226497};
    const auto deep = [](const Values& first, double factor_first, const Values& second) {
      const Values after = layer_norm(plus(times(factor_first, x), first));
      return layer_norm(plus(times(factor_first, after), second));
    };
    const Values zero(4, 0.0);
    return std::vector<Row>{
        {"pre-ln", stream, x, with_bias, with_bias, {}, {}},
        {"parallel", "point:blocks.0.x", x, with_bias, with_bias, {}, {}},
        {"peri-ln", stream, x, peri, peri, peri_digits, peri_digits},
        {"x = x + norm(f(x)); out = norm(x)", stream, x, peri, peri, peri_digits, peri_digits},
        {"x = x + param(0)*f(x)", stream, x, x, x, {}, {}},
        {"x = x + param(0.1, per=channel)*f(norm(x)); out = norm(x)",
         stream,
         x,
         {1.1, 2, 3, 4},
         {1.1, 2, 3, 4},
         {1.1, 2, 3, 4},
         {1.1, 2, 3, 4}},
        {"post-ln",
         stream,
         a,
         deep(zero, 1, e1),
         deep(e1, 1, zero),
         {-0.8230902, -0.9699630, 0.2743634, 1.5186899},
         {-0.9045340, -0.9045340, 0.3015113, 1.5075567}},
        {"deepnorm",
         stream,
         a,
         deep(zero, alpha, e1),
         deep(e1, alpha, zero),
         {-0.9429489, -0.8719516, 0.3143163, 1.5005842},
         {-1.0025373, -0.8190538, 0.3341791, 1.4874119}}};
  }();
  return all;
}

class W1 : public testing::Test {
 protected:
  // The stream after the layer, for the zero model with one bias set ("" for none).
  Graded stream(const std::string& wiring, const std::string& bias, const Precision& precision) {
    const model::Overrides overrides = {{"model.wiring", wiring}};
    const graph::Graph graph = lowered(zero_toml(), overrides);
    Tensors values = zero_weights(graph);
    if (!bias.empty()) values.at(bias) = e1;
    Arguments arguments = precision.arguments;
    arguments.insert(arguments.end(), {"--model.wiring", wiring});
    const Graded graded = bench_.grad(
        bench_.write("zero.toml", zero_toml()), bench_.weights("w.safetensors", graph, values),
        bench_.batch("b.safetensors", tokens({{97}}, {{97}})), arguments);
    EXPECT_EQ(graded.ran.code, 0) << graded.ran.err;
    return graded;
  }
  Bench bench_;
};

TEST_F(W1, TheStreamAfterTheLayerIsAsTheTableSays) {
  for (const Row& row : rows()) {
    for (const Precision& precision : precisions()) {
      const auto judge = [&](const std::string& bias, const Values& want, const Values& digits) {
        const Values got = stream(row.wiring, bias, precision)[row.point];
        const std::string where = row.wiring + ", " + precision.name + ", " + bias;
        const bool exact = digits.empty() && want != layer_norm(x);
        if (exact) {
          EXPECT_EQ(got, want) << where;
        } else {
          EXPECT_LE(distance(got, want), precision.tolerance * largest(want)) << where;
        }
        if (!digits.empty()) {
          EXPECT_LE(distance(want, digits), 6e-8) << where;
        }
      };
      judge("", row.none, {});
      judge("blocks.0.ffn.out.bias", row.ffn, row.ffn_digits);
      judge("blocks.0.attn.o.bias", row.attention, row.attention_digits);
    }
  }
}

TEST_F(W1, FaultsShowInTheStream) {
  const Precision& precision = precisions()[0];
  const auto shown = [&](const std::string& wiring, const Values& want, double tolerance) {
    EXPECT_LE(
        distance(stream(wiring, "blocks.0.ffn.out.bias", precision)["point:blocks.0.ffn.x"], want),
        tolerance)
        << wiring;
  };
  shown("x = norm(f(x))", {1.7320508, -0.5773503, -0.5773503, -0.5773503}, 6e-8);  // skip lost
  shown("x = norm(x + (2*L)^(1/4)*f(x))", {-0.6578141, -1.0889795, 0.2192714, 1.5275223}, 6e-8);
  shown("x = norm(x + f(x))", rows()[6].ffn, 1e-9);  // factor dropped
  // The normalized input is added back: the stream shows it, `out` hardly.
  const std::string faulty = "n = norm(x); x = n + f(n); out = norm(x)";
  shown(faulty, plus(layer_norm(layer_norm(x)), e1), 1e-9);
  const Values out = stream(faulty, "blocks.0.ffn.out.bias", precision)["point:out"];
  EXPECT_LE(distance(out, rows()[6].ffn), 1e-9);
}

// Largest difference of loss, logits, points and gradients from a golden case, each on its scale, when
// the program computes another wiring on the same weights.
double golden_difference(const Bench& bench, const std::string& name, const std::string& wiring) {
  const fs::path folder = fs::path(ADDNORM_TEST_DATA "/golden") / name;
  const Graded graded =
      bench.grad((folder / "spec.toml").string(), (folder / "weights.safetensors").string(),
                 (folder / "batch.safetensors").string(), {"--model.wiring", wiring});
  EXPECT_EQ(graded.ran.code, 0) << graded.ran.err;
  const auto expected = checkpoint::SafetensorsFile::open(folder / "expected.safetensors");
  const auto is_gradient = [](const std::string& tensor) { return tensor.starts_with("grad"); };
  double worst = 0, largest_gradient = 0;
  for (const auto& tensor : expected.tensors()) {
    if (is_gradient(tensor.name)) {
      largest_gradient = std::max(largest_gradient, largest(expected.read_double(tensor)));
    }
  }
  for (const auto& tensor : expected.tensors()) {
    const auto found = graded.tensors.find(tensor.name);
    if (found == graded.tensors.end()) continue;  // names may differ with the formula
    const Values want = expected.read_double(tensor);
    const double floor = is_gradient(tensor.name) ? 0.01 * largest_gradient : 1e-12;
    worst = std::max(worst, distance(found->second, want) / std::max(largest(want), floor));
  }
  return worst;
}

TEST_F(W1, TheGoldenComparisonFailsForEveryFault) {
  EXPECT_LE(golden_difference(bench_, "pre-ln-decoder", "x = x + f(norm(x)); out = norm(x)"), 1e-9);
  EXPECT_LE(golden_difference(bench_, "deepnorm-decoder", "x = norm((2*L)^(1/4)*x + f(x))"), 1e-9);
  struct Fault {
    const char *golden, *wiring;
  };
  for (const Fault& fault :
       {Fault{"pre-ln-decoder", "x = f(norm(x)); out = norm(x)"},
        Fault{"pre-ln-decoder", "n = norm(x); x = n + f(n); out = norm(x)"},
        Fault{"post-ln-decoder", "x = norm(f(x))"}, Fault{"post-ln-decoder", "x = x + norm(f(x))"},
        Fault{"deepnorm-decoder", "x = norm(x + (2*L)^(1/4)*f(x))"},
        Fault{"deepnorm-decoder", "x = norm(x + f(x))"},
        Fault{"deepnorm-decoder", "x = (2*L)^(1/4)*x + norm(f(x))"}}) {
    EXPECT_GT(golden_difference(bench_, fault.golden, fault.wiring), 1e-2)
        << fault.golden << ": " << fault.wiring;
  }
}

// The stream after a stack's last layer and its out, for the zero model: = x, or what the formula says.
class W1Catalogue : public W1 {
 protected:
  static formula::Program program_of(const std::string& wiring, formula::Stack stack) {
    return formula::resolve(wiring, stack, formula::Catalogue::builtin()).program;
  }
  // Nothing where the program refuses the combination.
  std::optional<Graded> graded(const std::string& toml, const model::Overrides& overrides,
                               const nodes::Batch& batch) {
    graph::Graph graph;
    try {
      graph = lowered(toml, overrides);
    } catch (const Error&) {
      return {};
    }
    Arguments arguments;
    for (const auto& [key, value] : overrides) {
      arguments.insert(arguments.end(), {"--" + key, value});
    }
    Graded result = bench_.grad(bench_.write("zero.toml", toml),
                                bench_.weights("w.safetensors", graph, zero_weights(graph)),
                                bench_.batch("b.safetensors", batch), arguments);
    EXPECT_EQ(result.ran.code, 0) << arguments.back() << result.ran.err;
    return result;
  }
  static void judge(const Graded& graded, ZeroBranches& zero, const Values& memory,
                    const std::string& prefix, int layers, const std::string& where) {
    const Values want = zero.run(x, memory);
    const std::string layer = "point:" + prefix + "blocks." + std::to_string(layers - 1);
    const bool sublayers = graded.tensors.contains(layer + ".ffn.x");
    const Values& got = graded[layer + (sublayers ? ".ffn.x" : ".x")];
    EXPECT_LE(distance(got, want), 1e-9 * largest(want)) << where;
    EXPECT_LE(distance(graded["point:" + prefix + "out"], zero.out()), 1e-9 * largest(zero.out()))
        << where;
    if (want == x) {
      EXPECT_EQ(got, x) << where;
    }
  }
};

TEST_F(W1Catalogue, EveryEntryWithItsBranchesAtZero) {
  int compared = 0;
  std::vector<std::string> refused;
  for (const formula::Entry& entry : formula::Catalogue::builtin().entries()) {
    const auto found = graded(zero_toml(), {{"model.wiring", entry.name}, {"model.layers", "3"}},
                              tokens({{97}}, {{97}}));
    if (!found) {
      refused.push_back(entry.name);
      continue;
    }
    ++compared;
    const formula::Program program = program_of(entry.name, formula::Stack::decoder);
    ZeroBranches zero(program, "layernorm", 1e-12, 3, 2, 3, 3);
    judge(*found, zero, x, "", 3, entry.name);
  }
  EXPECT_EQ(compared + refused.size(), formula::Catalogue::builtin().entries().size());
  // What reads an encoder stands in a pair only.
  EXPECT_EQ(refused, (std::vector<std::string>{"b2t/decoder", "sub-ln/decoder"}));
}

// Both stacks of a pair, at different depths: NAME as a user writes it, where the entries NAME/encoder
// and NAME/decoder exist they are what is computed.
TEST_F(W1Catalogue, EveryPairWithItsBranchesAtZero) {
  std::string toml = zero_toml();
  toml.replace(toml.find("\"decoder\"\nlayers = 1"), 20,
               "\"encoder-decoder\"\nencoder_layers = 2\ndecoder_layers = 3");
  nodes::Batch batch = tokens({{97}}, {{97}});
  batch.source_length = 1;
  batch.source = {97};
  int decoders = 0;
  std::set<std::string> entries;
  std::vector<std::string> refused;
  for (const formula::Entry& entry : formula::Catalogue::builtin().entries()) {
    const bool of_a_stack = entry.name.ends_with("/encoder") || entry.name.ends_with("/decoder");
    const std::string asked = of_a_stack ? entry.name.substr(0, entry.name.find('/')) : entry.name;
    // Formulas without cross-attention have a decoder of another wiring beside them.
    for (const std::string& decoder : {asked, std::string("pre-ln")}) {
      const auto found =
          graded(toml, {{"model.encoder_wiring", asked}, {"model.decoder_wiring", decoder}}, batch);
      if (!found) {
        if (decoder != asked || asked == "pre-ln") refused.push_back(asked);
        continue;
      }
      decoders += decoder == asked;
      const auto& catalogue = formula::Catalogue::builtin();
      entries.insert(formula::resolve(asked, formula::Stack::pair_encoder, catalogue).name);
      entries.insert(formula::resolve(decoder, formula::Stack::pair_decoder, catalogue).name);
      const formula::Program first = program_of(asked, formula::Stack::pair_encoder);
      const formula::Program second = program_of(decoder, formula::Stack::pair_decoder);
      ZeroBranches encoder(first, "layernorm", 1e-12, 2, 2, 2, 3);
      judge(*found, encoder, x, "encoder.", 2, asked + " | " + decoder);
      ZeroBranches decoded(second, "layernorm", 1e-12, 3, 3, 2, 3);
      judge(*found, decoded, encoder.out(), "decoder.", 3, asked + " | " + decoder);
      break;
    }
  }
  EXPECT_EQ(refused, std::vector<std::string>{});
  EXPECT_GE(decoders, 40);
  for (const formula::Entry& entry : formula::Catalogue::builtin().entries()) {
    const bool replaced = entry.name.find('/') == std::string::npos &&
                          formula::Catalogue::builtin().find(entry.name + "/encoder") != nullptr;
    EXPECT_EQ(entries.contains(entry.name), !replaced) << entry.name;
  }
}

}  // namespace
}  // namespace addnorm::cases
