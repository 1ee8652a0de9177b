// Every entry of the catalogue, by registration, in every stack kind and with every norm kind that it
// accepts: adding an entry to the catalogue adds its tests.
#include <gtest/gtest.h>

#include <cmath>
#include <complex>
#include <cstring>
#include <map>
#include <set>

#include "addnorm/engine/engine.h"
#include "addnorm/formula/catalogue.h"
#include "addnorm/formula/check.h"
#include "addnorm/graph/lower.h"
#include "addnorm/kernels/kernels.h"
#include "engine/models.h"

namespace addnorm {
namespace {

using Complex = std::complex<double>;

const std::vector<graph::ModelKind>& kinds() {
  static const std::vector<graph::ModelKind> all = {
      graph::ModelKind::decoder, graph::ModelKind::encoder, graph::ModelKind::encoder_decoder};
  return all;
}
const char* kind_text(graph::ModelKind kind) {
  static constexpr const char* names[] = {"decoder", "encoder", "encoder-decoder"};
  return names[static_cast<size_t>(kind)];
}
const std::vector<std::string>& norms() {
  static const std::vector<std::string> all = {"layernorm", "rmsnorm", "scalenorm",
                                               "l2norm",    "dyt",     "derf"};
  return all;
}

struct Built {
  graph::ModelShape shape;
  Findings errors;
};

Built build(const std::string& name, graph::ModelKind kind, const std::string& norm, int layers,
            double dropout) {
  Built built;
  built.shape = testing_models::small_shape(kind, "x = x + f(x)", layers);
  graph::ModelShape& shape = built.shape;
  shape.width = 6;
  shape.heads = 2;
  shape.kv_heads = 1;
  shape.head_dim = 3;
  shape.ffn = 8;
  shape.vocab = 7;
  shape.dropout = dropout;
  shape.norm = static_cast<nodes::NormKind>(std::find(norms().begin(), norms().end(), norm) -
                                            norms().begin());
  const auto take = [&](graph::StackProgram& to, graph::StackSide side) {
    formula::Context context = graph::context_of(shape, side);
    // In a pair the entries NAME/encoder and NAME/decoder are reached through NAME.
    std::string asked = name;
    for (const char* form : {"/encoder", "/decoder"}) {
      if (kind == graph::ModelKind::encoder_decoder && asked.ends_with(form))
        asked.resize(asked.size() - 8);
    }
    const formula::Wiring wiring =
        formula::resolve(asked, context.stack, formula::Catalogue::builtin());
    to.program = wiring.program;
    to.let_overrides = wiring.let_overrides;
    context.let_overrides = wiring.let_overrides;
    for (const Finding& finding : formula::check(to.program, context)) {
      if (finding.level == Level::error) built.errors.push_back(finding);
    }
  };
  if (kind == graph::ModelKind::encoder_decoder) {
    take(shape.encoder, graph::StackSide::encoder);
    take(shape.decoder, graph::StackSide::decoder);
  } else {
    take(shape.decoder, graph::StackSide::single);
  }
  return built;
}

// Draws for matrices, start values and a little noise for the rest, so that gates of 0 are not special.
template <class T>
void fill(engine::Engine<T>& engine, double noise) {
  const auto& parameters = engine.graph().parameters;
  for (size_t i = 0; i < parameters.size(); ++i) {
    const Random random(5, parameters[i].name);
    const graph::Parameter& p = parameters[i];
    const double scale =
        p.matrix ? std::sqrt(2.0 / static_cast<double>(p.fan_in() + p.fan_out())) : noise;
    for (size_t e = 0; e < engine.parameter(i).size(); ++e) {
      const double start = p.matrix ? 0 : p.start;
      engine.parameter(i)[e] = T(static_cast<float>(start + scale * random.normal(e)));
    }
  }
}

// Directional derivatives by complex step against the gradient: one direction per tensor, and four
// through all tensors at once. The largest difference relative to the gradient's length.
double gradient_error(const graph::ModelShape& shape, const engine::Request& request,
                      std::string* where) {
  const graph::Graph graph = graph::lower(shape);
  const auto batch = testing_models::make_batch(shape, 2, 3, true);
  auto real = engine::make_reference<double>(graph);
  auto complex = engine::make_reference<Complex>(graph);
  fill(*real, 0.1);
  fill(*complex, 0.1);
  engine::Request complex_request = request;
  complex_request.backward = false;
  complex_request.points = {graph.loss};
  real->run(batch, request);
  double squares = 0;
  for (size_t i = 0; i < graph.parameters.size(); ++i) {
    for (const double g : real->gradient(i)) squares += g * g;
  }
  const double length = std::max(std::sqrt(squares), 1e-6);
  double worst = 0;
  const size_t tensors = graph.parameters.size();
  for (size_t trial = 0; trial < tensors + 4; ++trial) {
    double dot = 0, norm = 0;
    for (size_t i = 0; i < tensors; ++i) {
      if (trial < tensors && trial != i) continue;
      const Random random(trial, "direction" + std::to_string(i));
      for (size_t e = 0; e < real->gradient(i).size(); ++e) {
        const double direction = random.normal(e);
        dot += direction * real->gradient(i)[e];
        norm += direction * direction;
        complex->parameter(i)[e] += Complex(0, 1e-30 * direction);
      }
    }
    complex->run(batch, complex_request);
    const double derivative = complex->point(graph.loss)[0].imag() / 1e-30;
    for (size_t i = 0; i < tensors; ++i) {
      for (Complex& w : complex->parameter(i)) w = w.real();
    }
    const double off = std::abs(derivative - dot) / (length * std::sqrt(norm));
    if (!(off <= worst)) {
      worst = off;
      *where = trial < tensors ? graph.parameters[trial].name : "all tensors";
    }
  }
  return worst;
}

struct Trained {
  double first = 0, last = 0;
  std::vector<float> weights;
};

// 20 Adam steps on one batch.
Trained train(const graph::ModelShape& shape, double dropout_seed) {
  const graph::Graph graph = graph::lower(shape);
  const auto batch = testing_models::make_batch(shape, 4, 5, false);
  auto engine = engine::make_cpu(graph, 2);
  fill(*engine, 0);
  std::vector<std::vector<float>> m, v;
  for (const auto& p : graph.parameters) {
    m.emplace_back(static_cast<size_t>(p.size()), 0.0F);
    v.emplace_back(static_cast<size_t>(p.size()), 0.0F);
  }
  Trained trained;
  engine::Request evaluation;
  evaluation.backward = false;
  evaluation.t = 2000;  // schedules that switch branches on are far along
  trained.first = engine->run(batch, evaluation);
  for (int step = 1; step <= 20; ++step) {
    engine::Request request;
    request.t = 2000;
    request.training = true;
    request.dropout_seed = static_cast<uint64_t>(dropout_seed) + static_cast<uint64_t>(step);
    engine->zero_gradients();
    engine->run(batch, request);
    kernels::AdamStep adam;
    adam.rate = 5e-3F;
    adam.correction1 = static_cast<float>(1 / (1 - std::pow(0.9, step)));
    adam.correction2 = static_cast<float>(1 / (1 - std::pow(0.999, step)));
    for (size_t i = 0; i < graph.parameters.size(); ++i) {
      kernels::adam(adam, graph.parameters[i].size(), engine->parameter(i).data(),
                    engine->gradient(i).data(), m[i].data(), v[i].data());
    }
  }
  trained.last = engine->run(batch, evaluation);
  for (size_t i = 0; i < graph.parameters.size(); ++i) {
    trained.weights.insert(trained.weights.end(), engine->parameter(i).begin(),
                           engine->parameter(i).end());
  }
  return trained;
}

std::vector<std::string> names() {
  std::vector<std::string> all;
  for (const formula::Entry& entry : formula::Catalogue::builtin().entries())
    all.push_back(entry.name);
  return all;
}

class Wirings : public testing::TestWithParam<std::string> {};

TEST_P(Wirings, EveryAcceptedCombination) {
  int accepted = 0;
  for (const auto kind : kinds()) {
    for (const std::string& norm : norms()) {
      const std::string what = GetParam() + ", " + kind_text(kind) + ", " + norm;
      const Built built = build(GetParam(), kind, norm, 2, 0);
      if (!built.errors.empty()) continue;  // listed and counted below
      ++accepted;
      const graph::Graph graph = graph::lower(built.shape);
      std::string where;
      engine::Request request;
      request.t = 1500;
      EXPECT_LE(gradient_error(built.shape, request, &where), 1e-10) << what << ": " << where;

      const std::string printed = formula::print(built.shape.decoder.program);
      EXPECT_TRUE(formula::same(formula::parse(printed), built.shape.decoder.program)) << printed;

      int64_t count = 0;
      std::set<std::string> seen;
      for (const graph::Parameter& p : graph.parameters) {
        EXPECT_TRUE(seen.insert(p.name).second) << what << ": two parameters " << p.name;
        EXPECT_GT(p.size(), 0) << p.name;
        count += p.size();
      }
      EXPECT_EQ(count, graph.parameter_count());
    }
  }
  EXPECT_GE(accepted, 1) << "no combination is accepted";
}

TEST_P(Wirings, TrainsTheSameTwice) {
  for (const auto kind : kinds()) {
    for (const double dropout : {0.0, 0.1}) {
      const Built built = build(GetParam(), kind, "layernorm", 2, dropout);
      if (!built.errors.empty()) continue;
      const Trained once = train(built.shape, 40), twice = train(built.shape, 40);
      EXPECT_LT(once.last, once.first) << kind_text(kind) << ", dropout " << dropout;
      ASSERT_EQ(once.weights.size(), twice.weights.size());
      EXPECT_EQ(std::memcmp(once.weights.data(), twice.weights.data(),
                            once.weights.size() * sizeof(float)),
                0);
    }
  }
}

TEST_P(Wirings, DropoutInTrainingHasExactGradients) {
  for (const auto kind : kinds()) {
    const Built built = build(GetParam(), kind, "rmsnorm", 1, 0.1);
    if (!built.errors.empty()) continue;
    engine::Request request;
    request.t = 1500;
    request.training = true;
    request.dropout_seed = 3;
    std::string where;
    EXPECT_LE(gradient_error(built.shape, request, &where), 1e-10)
        << kind_text(kind) << ": " << where;
  }
}

INSTANTIATE_TEST_SUITE_P(Catalogue, Wirings, testing::ValuesIn(names()), [](const auto& wiring) {
  std::string name = wiring.param;
  for (char& c : name) c = std::isalnum(static_cast<unsigned char>(c)) ? c : '_';
  return name;
});

// What is refused and why, by name and stack kind; a change here is a change of contract.
TEST(WiringCombinations, RefusedOnesAreListedAndCounted) {
  std::map<std::string, std::set<std::string>> refused;  // reason -> combinations
  int accepted = 0, total = 0;
  for (const std::string& name : names()) {
    for (const auto kind : kinds()) {
      for (const std::string& norm : norms()) {
        ++total;
        const Built built = build(name, kind, norm, 2, 0);
        if (built.errors.empty()) {
          ++accepted;
          continue;
        }
        std::string message;
        for (const Finding& error : built.errors) message += error.message + "; ";
        const bool pair = kind == graph::ModelKind::encoder_decoder;
        const bool memory = message.find("memory") != std::string::npos;
        const std::string reason = memory && pair                               ? "memory"
                                   : message.find("cross") != std::string::npos ? "cross"
                                   : message.find("gain") != std::string::npos  ? "option"
                                                                                : message;
        refused[reason].insert(name + ", " + kind_text(kind) + ", " + norm);
      }
    }
  }
  // A pair's decoder that never reads the encoder: programs with explicit attn and ffn.
  const std::set<std::string> explicit_programs = {
      "dyt/7b",     "hybridnorm",          "hybridnorm-star", "nanochat",
      "normformer", "normformer/resscale", "olmo2",           "pangu-ultra",
      "parallel",   "parallel-two-norms",  "plamo2",          "qk-norm",
      "reversible", "siamese-norm/hybrid", "spannorm"};
  EXPECT_EQ(refused["memory"].size(), 6 * explicit_programs.size());
  for (const std::string& name : explicit_programs) {
    EXPECT_TRUE(refused["memory"].count(name + ", encoder-decoder, layernorm") > 0) << name;
  }
  // cross without an encoder.
  for (const char* name : {"b2t/decoder", "sub-ln/decoder"}) {
    for (const char* kind : {"decoder", "encoder"}) {
      EXPECT_TRUE(refused["cross"].count(std::string(name) + ", " + kind + ", rmsnorm") > 0)
          << name;
    }
  }
  EXPECT_EQ(refused["cross"].size(), 24U);
  // gain= of a norm that has none.
  EXPECT_EQ(refused["option"].size(), 10U);
  for (const std::string& combination : refused["option"]) {
    EXPECT_TRUE(combination.ends_with("l2norm")) << combination;
  }
  EXPECT_EQ(refused.size(), 3U) << "a new reason: " << refused.rbegin()->first;
  EXPECT_EQ(accepted + 24 + 10 + static_cast<int>(6 * explicit_programs.size()), total);
}

}  // namespace
}  // namespace addnorm
