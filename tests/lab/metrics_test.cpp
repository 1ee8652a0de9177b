#include "addnorm/lab/metrics.h"

#include <gtest/gtest.h>

#include <cmath>
#include <fstream>

#include "addnorm/base/error.h"
#include "support/temporary.h"

namespace addnorm::lab {
namespace {

constexpr const char* text =
    "{\"event\":\"note\",\"text\":\"data\",\"unigram_entropy\":3.02,\"bigram_entropy\":2.33}\n"
    "{\"event\":\"step\",\"step\":0,\"loss\":5.6,\"tokens\":0,\"seconds\":0}\n"
    "{\"event\":\"step\",\"step\":1,\"loss\":\"inf\",\"lr\":0.005,\"grad_norm\":\"nan\","
    "\"clipped\":0.5,"
    "\"tokens\":1024,\"seconds\":0.2,\"nonfinite_steps\":1}\n"
    "{\"event\":\"eval\",\"step\":1,\"val_loss\":3.5}\n"
    "{\"event\":\"diag\",\"step\":1,\"layers\":[{\"layer\":0,\"stack\":\"\",\"stream_ms\":1.5,"
    "\"stream_grad_norm\":0.25,\"grad_norm\":\"Infinity\",\"update_ratio\":0.001}],\"out\":[{"
    "\"stack\":"
    "\"\",\"stream_ms\":1,\"stream_grad_norm\":0.2,\"r\":0.5}],\"roles\":{\"ffn_out\":{\"grad_"
    "norm\":0.125,"
    "\"update_ratio\":\"NaN\"}},\"seconds\":0.1}\n"
    "{\"event\":\"from the future\",\"x\":[1,2]}\n";

// C5: complete lines are read, a torn last one is not, infinite values are strings.
TEST(Metrics, reads_complete_lines) {
  const Metrics metrics = parse_metrics(std::string(text) + "{\"event\":\"step\",\"st", "m");
  ASSERT_EQ(metrics.steps.size(), 2u);
  EXPECT_TRUE(metrics.torn);
  EXPECT_FALSE(metrics.steps[0].lr.has_value());
  EXPECT_TRUE(std::isinf(metrics.steps[1].loss));
  EXPECT_TRUE(std::isnan(*metrics.steps[1].grad_norm));
  EXPECT_EQ(metrics.steps[1].clipped, 0.5);
  EXPECT_EQ(metrics.steps[1].nonfinite_steps, 1);
  EXPECT_EQ(metrics.evals.at(0).val_loss, 3.5);
  const DiagRecord& diag = metrics.diags.at(0);
  ASSERT_EQ(diag.layers.size(), 2u);
  EXPECT_EQ(diag.layers[0].layer, 0);
  EXPECT_EQ(diag.layers[0].stream_grad_norm, 0.25);
  EXPECT_TRUE(std::isinf(diag.layers[0].grad_norm));
  EXPECT_EQ(diag.layers[1].layer, -1);
  EXPECT_EQ(diag.layers[1].correlation, 0.5);
  EXPECT_EQ(diag.roles.at("ffn_out").grad_norm, 0.125);
  EXPECT_TRUE(std::isnan(diag.roles.at("ffn_out").update_ratio));
  EXPECT_EQ(metrics.unigram_entropy, 3.02);
  EXPECT_EQ(metrics.bigram_entropy, 2.33);
  EXPECT_EQ(metrics.notes.at(0).text, "data");
}

TEST(Metrics, names_the_line_that_is_no_object) {
  for (const std::string& bad : {std::string("{\"event\": NaN}\n"), std::string("[1]\n"),
                                 std::string("\n"), std::string(100000, '[') + "\n"}) {
    const auto [kind, message] =
        test::failure_of([&] { parse_metrics(std::string(text) + bad, "run/metrics.jsonl"); });
    EXPECT_EQ(kind, Failure::input);
    EXPECT_NE(message.find("run/metrics.jsonl:7"), std::string::npos) << message.substr(0, 300);
  }
}

TEST(Metrics, last_step_is_read_from_the_end) {
  test::TemporaryFolder folder;
  const auto file = folder.path() / "metrics.jsonl";
  EXPECT_EQ(last_step(file), 0);
  EXPECT_TRUE(read_metrics(file).steps.empty());
  {
    std::ofstream out(file);
    for (int i = 0; i <= 3000; ++i) out << "{\"event\":\"step\",\"step\":" << i << ",\"loss\":3}\n";
    out << "{\"event\":\"eval\",\"step\":3000,\"val_loss\":3}\n{\"event\":\"step\",\"step\":30";
  }
  EXPECT_EQ(last_step(file), 3000);
  EXPECT_EQ(read_metrics(file).last_step(), 3000);
}

}  // namespace
}  // namespace addnorm::lab
