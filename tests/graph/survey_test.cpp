// Norms by place and what branches read, for formulas that use every place.
#include "addnorm/graph/survey.h"

#include <gtest/gtest.h>

#include "addnorm/graph/lower.h"
#include "engine/models.h"

namespace addnorm::graph {
namespace {

using testing_models::small_shape;

NormCount counted(const std::string& formula, int layers = 3) {
  return count_norms(lower(small_shape(ModelKind::decoder, formula, layers))).at(0);
}

TEST(Survey, NormsOfTheStreamsByPlace) {
  const NormCount count = counted(
      "begin: x = norm(embed); y = l2norm(x)\n"
      "block[1..1]: x = x + f(norm(x)); y = y + x\n"
      "block: x = norm(x + norm(f(x)))\n"
      "end: out = norm(x) + rmsnorm(norm(y), affine=false)");
  EXPECT_EQ(count.begin, 2);
  EXPECT_EQ(count.blocks, 2 * 1 + 2 * 2 * 2);
  EXPECT_EQ(count.end, 3);
  EXPECT_EQ(count.placed(), 15);
  EXPECT_EQ(count.in_branches(), 0);
}

TEST(Survey, NormsOfBranchesAreKeptApartWithEveryPositionKind) {
  for (const Positions positions : {Positions::learned, Positions::rope, Positions::alibi}) {
    auto shape = small_shape(
        ModelKind::decoder,
        "x = x + norm(attn(norm(x), qk=l2norm, v=rmsnorm, inner=norm, heads=param(1))); "
        "x = x + ffn(x, inner=layernorm) + attn(x, qk_full=rmsnorm)",
        2);
    shape.positions = positions;
    const NormCount count = count_norms(lower(shape)).at(0);
    EXPECT_EQ(count.qk, 2 * 4);
    EXPECT_EQ(count.value, 2);
    EXPECT_EQ(count.inner, 4);
    EXPECT_EQ(count.placed(), 4);
  }
}

TEST(Survey, ANormReadTwiceIsOneNorm) {
  EXPECT_EQ(counted("n = norm(x); x = x + attn(n) + ffn(n); out = norm(x)").placed(), 4);
}

TEST(Survey, StacksOfAPairAreCountedApart) {
  auto shape = small_shape(ModelKind::encoder_decoder, "x = x + f(norm(x)); out = norm(x)", 2);
  shape.encoder.program = formula::parse("x = norm(x + f(x))");
  const auto counts = count_norms(lower(shape));
  ASSERT_EQ(counts.size(), 2U);
  EXPECT_EQ(counts[0].side, StackSide::encoder);
  EXPECT_EQ(counts[0].placed(), 4);
  EXPECT_EQ(counts[0].end, 0);
  EXPECT_EQ(counts[1].placed(), 2 * 3 + 1);
}

TEST(Survey, BranchesNameTheOriginOfWhatTheyRead) {
  const auto readings = branch_readings(lower(small_shape(
      ModelKind::decoder,
      "n = norm(x); x = x + attn(n); y = relu(x); x = x + ffn(y) + attn(x) + ffn(embed)", 2)));
  ASSERT_EQ(readings.size(), 8U);
  EXPECT_EQ(readings[0].from, "norm");
  EXPECT_EQ(readings[0].name, "blocks.0.norm.1");
  EXPECT_EQ(readings[1].branch, "blocks.0.ffn");
  EXPECT_EQ(readings[1].from, "relu");
  EXPECT_EQ(readings[1].name, "blocks.0.y");
  EXPECT_EQ(readings[2].from, "stream");
  EXPECT_EQ(readings[3].from, "embed");
  EXPECT_EQ(readings[7].branch, "blocks.1.ffn2");
  for (const Reading& reading : readings) EXPECT_TRUE(reading.memory.empty());
}

}  // namespace
}  // namespace addnorm::graph
