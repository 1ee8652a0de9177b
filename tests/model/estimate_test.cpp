// Parameters, memory and FLOPs before anything is allocated.
#include "addnorm/model/estimate.h"

#include <gtest/gtest.h>

#include "support.h"

namespace addnorm::test {
namespace {

model::Estimate of(const model::Specification& spec) {
  const auto shape = shape_of(spec);
  return model::estimate(graph::lower(shape), shape, spec.train);
}

// The model of the speed floor: 39 ms at 0.29 of 180 GFLOP/s are 2.04 GFLOP.
TEST(Estimate, FlopsOfTheSmallestYardstick) {
  const auto spec = parsed(
      "[model]\nkind = \"decoder\"\nlayers = 6\nwidth = 64\nheads = 4\nvocab = 256\ncontext = 64\n"
      "bias = false\nwiring = \"pre-ln\"\n[train]\nbatch = 16\n");
  const auto e = of(spec);
  const double weights = 6 * 12.0 * 64 * 64 + 256 * 64;
  EXPECT_EQ(e.product_weights, weights);
  EXPECT_EQ(e.tokens, 1024);
  EXPECT_EQ(e.flops, 6 * weights * 1024 + 6.0 * 6 * 64 * 64 * 1024);
  EXPECT_NEAR(e.flops / 0.039 / 180e9, 0.29, 0.01);
  EXPECT_EQ(e.parameters, static_cast<double>(graph_of(spec).parameter_count()));
  EXPECT_EQ(e.weight_bytes, 4 * e.parameters);
  EXPECT_EQ(e.moment_bytes, 8 * e.parameters);
  EXPECT_GT(e.activation_bytes, 4.0 * 1024 * 64 * 6);
}

TEST(Estimate, CountsWhatTheKeysSay) {
  const std::string text = small("[train]\nbatch = 2\naccumulate = 3\n");
  const auto base = of(parsed(text));
  EXPECT_EQ(base.tokens, 2 * 3 * 16);
  EXPECT_EQ(of(parsed(text, {{"train.optimizer", "sgd"}})).moment_bytes, 4 * base.parameters);
  const auto encoder = of(parsed(text, {{"model.kind", "encoder"}}));
  EXPECT_EQ(encoder.flops - base.flops, 6.0 * 2 * 16 * 16 * 96);  // attention is not causal
  const auto twice = of(parsed(text, {{"train.batch", "4"}}));
  EXPECT_EQ(twice.activation_bytes, 2 * base.activation_bytes);
  const auto untied = of(parsed(text, {{"model.tie_embeddings", "false"}}));
  EXPECT_EQ(untied.product_weights, base.product_weights);  // the tied table is a product too
  EXPECT_EQ(untied.parameters - base.parameters, 256 * 16);
}

TEST(Estimate, MonstersAreRefusedWithTheEstimate) {
  const auto spec = parsed(
      "[model]\nkind = \"decoder\"\nlayers = 100\nwidth = 32768\nheads = 256\nvocab = 100000\n"
      "context = 4096\nwiring = \"pre-ln\"\n");
  const auto e = of(spec);
  EXPECT_GT(e.parameters, 1e12);
  const auto [kind, text] =
      failure_of([&] { model::require_memory(e, model::available_memory()); });
  EXPECT_EQ(kind, Failure::input);
  EXPECT_TRUE(contains(text, "1.29e+12 parameters")) << text;
  EXPECT_TRUE(contains(text, "TiB")) << text;
  EXPECT_TRUE(contains(text, "try a smaller width")) << text;
  // Sizes whose product no integer holds.
  const auto largest =
      of(parsed("[model]\nkind = \"decoder\"\nlayers = 10000\nwidth = 1000000000\nheads = 1\nvocab "
                "= 1000000000\n"
                "ffn = 1000000000\ncontext = 1000000000\nwiring = \"pre-ln\"\n"));
  EXPECT_GT(largest.parameters, 1e22);
  EXPECT_THROW(model::require_memory(largest, 1e15), Error);
}

TEST(Estimate, SmallModelsPass) {
  const auto e = of(parsed(small()));
  EXPECT_NO_THROW(model::require_memory(e, model::available_memory()));
  EXPECT_GT(model::available_memory(), 1e8);
  EXPECT_THROW(model::require_memory(e, e.memory() - 1), Error);
  EXPECT_TRUE(contains(model::describe(e), "parameters; memory "));
}

}  // namespace
}  // namespace addnorm::test
