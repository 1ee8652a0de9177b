// The fast engine against the reference, over graphs, thread counts, ways to split, batch sizes and
// requests.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

#include "addnorm/base/error.h"
#include "addnorm/base/random.h"
#include "addnorm/engine/engine.h"
#include "addnorm/formula/catalogue.h"
#include "addnorm/graph/lower.h"
#include "engine/models.h"

namespace addnorm {
namespace {

using engine::Engine;
using engine::Request;
using engine::Split;
using testing_models::make_batch;
using testing_models::small_shape;

template <class T>
void fill(Engine<T>& engine, uint64_t seed) {
  const graph::Graph& graph = engine.graph();
  for (size_t i = 0; i < graph.parameters.size(); ++i) {
    const Random random(seed, graph.parameters[i].name);
    const double start = graph.parameters[i].matrix ? 0 : graph.parameters[i].start;
    for (size_t e = 0; e < engine.parameter(i).size(); ++e) {
      engine.parameter(i)[e] = static_cast<T>(static_cast<float>(start + 0.15 * random.normal(e)));
    }
  }
}

struct Compared {
  double loss = 0, worst = 0;
  std::string where;
};

// Largest difference of any gradient or point, relative to the largest gradient (points: to itself).
Compared compare(const graph::ModelShape& shape, const nodes::Batch& batch, int threads,
                 Split split, Request request = {}) {
  const graph::Graph graph = graph::lower(shape);
  for (const auto& [name, id] : graph.points) request.points.push_back(id);
  auto slow = engine::make_reference<double>(graph);
  auto fast = engine::make_cpu(graph, threads, split);
  fill(*slow, 3);
  fill(*fast, 3);
  Compared result;
  const double want = slow->run(batch, request), got = fast->run(batch, request);
  result.loss = std::abs(got - want);
  const auto note = [&](auto expected, auto actual, double scale, const std::string& name) {
    ASSERT_EQ(expected.size(), actual.size()) << name;
    for (const double e : expected) scale = std::max(scale, std::abs(e));
    for (size_t i = 0; i < expected.size(); ++i) {
      const double off = std::abs(expected[i] - static_cast<double>(actual[i])) / scale;
      if (!(off <= result.worst)) {
        result.worst = off;
        result.where = name;
      }
    }
  };
  double largest = 1e-6;
  for (size_t i = 0; i < graph.parameters.size(); ++i) {
    for (const double g : slow->gradient(i)) largest = std::max(largest, std::abs(g));
  }
  for (size_t i = 0; i < graph.parameters.size(); ++i) {
    note(slow->gradient(i), fast->gradient(i), 0.01 * largest, "grad:" + graph.parameters[i].name);
  }
  for (const auto& [name, id] : graph.points) {
    note(slow->point(id), fast->point(id), 1e-6, "point:" + name);
    if (request.backward)
      note(slow->point_gradient(id), fast->point_gradient(id), 0.01 * largest,
           "grad_point:" + name);
  }
  return result;
}

TEST(CpuEngineThreads, EveryWayToSplitGivesTheReferenceResult) {
  for (const auto kind :
       {graph::ModelKind::decoder, graph::ModelKind::encoder, graph::ModelKind::encoder_decoder}) {
    const auto shape = small_shape(kind, "x = x + f(norm(x)); out = norm(x)");
    for (const int64_t sequences : {1, 3, 5}) {
      const auto batch = make_batch(shape, sequences, 7, sequences > 1);
      for (const int threads : {1, 2, 3, 7}) {
        for (const Split split : {Split::batch, Split::operators}) {
          const Compared result = compare(shape, batch, threads, split);
          EXPECT_LE(result.loss, 1e-5) << threads << " threads, " << sequences << " sequences";
          EXPECT_LE(result.worst, 2e-4)
              << result.where << ", " << threads << " threads, " << sequences
              << " sequences, split " << static_cast<int>(split);
        }
      }
    }
  }
}

TEST(CpuEngine, EveryActivationAndPositionKind) {
  for (int activation = 0; activation <= static_cast<int>(graph::Activation::reglu); ++activation) {
    for (int positions = 0; positions <= static_cast<int>(graph::Positions::none); ++positions) {
      auto shape = small_shape(graph::ModelKind::decoder, "x = norm(x + f(x))");
      shape.activation = static_cast<graph::Activation>(activation);
      shape.positions = static_cast<graph::Positions>(positions);
      const Compared result = compare(shape, make_batch(shape, 3, 6, true), 2, Split::batch);
      EXPECT_LE(result.worst, 2e-4)
          << result.where << ", activation " << activation << ", positions " << positions;
    }
  }
}

TEST(CpuEngine, EveryProgramOfTheCatalogue) {
  size_t compared = 0;
  for (const formula::Entry& entry : formula::Catalogue::builtin().entries()) {
    const auto kind = entry.name.ends_with("/decoder") ? graph::ModelKind::encoder_decoder
                                                       : graph::ModelKind::decoder;
    auto shape = small_shape(kind, entry.formula);
    shape.dropout = compared % 3 == 0 ? 0.2 : 0;
    Request request;
    request.t = 700;
    request.training = true;
    request.dropout_seed = 5;
    const Compared result = compare(shape, make_batch(shape, 3, 6, true), 2,
                                    compared % 2 == 0 ? Split::batch : Split::operators, request);
    EXPECT_LE(result.worst, 5e-4) << entry.name << ": " << result.where;
    ++compared;
  }
  EXPECT_GE(compared, 60U);
}

// A norm that no gradient reaches stands after an add that one does reach.
TEST(CpuEngine, NormsWithoutGradientAfterAnAdd) {
  for (const char* formula :
       {"x = x + attn(x); b = norm(x); x = x + ffn(x); out = norm(x)",
        "a = detach(l2norm(x)); x = x + attn(min(a, embed)); x = x + ffn(0.5*a); out = norm(x)",
        "m = rmsnorm(x); n = norm(x); x = x + f(n); out = norm(x)",
        "begin: x = embed; n = norm(embed)\nblock: x = x + f(n); n = norm(x)\nend: out = "
        "rmsnorm(x)"}) {
    const auto shape = small_shape(graph::ModelKind::decoder, formula);
    for (const Split split : {Split::batch, Split::operators}) {
      const Compared result = compare(shape, make_batch(shape, 3, 6, true), 2, split);
      EXPECT_LE(result.worst, 2e-4) << formula << ": " << result.where;
    }
    // Without points other gradients share buffers.
    const graph::Graph graph = graph::lower(shape);
    auto slow = engine::make_reference<double>(graph);
    auto fast = engine::make_cpu(graph, 2);
    fill(*slow, 3);
    fill(*fast, 3);
    const auto batch = make_batch(shape, 3, 6, true);
    slow->run(batch, {});
    fast->run(batch, {});
    for (size_t i = 0; i < graph.parameters.size(); ++i) {
      for (size_t e = 0; e < slow->gradient(i).size(); ++e) {
        EXPECT_NEAR(slow->gradient(i)[e], fast->gradient(i)[e], 1e-4) << graph.parameters[i].name;
      }
    }
  }
}

// Asking for points, or for logits, changes no bit of loss and gradients.
TEST(CpuEngine, PointsChangeNoBit) {
  for (const formula::Entry& entry : formula::Catalogue::builtin().entries()) {
    const auto kind = entry.name.ends_with("/decoder") ? graph::ModelKind::encoder_decoder
                                                       : graph::ModelKind::decoder;
    const auto shape = small_shape(kind, entry.formula);
    const auto batch = make_batch(shape, 3, 5, true);
    const graph::Graph graph = graph::lower(shape);
    auto plain = engine::make_cpu(graph, 2), probed = engine::make_cpu(graph, 2);
    fill(*plain, 9);
    fill(*probed, 9);
    Request request, with_points;
    for (const auto& [name, id] : graph.points) with_points.points.push_back(id);
    const double a = plain->run(batch, request), b = probed->run(batch, with_points);
    EXPECT_EQ(a, b) << entry.name;
    for (size_t i = 0; i < graph.parameters.size(); ++i) {
      EXPECT_EQ(std::memcmp(plain->gradient(i).data(), probed->gradient(i).data(),
                            plain->gradient(i).size_bytes()),
                0)
          << entry.name << ": " << graph.parameters[i].name;
    }
  }
}

TEST(CpuEngine, GradientsAddUpOverMicroBatches) {
  const auto shape = small_shape(graph::ModelKind::decoder, "x = x + f(norm(x)); out = norm(x)");
  const graph::Graph graph = graph::lower(shape);
  const auto whole = make_batch(shape, 4, 6, false);
  auto once = engine::make_cpu(graph, 2), twice = engine::make_cpu(graph, 2);
  fill(*once, 4);
  fill(*twice, 4);
  Request request;
  request.divisor = static_cast<double>(whole.target_count());
  const double loss = once->run(whole, request);
  double sum = 0;
  for (int half = 0; half < 2; ++half) {
    nodes::Batch part = whole;
    part.sequences = 2;
    const auto cut = [&](auto& v) { v = {v.begin() + half * 12, v.begin() + (half + 1) * 12}; };
    cut(part.tokens);
    cut(part.targets);
    sum += twice->run(part, request);
  }
  EXPECT_NEAR(loss, sum, 1e-6);
  for (size_t i = 0; i < graph.parameters.size(); ++i) {
    for (size_t e = 0; e < once->gradient(i).size(); ++e) {
      EXPECT_NEAR(once->gradient(i)[e], twice->gradient(i)[e], 2e-6) << graph.parameters[i].name;
    }
  }
}

TEST(CpuEngine, NoTargetsGiveLossAndGradientsOfZero) {
  const auto shape = small_shape(graph::ModelKind::decoder, "x = x + f(norm(x)); out = norm(x)");
  auto batch = make_batch(shape, 2, 5, false);
  std::fill(batch.targets.begin(), batch.targets.end(), nodes::Batch::ignored);
  auto fast = engine::make_cpu(graph::lower(shape), 2);
  fill(*fast, 2);
  EXPECT_EQ(fast->run(batch, {}), 0.0);
  for (size_t i = 0; i < fast->graph().parameters.size(); ++i) {
    for (const float g : fast->gradient(i)) EXPECT_EQ(g, 0.0F);
  }
}

// `memory` as a value stands beside the decoder's tokens, position by position.
TEST(CpuEngine, MemoryReadAsAValueNeedsEqualLengths) {
  auto shape = small_shape(graph::ModelKind::encoder_decoder, "x = x + f(norm(x)); out = norm(x)");
  const auto other = make_batch(shape, 3, 6, true);  // a source of 5
  ASSERT_NE(other.source_length, other.length);
  auto equal = make_batch(shape, 3, 5, true);
  equal.source = other.source;
  equal.source_mask = other.source_mask;
  equal.source_length = 5;
  for (const char* formula :
       {"x = x + f(norm(x)) + 0.5*memory; out = norm(x)",
        "x = x + attn(memory); x = x + cross(memory); x = max(x, memory); out = norm(x)",
        "begin: x = embed + memory\nblock: x = x + f(norm(x))\nend: out = norm(x) + memory"}) {
    shape.decoder.program = formula::parse(formula);
    const Compared c = compare(shape, equal, 2, Split::automatic);
    EXPECT_LT(c.loss, 1e-4) << formula;
    EXPECT_LT(c.worst, 2e-3) << formula << ": " << c.where;
    const graph::Graph graph = graph::lower(shape);
    const auto refused = [&](auto engine) {
      try {
        engine->run(other, {});
        ADD_FAILURE() << formula;
      } catch (const Error& error) {
        EXPECT_NE(std::string(error.what()).find("of one length"), std::string::npos)
            << error.what();
      }
    };
    refused(engine::make_cpu(graph, 2));
    refused(engine::make_reference<double>(graph));
  }
  const auto crossing = small_shape(graph::ModelKind::encoder_decoder,
                                    "x = x + cross(norm(x)); x = x + ffn(x); out = norm(x)");
  EXPECT_LT(compare(crossing, other, 2, Split::automatic).worst, 2e-3);
}

TEST(CpuEngine, EndGoesOnWithOut) {
  const auto loss = [](const std::string& formula, std::vector<std::string> points) {
    const auto shape = small_shape(graph::ModelKind::decoder, formula);
    auto engine = engine::make_reference<double>(graph::lower(shape));
    fill(*engine, 2);
    for (const std::string& point : points) {
      EXPECT_EQ(engine->graph().points.count(point), 1U) << point;
    }
    EXPECT_EQ(engine->graph().points.count("end.out"), 0U);
    return engine->run(make_batch(shape, 2, 5, false), {});
  };
  const double want = loss("x = x + f(norm(x)); out = norm(2*x)", {});
  EXPECT_EQ(loss("x = x + f(norm(x)); out = x*2; out = norm(out)", {}), want);
  EXPECT_EQ(loss("x = x + f(norm(x))\nend: h = x; out = norm(2*h); h = out; out = h",
                 {"end.h", "end.h.1"}),
            want);
}

TEST(CpuEngine, NamesTheFirstNonFiniteTensor) {
  const auto shape = small_shape(graph::ModelKind::decoder, "x = x + f(norm(x)); out = norm(x)");
  const graph::Graph graph = graph::lower(shape);
  auto fast = engine::make_cpu(graph, 2);
  fill(*fast, 2);
  for (size_t i = 0; i < graph.parameters.size(); ++i) {
    if (graph.parameters[i].name == "blocks.1.ffn.out.weight") {
      for (float& w : fast->parameter(i)) w = 3e38F;
    }
    if (graph.parameters[i].name == "blocks.1.ffn.in.bias") {
      for (float& w : fast->parameter(i)) w = 50;
    }
  }
  const auto batch = make_batch(shape, 3, 5, false);
  EXPECT_FALSE(std::isfinite(fast->run(batch, {})));
  const auto bad = fast->find_non_finite(batch, {});
  EXPECT_EQ(bad.tensor, "blocks.1.ffn.out");
  EXPECT_FALSE(bad.in_backward);
}

}  // namespace
}  // namespace addnorm
