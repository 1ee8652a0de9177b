// The loop on small models: accumulation, resuming, refusing, measuring, what it writes.
#include "addnorm/train/loop.h"

#include <gtest/gtest.h>

#include "addnorm/base/error.h"
#include "addnorm/base/files.h"
#include "addnorm/train/evaluate.h"
#include "addnorm/train/first_loss.h"
#include "support/temporary.h"
#include "tiny.h"

namespace addnorm::train {
namespace {

using test::failure_of;
using test::TemporaryFolder;
using tiny::metrics;
using tiny::Trainer;

// cases.md, "two-loss model": the loss of a->a is exactly 4, of b->b 2, of c->c ln 256.
graph::ModelShape two_losses() {
  graph::ModelShape shape = tiny::shape();
  shape.decoder.layers = 1;
  shape.width = 2;
  shape.heads = shape.kv_heads = 1;
  shape.head_dim = 2;
  shape.ffn = 2;
  shape.positions = graph::Positions::none;
  shape.norm = nodes::NormKind::rmsnorm;
  shape.norm_eps = 1e-12;
  shape.vocab = 256;
  shape.context = 128;
  return shape;
}

void set_two_losses(Trainer& trainer) {
  for (size_t i = 0; i < trainer.graph.parameters.size(); ++i) {
    const graph::Parameter& parameter = trainer.graph.parameters[i];
    for (float& w : trainer.engine->parameter(i)) {
      w = parameter.role == graph::Role::norm ? 1.0F : 0.0F;
    }
  }
  trainer.weight("embed.tokens.weight", 2 * 97) = 1;
  trainer.weight("embed.tokens.weight", 2 * 98 + 1) = 1;
  trainer.weight("head.weight", 2 * 97) = 1.1029091F;
  trainer.weight("head.weight", 2 * 98 + 1) = 2.6068742F;
}

model::TrainSection plain_sgd(int64_t steps) {
  model::TrainSection train = tiny::settings(steps);
  train.optimizer = "sgd";
  train.lr = 1;
  train.schedule = "constant";
  train.clip = 0;
  return train;
}

const std::string a11(11, 'a');
const std::string b101(101, 'b');
const std::string c6(6, 'c');

// N4: micro-batches of one step share one divisor.
TEST(AccumulationTraining, N4EqualsTheLargeBatch) {
  using tiny::lines;
  const std::vector<std::vector<nodes::Batch>> ways = {
      {lines({a11, b101})}, {lines({a11}), lines({b101})}, {lines({b101}), lines({a11})}};
  for (const auto& way : ways) {
    TemporaryFolder run;
    Trainer trainer(two_losses(), plain_sgd(1));
    set_two_losses(trainer);
    tiny::FixedSource source(way);
    checkpoint::TrainState state;
    EXPECT_EQ(trainer.run(source, state, run.path()), End::finished);
    const auto steps = metrics(run.path(), "step");
    ASSERT_EQ(steps.size(), 2U);
    EXPECT_NEAR(steps[0].at("loss").get<double>(), 240.0 / 110, 2e-6);
    EXPECT_NEAR(steps[1].at("loss").get<double>(), 240.0 / 110, 2e-6);
    EXPECT_NEAR(trainer.weight("head.weight", 2 * 97), 1.2291192, 1e-6);
    EXPECT_NEAR(trainer.weight("head.weight", 2 * 98 + 1), 3.7185293, 1e-6);
    EXPECT_NEAR(trainer.weight("head.weight", 2 * 97 + 1), -0.0043594, 1e-6);
    EXPECT_NEAR(trainer.weight("head.weight", 2 * 98), -0.0004949, 1e-6);
  }
}

TEST(AccumulationTraining, N4OneTwoThreeMicroBatches) {
  using tiny::lines;
  std::vector<std::vector<float>> first;
  for (const auto& way :
       std::vector<std::vector<nodes::Batch>>{{lines({a11, b101, c6})},
                                              {lines({a11, b101}), lines({c6})},
                                              {lines({a11}), lines({b101}), lines({c6})}}) {
    TemporaryFolder run;
    Trainer trainer(two_losses(), plain_sgd(3));
    set_two_losses(trainer);
    tiny::FixedSource source(way);
    checkpoint::TrainState state;
    trainer.run(source, state, run.path());
    const auto weights = trainer.weights();
    if (first.empty()) first = weights;
    for (size_t i = 0; i < first.size(); ++i) {
      for (size_t j = 0; j < first[i].size(); ++j) ASSERT_NEAR(weights[i][j], first[i][j], 2e-6);
    }
  }
}

// N6: one sum, one count, whatever the batches are.
TEST(Evaluate, N6DoesNotDependOnTheBatchSize) {
  using tiny::lines;
  Trainer trainer(two_losses(), plain_sgd(1));
  set_two_losses(trainer);
  for (const auto& way :
       std::vector<std::vector<nodes::Batch>>{{lines({a11, b101, c6})},
                                              {lines({a11, b101}), lines({c6})},
                                              {lines({a11}), lines({b101}), lines({c6})}}) {
    Evaluation result;
    for (const nodes::Batch& batch : way) evaluate_batch(*trainer.engine, batch, 1, result);
    EXPECT_EQ(result.tokens, 115);
    EXPECT_NEAR(result.sum / 267.7258872, 1, 1e-6);
    EXPECT_NEAR(result.loss() / 2.3280512, 1, 1e-6);
    EXPECT_NEAR(result.perplexity() / 10.2579313, 1, 3e-6);
    result.bytes = 30;
    EXPECT_NEAR(result.bits_per_byte(), result.sum / std::log(2.0) / 30, 1e-9);
  }
  EXPECT_EQ(Evaluation{}.loss(), 0);  // as the loss of a step without targets
  EXPECT_EQ(Evaluation{}.perplexity(), 1);
}

// N5: the norm before clipping, the factor applied and the share are all in the log.
TEST(ClipTraining, N5IsLogged) {
  for (const double clip : {0.5, 0.0}) {
    TemporaryFolder run;
    auto train = tiny::settings(12);
    train.clip = clip;
    train.lr = 0;
    Trainer trainer(tiny::shape(), train);
    tiny::randomize(*trainer.engine, 1);
    const auto before = trainer.weights();
    tiny::RandomSource source(4, 3, 6, 11, 1);
    checkpoint::TrainState state;
    trainer.run(source, state, run.path());
    EXPECT_EQ(trainer.weights(), before);
    for (const auto& step : metrics(run.path(), "step")) {
      if (step.at("step") == 0) {
        EXPECT_FALSE(step.contains("grad_norm"));
        EXPECT_FALSE(step.contains("lr"));
        EXPECT_FALSE(step.contains("clip"));
        continue;
      }
      const double norm = step.at("grad_norm");
      ASSERT_GT(norm, 0.5);
      EXPECT_DOUBLE_EQ(step.at("clip").get<double>(), clip > 0 ? clip / norm : 1.0);
      EXPECT_EQ(step.at("clipped"), clip > 0 ? 1.0 : 0.0);
    }
  }
}

// D9: the loss before any update is the first record; an odd one is explained.
TEST(FirstLossCheck, D9ZeroAndLargeHeads) {
  auto model = tiny::shape();
  model.vocab = 257;
  model.width = 64;
  model.heads = model.kv_heads = 4;
  model.head_dim = 16;
  model.context = 64;
  Trainer trainer(model, tiny::settings(1));
  tiny::randomize(*trainer.engine, 1, 0.1);
  const size_t head = tiny::index_of(trainer.graph, "head.weight");
  for (float& w : trainer.engine->parameter(head)) w = 0;
  tiny::RandomSource source(4, 4, 64, 257, 1);
  std::vector<nodes::Batch> batches;
  source.step(1, batches);
  const FirstLoss flat = first_loss(*trainer.engine, batches);
  EXPECT_NEAR(flat.loss, 5.5490761, 1e-5);
  EXPECT_EQ(flat.warning, "");
  auto weights = trainer.engine->parameter(head);
  const Random random(1, "head");
  for (size_t i = 0; i < weights.size(); ++i) weights[i] = static_cast<float>(random.normal(i));
  const FirstLoss steep = first_loss(*trainer.engine, batches);
  EXPECT_GT(steep.loss, 20);
  EXPECT_NE(steep.warning.find("5.5491"), std::string::npos) << steep.warning;
  const size_t at = steep.warning.find("standard deviation is ");
  ASSERT_NE(at, std::string::npos) << steep.warning;
  EXPECT_NEAR(std::stod(steep.warning.substr(at + 22)), 8, 0.4);  // sqrt(d)
}

model::TrainSection demanding(int64_t steps) {
  auto train = tiny::settings(steps);
  train.accumulate = 2;
  train.clip = 0.7;
  train.checkpoint_every = 5;
  train.eval_every = 3;
  train.diag_every = 4;
  train.warmup = "2";
  return train;
}

graph::ModelShape with_dropout() {
  auto model = tiny::shape();
  model.dropout = 0.1;
  return model;
}

struct Result {
  std::vector<std::vector<float>> weights, moments;
  std::vector<nlohmann::json> records;
  bool operator==(const Result&) const = default;
};

Result result_of(Trainer& trainer, const std::filesystem::path& run) {
  return {trainer.weights(), trainer.moments(), tiny::timeless(run)};
}

// A new process: weights, moments and counters from the newest checkpoint.
checkpoint::TrainState reload(Trainer& trainer, const std::filesystem::path& run) {
  const auto moments = moment_tensors(trainer.optimizer, trainer.graph);
  const auto state = checkpoint::load_checkpoint(*checkpoint::newest_checkpoint(run),
                                                 weight_tensors(*trainer.engine), &moments);
  checkpoint::discard_metrics_after(run, state.step);
  return state;
}

// S2: straight, interrupted, and killed two steps after the checkpoint: the same bits.
TEST(ResumeTraining, S2SameBits) {
  tiny::RandomSource source(4, 3, 6, 11, 2);
  TemporaryFolder straight;
  Result expected;
  {
    Trainer trainer(with_dropout(), demanding(10));
    tiny::randomize(*trainer.engine, 1);
    checkpoint::TrainState state;
    EXPECT_EQ(trainer.run(source, state, straight.path()), End::finished);
    expected = result_of(trainer, straight.path());
    EXPECT_EQ(state.step, 10);
  }
  {
    TemporaryFolder run;
    std::atomic<bool> interrupted = true;
    Trainer trainer(with_dropout(), demanding(10));
    tiny::randomize(*trainer.engine, 1);
    checkpoint::TrainState state;
    EXPECT_EQ(trainer.run(source, state, run.path(), &interrupted), End::interrupted);
    EXPECT_EQ(state.step, 1);
    for (int64_t step = 2; step <= 9; ++step) {  // a session per step
      Trainer next(with_dropout(), demanding(10));
      auto loaded = reload(next, run.path());
      EXPECT_EQ(next.run(source, loaded, run.path(), &interrupted), End::interrupted);
      EXPECT_EQ(loaded.step, step);
    }
    Trainer last(with_dropout(), demanding(10));
    auto loaded = reload(last, run.path());
    EXPECT_EQ(last.run(source, loaded, run.path(), &interrupted), End::finished);
    EXPECT_TRUE(result_of(last, run.path()) == expected);
  }
  {
    TemporaryFolder run;
    Trainer trainer(with_dropout(), demanding(10));
    tiny::randomize(*trainer.engine, 1);
    struct Killed {};
    struct Killer : Reporter {
      void step(const StepReport& report) override {
        if (report.step == 7) throw Killed{};
      }
    } killer;
    checkpoint::TrainState state;
    EXPECT_THROW(train({*trainer.engine, trainer.optimizer, trainer.pieces, source, trainer.rates,
                        trainer.settings, run.path(), killer, nullptr},
                       state),
                 Killed);
    Trainer next(with_dropout(), demanding(10));
    auto loaded = reload(next, run.path());
    EXPECT_EQ(loaded.step, 5);
    EXPECT_EQ(metrics(run.path(), "step", "metrics.discarded.jsonl").size(), 2U);
    next.run(source, loaded, run.path());
    EXPECT_TRUE(result_of(next, run.path()) == expected);
  }
}

// G4: measuring changes nothing.
TEST(DiagnosticsTraining, SameBitsWithAndWithout) {
  std::vector<std::vector<float>> first;
  for (const int64_t every : {0, 1}) {
    TemporaryFolder run;
    auto train = demanding(8);
    train.diag_every = every;
    Trainer trainer(with_dropout(), train);
    tiny::randomize(*trainer.engine, 1);
    tiny::RandomSource source(4, 3, 6, 11, 2);
    checkpoint::TrainState state;
    trainer.run(source, state, run.path());
    const auto records = metrics(run.path(), "diag");
    EXPECT_EQ(records.size(), every == 0 ? 1U : 8U);
    if (every == 0) {
      first = trainer.weights();
    } else {
      EXPECT_EQ(trainer.weights(), first);
    }
    int told = 0;
    for (const auto& note : trainer.notes.notes)
      told += note.find("measuring") != std::string::npos;
    EXPECT_EQ(told, 1);
  }
}

double number(const nlohmann::json& json) { return json.get<double>(); }

// Against sums by hand on the same step.
TEST(DiagnosticsTraining, NumbersByHand) {
  TemporaryFolder run;
  auto train = plain_sgd(1);
  train.lr = 0.5;
  train.momentum = 0;
  Trainer trainer(tiny::shape(), train);
  tiny::randomize(*trainer.engine, 1);
  tiny::RandomSource source(4, 3, 6, 11, 1);
  std::vector<nodes::Batch> batches;
  source.step(1, batches);
  auto twin = engine::make_reference<float>(trainer.graph);
  tiny::randomize(*twin, 1);
  engine::Request request;
  request.training = true;
  const auto& inputs = trainer.graph.stacks[0].layer_input;
  request.points = inputs;
  twin->run(batches[0], request);

  checkpoint::TrainState state;
  trainer.run(source, state, run.path());
  const auto record = metrics(run.path(), "diag").at(0);
  EXPECT_EQ(record.at("step"), 1);
  ASSERT_EQ(record.at("layers").size(), 2U);
  const auto norm = [](auto values) {
    double sum = 0;
    for (const auto v : values) sum += static_cast<double>(v) * static_cast<double>(v);
    return std::sqrt(sum);
  };
  for (size_t l = 0; l < 2; ++l) {
    const auto& layer = record.at("layers")[l];
    EXPECT_EQ(layer.at("layer"), l);
    EXPECT_NEAR(number(layer.at("stream_grad_norm")), norm(twin->point_gradient(inputs[l])), 1e-9);
    const double stream = norm(twin->point(inputs[l]));
    EXPECT_NEAR(number(layer.at("stream_ms")), stream * stream / (18 * 8), 1e-9);
    double gradients = 0;
    double weights = 0;
    for (size_t i = 0; i < trainer.graph.parameters.size(); ++i) {
      if (trainer.graph.parameters[i].layer != static_cast<int>(l)) continue;
      gradients += std::pow(norm(twin->gradient(i)), 2);
      weights += std::pow(norm(twin->parameter(i)), 2);
    }
    EXPECT_NEAR(number(layer.at("grad_norm")), std::sqrt(gradients), 1e-9);
    EXPECT_NEAR(number(layer.at("update_ratio")), 0.5 * std::sqrt(gradients / weights), 1e-6);
  }
  const auto x = twin->point(inputs[2]);
  double pairs = 0;
  double squares = 0;
  for (size_t b = 0; b < 3; ++b) {
    for (size_t t = 0; t < 6; ++t) {
      for (size_t u = 0; u < 6; ++u) {
        double product = 0;
        for (size_t c = 0; c < 8; ++c) {
          product += double{x[(b * 6 + t) * 8 + c]} * double{x[(b * 6 + u) * 8 + c]};
        }
        (t == u ? squares : pairs) += product / 8;
      }
    }
  }
  EXPECT_NEAR(number(record.at("out")[0].at("r")), (pairs / 90) / (squares / 18), 1e-9);
  const size_t q0 = tiny::index_of(trainer.graph, "blocks.0.attn.q.weight");
  const size_t q1 = tiny::index_of(trainer.graph, "blocks.1.attn.q.weight");
  EXPECT_NEAR(number(record.at("roles").at("q").at("grad_norm")),
              std::hypot(norm(twin->gradient(q0)), norm(twin->gradient(q1))), 1e-9);
}

// The zero model of cases.md with one weight that overflows float in the forward pass.
graph::ModelShape zero_model() {
  auto shape = two_losses();
  shape.width = 4;
  shape.head_dim = 4;
  shape.ffn = 4;
  shape.norm = nodes::NormKind::layernorm;
  return shape;
}

void set_overflow(Trainer& trainer) {
  set_two_losses(trainer);
  trainer.weight("blocks.0.ffn.in.bias", 0) = 10;
  trainer.weight("blocks.0.ffn.out.weight", 0) = 3.4e38F;
}

// N1 (a): nothing is updated, the first tensor is named, no checkpoint appears.
TEST(GuardTraining, N1StopNamesTheTensor) {
  TemporaryFolder run;
  Trainer trainer(zero_model(), tiny::settings(5));
  set_overflow(trainer);
  const auto before = trainer.weights();
  tiny::FixedSource source({tiny::lines({a11})});
  checkpoint::TrainState state;
  const auto [failure, message] = failure_of([&] { trainer.run(source, state, run.path()); });
  EXPECT_EQ(failure, Failure::nonfinite);
  for (const char* part : {"[step 1]", "blocks.0.ffn.out", "sequence 0", "token 0", "forward"}) {
    EXPECT_NE(message.find(part), std::string::npos) << part << "\n" << message;
  }
  EXPECT_EQ(trainer.weights(), before);
  EXPECT_FALSE(checkpoint::newest_checkpoint(run.path()));
  const auto steps = metrics(run.path(), "step");
  ASSERT_EQ(steps.size(), 2U);
  EXPECT_TRUE(steps[1].at("loss").is_string());
  EXPECT_TRUE(steps[1].at("grad_norm").is_string());
}

// N1 and N2: skipped steps touch nothing, keep the raw loss in the log, and end after ten in a row.
TEST(GuardTraining, N1SkipTouchesNothing) {
  TemporaryFolder run;
  auto train = tiny::settings(50);
  train.on_nonfinite = "skip";
  Trainer trainer(zero_model(), train);
  set_overflow(trainer);
  const auto before = trainer.weights();
  const auto moments = trainer.moments();
  tiny::FixedSource source({tiny::lines({a11})});
  checkpoint::TrainState state;
  const auto [failure, message] = failure_of([&] { trainer.run(source, state, run.path()); });
  EXPECT_EQ(failure, Failure::nonfinite);
  EXPECT_NE(message.find("10 steps in a row"), std::string::npos) << message;
  EXPECT_EQ(state.step, 10);
  EXPECT_EQ(state.updates, 0);
  EXPECT_EQ(trainer.weights(), before);
  EXPECT_EQ(trainer.moments(), moments);
  const auto steps = metrics(run.path(), "step");
  for (int64_t i = 1; i <= 10; ++i) {
    const auto& step = steps.at(static_cast<size_t>(i));
    EXPECT_EQ(step.at("loss"), "NaN");
    EXPECT_EQ(step.at("nonfinite_steps"), i);
    EXPECT_EQ(step.at("skipped_steps"), i);
  }
}

// One bad batch among good ones: the dropout stream and the moments go on as if it had not been.
TEST(GuardTraining, N1SkipLeavesTheStreamOfDropout) {
  struct OneBad : tiny::RandomSource {
    OneBad(bool with, int64_t at) : RandomSource(4, 3, 6, 11, 1), with_bad(with), bad(at) {}
    void step(int64_t step, std::vector<nodes::Batch>& batches) override {
      RandomSource::step(with_bad && step > bad ? step - 1 : step, batches);
      if (!with_bad || step != bad) return;
      batches[0].tokens[3] = 10;  // the only row that overflows
    }
    bool with_bad;
    int64_t bad;
  };
  std::vector<std::vector<float>> first;
  for (const bool with : {false, true}) {
    TemporaryFolder run;
    auto train = tiny::settings(with ? 7 : 6);
    train.on_nonfinite = "skip";
    train.schedule = "constant";
    auto model = with_dropout();
    model.vocab = 12;
    Trainer trainer(model, train);
    tiny::randomize(*trainer.engine, 1);
    for (size_t c = 0; c < 8; ++c) {
      trainer.weight("embed.tokens.weight", 10 * 8 + c) = 3e38F;  // their sum is not finite
    }
    OneBad source(with, 4);
    // Ids 0..9 only, so that row 10 is met nowhere else.
    struct Small : Source {
      explicit Small(OneBad& from) : from_(from) {}
      void step(int64_t step, std::vector<nodes::Batch>& batches) override {
        from_.step(step, batches);
        for (auto& batch : batches) {
          for (size_t i = 0; i < batch.tokens.size(); ++i) {
            const bool planted = from_.with_bad && step == from_.bad && i == 3;
            if (!planted && batch.tokens[i] == 10) batch.tokens[i] = 9;
          }
        }
      }
      int64_t validation_batches() const override { return 0; }
      void validation(int64_t, nodes::Batch&) override {}
      int64_t validation_bytes() const override { return 0; }
      OneBad& from_;
    } small(source);
    checkpoint::TrainState state;
    trainer.run(small, state, run.path());
    EXPECT_EQ(state.updates, 6);
    EXPECT_EQ(state.skipped_steps, with ? 1 : 0);
    auto all = trainer.weights();
    for (auto& moment : trainer.moments()) all.push_back(moment);
    if (!with) {
      first = all;
    } else {
      EXPECT_TRUE(all == first);
    }
  }
}

// N1 (d): weights that leave the range of float end the run; every checkpoint on disk is finite.
TEST(GuardTraining, N1HugeRate) {
  TemporaryFolder run;
  auto train = tiny::settings(5);
  train.lr = 1e30;
  train.checkpoint_every = 1;
  Trainer trainer(tiny::shape(), train);
  tiny::randomize(*trainer.engine, 1);
  tiny::RandomSource source(4, 3, 6, 11, 1);
  checkpoint::TrainState state;
  EXPECT_EQ(failure_of([&] { trainer.run(source, state, run.path()); }).first, Failure::nonfinite);
  for (const auto& path : checkpoint::checkpoints(run.path())) {
    Trainer loaded(tiny::shape(), train);
    const auto moments = moment_tensors(loaded.optimizer, loaded.graph);
    checkpoint::load_checkpoint(path, weight_tensors(*loaded.engine), &moments);  // refuses others
  }
}

TEST(GuardTraining, AStepWithoutTargetsTouchesNothing) {
  TemporaryFolder run;
  Trainer trainer(tiny::shape(), tiny::settings(2));
  tiny::randomize(*trainer.engine, 1);
  const auto before = trainer.weights();
  auto batch = tiny::RandomSource(4, 2, 6, 11, 1).batch(1);
  std::fill(batch.targets.begin(), batch.targets.end(), nodes::Batch::ignored);
  tiny::FixedSource source({batch});
  checkpoint::TrainState state;
  trainer.run(source, state, run.path());
  EXPECT_EQ(trainer.weights(), before);
  EXPECT_EQ(state.updates, 0);
  EXPECT_EQ(metrics(run.path(), "step").at(1).at("loss"), 0.0);
  EXPECT_NE(metrics(run.path(), "note").at(0).at("text").get<std::string>().find("no target"),
            std::string::npos);
}

TEST(LearnTraining, TheLossFalls) {
  TemporaryFolder run;
  auto train = tiny::settings(150);
  Trainer trainer(tiny::shape(), train);
  tiny::randomize(*trainer.engine, 1);
  tiny::RandomSource source(4, 8, 6, 11, 1);
  checkpoint::TrainState state;
  trainer.run(source, state, run.path());
  const auto steps = metrics(run.path(), "step");
  EXPECT_GT(number(steps.front().at("loss")), 2);
  EXPECT_LT(number(steps.back().at("loss")), 1);
  EXPECT_EQ(steps.back().at("tokens"), 150 * 48);
  const auto evals = metrics(run.path(), "eval");
  ASSERT_EQ(evals.size(), 1U);
  EXPECT_LT(number(evals[0].at("val_loss")), 1);
}

}  // namespace
}  // namespace addnorm::train
