// Optimizers against their definitions in double, one number at a time; clipping; the guard.
#include "addnorm/train/optimizer.h"

#include <gtest/gtest.h>

#include <limits>

#include "addnorm/base/error.h"
#include "addnorm/train/clip.h"
#include "addnorm/train/guard.h"
#include "tiny.h"

namespace addnorm::train {
namespace {

using tiny::Trainer;

struct Definition {  // of one weight, in double
  double w = 0, m = 0, v = 0;
  void adam(double g, int64_t t, double lr, double decay, bool decoupled) {
    if (!decoupled) g += decay * w;
    m = 0.9 * m + 0.1 * g;
    v = 0.98 * v + 0.02 * g * g;
    const double mean = m / (1 - std::pow(0.9, double(t)));
    const double spread = std::sqrt(v / (1 - std::pow(0.98, double(t)))) + 1e-6;
    w -= lr * (mean / spread + (decoupled ? decay * w : 0));
  }
  void sgd(double g, double lr, double momentum, double decay) {
    m = momentum * m + g + decay * w;
    w -= lr * m;
  }
};

// Gradients are a function of (parameter, element, t), large and small.
double gradient(size_t parameter, size_t element, int64_t t) {
  const Random random(static_cast<uint64_t>(t), parameter);
  return random.normal(element) * std::pow(10.0, double(element % 7) - 4);
}

void compare(model::TrainSection train, double decay) {
  train.beta2 = 0.98;
  train.eps = 1e-6;
  Trainer trainer(tiny::shape(), train);
  tiny::randomize(*trainer.engine, 5);
  std::vector<std::vector<Definition>> expected;
  for (const auto& weights : trainer.weights()) {
    expected.emplace_back();
    for (const float w : weights) expected.back().push_back({w, 0, 0});
  }
  const double factor = 0.25;  // of clipping
  for (int64_t t = 1; t <= 20; ++t) {
    const double lr = 0.01 * double(t);
    for (size_t i = 0; i < expected.size(); ++i) {
      const graph::Role role = trainer.graph.parameters[i].role;
      const bool undecayed = role == graph::Role::norm || role == graph::Role::bias;
      const double scale = role == graph::Role::q ? 0.5 : 1;
      for (size_t j = 0; j < expected[i].size(); ++j) {
        const auto g = static_cast<float>(gradient(i, j, t));
        trainer.engine->gradient(i)[j] = g;
        const double own_decay = undecayed ? 0 : decay;
        if (train.optimizer == "sgd") {
          expected[i][j].sgd(factor * g, lr * scale, train.momentum, own_decay);
        } else {
          expected[i][j].adam(factor * g, t, lr * scale, own_decay, train.optimizer == "adamw");
        }
      }
    }
    ASSERT_TRUE(trainer.optimizer.update(*trainer.engine, trainer.pieces, t, lr, factor));
  }
  const auto weights = trainer.weights();
  for (size_t i = 0; i < expected.size(); ++i) {
    for (size_t j = 0; j < expected[i].size(); ++j) {
      const double want = expected[i][j].w;
      ASSERT_NEAR(weights[i][j], want, 2e-5 * (std::abs(want) + 0.1))
          << trainer.graph.parameters[i].name << " " << j;
    }
  }
}

model::TrainSection optimizer(const std::string& name) {
  model::TrainSection train = tiny::settings(20);
  train.optimizer = name;
  train.lr_scale["q"] = "1/2";
  return train;
}

TEST(Optimizer, AdamWithoutDecay) { compare(optimizer("adam"), 0); }

TEST(Optimizer, AdamDecayIsAddedToTheGradient) {
  auto train = optimizer("adam");
  train.weight_decay = 0.3;
  compare(train, 0.3);
}

TEST(Optimizer, AdamWDecayIsDecoupled) { compare(optimizer("adamw"), 0.1); }

TEST(Optimizer, SgdWithMomentum) {
  auto train = optimizer("sgd");
  train.weight_decay = 0.05;
  train.momentum = 0.8;
  compare(train, 0.05);
}

TEST(Optimizer, SgdWithoutMomentumKeepsNothing) {
  auto train = optimizer("sgd");
  train.momentum = 0;
  compare(train, 0);
  EXPECT_TRUE(Trainer(tiny::shape(), train).optimizer.moments().empty());
}

TEST(Optimizer, FactorsByRole) {
  auto train = tiny::settings(1);
  train.lr_scale = {{"attn_out", "1/sqrt(L)"}, {"bias", "2"}};
  train.decay = {{"norm", "1"}, {"embed", "0"}};
  const graph::ModelShape shape = tiny::shape();
  const graph::Graph graph = graph::lower(shape);
  const auto factors = parameter_factors(train, shape, graph);
  const auto at = [&](const std::string& name) { return factors[tiny::index_of(graph, name)]; };
  EXPECT_DOUBLE_EQ(at("blocks.1.attn.o.weight").lr_scale, 1 / std::sqrt(2.0));
  EXPECT_EQ(at("blocks.1.attn.o.bias").lr_scale, 2);
  EXPECT_EQ(at("blocks.1.attn.o.bias").decay, 0);
  EXPECT_EQ(at("blocks.1.attn.o.weight").decay, 1);
  EXPECT_EQ(at("blocks.0.norm.1.weight").decay, 1);
  EXPECT_EQ(at("blocks.0.norm.1.bias").decay, 0);  // its role is bias
  EXPECT_EQ(at("embed.tokens.weight").decay, 0);
  EXPECT_EQ(at("embed.positions.weight").decay, 1);
  EXPECT_EQ(at("head.weight").lr_scale, 1);
}

// N1 (c): 100 gradient elements of 1e20 have norm 1e21; clipped to 1 each is 0.1.
TEST(Clip, N1NormInDouble) {
  auto train = tiny::settings(1);
  train.optimizer = "sgd";
  train.momentum = 0;
  Trainer trainer(tiny::shape(), train);
  const size_t table = tiny::index_of(trainer.graph, "blocks.0.ffn.in.weight");
  for (size_t i = 0; i < 100; ++i) trainer.engine->gradient(table)[i] = 1e20F;
  const double norm = gradient_norm(*trainer.engine, trainer.pieces);
  EXPECT_NEAR(norm / 1e21, 1, 1e-7);
  ASSERT_TRUE(
      trainer.optimizer.update(*trainer.engine, trainer.pieces, 1, 1, clip_factor(norm, 1)));
  for (size_t i = 0; i < 100; ++i) {
    EXPECT_NEAR(trainer.weight("blocks.0.ffn.in.weight", i), -0.1, 1e-7);
  }
}

TEST(Clip, Factor) {
  EXPECT_EQ(clip_factor(20, 1), 0.05);
  EXPECT_EQ(clip_factor(20, 0), 1);
  EXPECT_EQ(clip_factor(0.5, 1), 1);
  EXPECT_EQ(clip_factor(1, 1), 1);
}

TEST(Clip, WindowOfAHundred) {
  ClipWindow window;
  EXPECT_EQ(window.share(), 0);
  for (int i = 0; i < 30; ++i) window.add(true);
  EXPECT_EQ(window.share(), 1);
  for (int i = 0; i < 90; ++i) window.add(false);
  EXPECT_EQ(window.share(), 0.1);
  EXPECT_EQ(ClipWindow::from_text(window.text()).text(), window.text());
  EXPECT_THROW(ClipWindow::from_text("012"), Error);
}

TEST(Clip, NormIsNotFiniteExactlyWhereAGradientIsNot) {
  Trainer trainer(tiny::shape(), tiny::settings(1));
  for (const float bad : {std::numeric_limits<float>::infinity(), std::nanf("")}) {
    auto gradient = trainer.engine->gradient(trainer.graph.parameters.size() - 1);
    gradient.back() = bad;
    EXPECT_FALSE(std::isfinite(gradient_norm(*trainer.engine, trainer.pieces)));
    gradient.back() = std::numeric_limits<float>::max();
    EXPECT_TRUE(std::isfinite(gradient_norm(*trainer.engine, trainer.pieces)));
  }
}

// The norm and the update do not depend on how many threads share the pieces.
TEST(PiecesThreads, SameBits) {
  auto model = tiny::shape();
  model.width = 128;
  model.head_dim = 64;
  model.ffn = 1024;
  model.vocab = 4000;
  std::vector<std::vector<float>> first;
  double first_norm = 0;
  for (const int threads : {1, 3}) {
    Trainer trainer(model, tiny::settings(1));
    Pieces pieces(trainer.graph, threads);
    ASSERT_GT(pieces.list().size(), 24U);
    tiny::randomize(*trainer.engine, 3);
    for (size_t i = 0; i < trainer.graph.parameters.size(); ++i) {
      auto values = trainer.engine->gradient(i);
      const Random random(9, i);
      for (size_t j = 0; j < values.size(); ++j) values[j] = static_cast<float>(random.uniform(j));
    }
    const double norm = gradient_norm(*trainer.engine, pieces);
    ASSERT_TRUE(trainer.optimizer.update(*trainer.engine, pieces, 1, 0.01, 1 / norm));
    if (threads == 1) {
      first = trainer.weights();
      first_norm = norm;
    } else {
      EXPECT_EQ(norm, first_norm);
      EXPECT_EQ(trainer.weights(), first);
    }
  }
}

TEST(Optimizer, TellsWhatTheUpdateBroke) {
  Trainer trainer(tiny::shape(), tiny::settings(1));
  tiny::randomize(*trainer.engine, 3);
  trainer.engine->gradient(4)[2] = 1e25F;  // its square overflows v
  EXPECT_FALSE(trainer.optimizer.update(*trainer.engine, trainer.pieces, 1, 0.01, 1));
  const BadElement bad = trainer.optimizer.first_non_finite(*trainer.engine, trainer.pieces);
  EXPECT_EQ(bad.tensor, "v:" + trainer.graph.parameters[4].name);
  EXPECT_EQ(bad.index, 2);
}

}  // namespace
}  // namespace addnorm::train
