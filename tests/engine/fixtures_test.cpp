// One token through four layers of every catalogue program: out and its derivative by embed, to the
// printed digits. The branches are signed permutations with known biases, so any engine can repeat it.
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <map>
#include <sstream>

#include "addnorm/engine/engine.h"
#include "addnorm/formula/catalogue.h"
#include "addnorm/graph/lower.h"
#include "engine/models.h"

namespace addnorm {
namespace {

constexpr int64_t d = 4, ffn = 8, vocab = 2;

struct Row {
  std::string name;
  double out[d], slope[d];
};

std::vector<Row> rows() {
  std::ifstream file(ADDNORM_TEST_DATA "/fixtures.txt");
  std::vector<Row> all;
  for (std::string line; std::getline(file, line);) {
    if (line.empty() || line[0] == '#') continue;
    std::istringstream words(line);
    Row row;
    words >> row.name;
    for (double& value : row.out) words >> value;
    for (double& value : row.slope) words >> value;
    EXPECT_TRUE(static_cast<bool>(words)) << line;
    all.push_back(row);
  }
  return all;
}

graph::ModelShape fixture_shape(const std::string& formula, bool pair) {
  graph::ModelShape shape = testing_models::small_shape(
      pair ? graph::ModelKind::encoder_decoder : graph::ModelKind::decoder, formula, 4);
  if (pair)
    shape.encoder.program = formula::parse("x = x + 0*f(x)");  // memory = the encoder's embed
  shape.width = d;
  shape.heads = shape.kv_heads = 1;
  shape.head_dim = d;
  shape.ffn = ffn;
  shape.activation = graph::Activation::relu;
  shape.positions = graph::Positions::none;
  shape.norm_eps = 0.0;
  shape.vocab = vocab;
  return shape;
}

// The value of element (row, column) of a weight matrix.
double matrix_entry(const graph::Parameter& p, int64_t r, int64_t c) {
  const auto turned = [](int64_t row, int64_t col, const int(&from)[4], const double(&sign)[4]) {
    return from[row] == col ? sign[row] : 0.0;
  };
  static constexpr int attn[4] = {1, 2, 3, 0}, feed[4] = {2, 3, 0, 1}, swap[4] = {2, 3, 0, 1};
  static constexpr double attn_sign[4] = {0.5, 0.5, 0.5, -0.5},
                          feed_sign[4] = {0.5, 0.5, -0.5, 0.5}, swap_sign[4] = {1, 1, 1, 1};
  switch (p.role) {
    case graph::Role::attn_out:
      return turned(r, c, attn, attn_sign);
    case graph::Role::cross_out:
      return turned(r, c, swap, swap_sign);
    case graph::Role::ffn_in:
      return r % d == c ? (r < d ? 1 : -1) : 0;
    case graph::Role::ffn_out:
      return turned(r, c % d, feed, feed_sign) * (c < d ? 1 : -1);
    case graph::Role::head:
      return r == 0 && c == 0 ? 1 : 0;
    case graph::Role::embed: {
      static constexpr double x[4] = {1, 2, 4, -3}, memory[4] = {1, 0, -1, 2};
      return r > 0 ? 0 : (p.side == graph::StackSide::encoder ? memory : x)[c];
    }
    default:
      return r == c ? 1 : 0;
  }
}

double start_entry(const graph::Parameter& p, int64_t i) {
  if (p.name.ends_with("attn.o.bias")) return i == 0 ? 0.3 : 0;
  if (p.name.ends_with("ffn.out.bias")) return i == 1 ? -0.2 : 0;
  return p.start;
}

class Fixture : public testing::TestWithParam<Row> {};

TEST_P(Fixture, OutAndItsDerivative) {
  const Row& row = GetParam();
  const formula::Entry* entry = formula::Catalogue::builtin().find(row.name);
  ASSERT_NE(entry, nullptr) << row.name;
  const bool pair = row.name.ends_with("/decoder");
  const graph::Graph graph = graph::lower(fixture_shape(entry->formula, pair));
  auto engine = engine::make_reference<double>(graph);
  size_t table = 0;
  for (size_t p = 0; p < graph.parameters.size(); ++p) {
    const graph::Parameter& parameter = graph.parameters[p];
    if (parameter.role == graph::Role::embed && parameter.side != graph::StackSide::encoder)
      table = p;
    for (int64_t i = 0; i < parameter.size(); ++i) {
      engine->parameter(p)[static_cast<size_t>(i)] =
          parameter.matrix ? matrix_entry(parameter, i / parameter.fan_in(), i % parameter.fan_in())
                           : start_entry(parameter, i);
    }
  }
  nodes::Batch batch;
  batch.sequences = batch.length = 1;
  batch.tokens = {0};
  batch.targets = {0};
  if (pair) {
    batch.source_length = 1;
    batch.source = {0};
  }
  engine::Request request;
  request.t = 1500;
  const graph::ValueId out = graph.stacks.back().out;
  request.points = {out};
  engine->run(batch, request);
  // Logits are (out_1, 0), so the loss ln(1 + exp(-out_1)) has the derivative -sigmoid(-out_1).
  const double at_out = engine->point_gradient(out)[0];
  EXPECT_NEAR(at_out, -1 / (1 + std::exp(engine->point(out)[0])), 1e-12);
  for (size_t i = 0; i < d; ++i) {
    EXPECT_NEAR(engine->point(out)[i], row.out[i], 0.50001e-5) << "out " << i;
    EXPECT_NEAR(1000 * engine->gradient(table)[i] / at_out, row.slope[i], 0.50001e-4)
        << "derivative " << i;
  }
}

INSTANTIATE_TEST_SUITE_P(Catalogue, Fixture, testing::ValuesIn(rows()), [](const auto& row) {
  std::string name = row.param.name;
  for (char& c : name) c = std::isalnum(static_cast<unsigned char>(c)) ? c : '_';
  return name;
});

TEST(Fixtures, AllRowsOfTierOne) { EXPECT_EQ(rows().size(), 66U); }

}  // namespace
}  // namespace addnorm
