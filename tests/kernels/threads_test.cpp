// The same bits from whichever thread calls, with all threads calling at once.
#include "addnorm/base/threads.h"

#include <gtest/gtest.h>

#include "kernels/support.h"

namespace addnorm::kernels {
namespace {

// One result of each family of kernels, of sizes that leave partial vectors.
Buffer some_of_everything() {
  const Index rows = 37;
  const Index width = 30;
  const Buffer x = random_buffer(rows * width, 1);
  const Buffer w = random_buffer(width * width, 2);
  const Buffer gain = random_buffer(width, 3);
  Buffer all;
  const auto keep = [&](const Buffer& buffer) {
    all.insert(all.end(), buffer.begin(), buffer.end());
  };

  Buffer y = nan_buffer(rows * width);
  linear(rows, width, width, x.data(), w.data(), gain.data(), y.data());
  keep(y);
  Buffer dw = nan_buffer(width * width);
  linear_dw(rows, width, width, y.data(), x.data(), dw.data(), false);
  keep(dw);

  NormSpec norm_spec;
  norm_spec.n = width;
  norm_spec.eps = 1e-5F;
  norm_spec.gain = gain.data();
  Buffer out = nan_buffer(rows * width);
  Buffer stats = nan_buffer(norm_stats(rows));
  norm(norm_spec, rows, y.data(), out.data(), stats.data());
  keep(out);
  Buffer dgain(gain.size(), 0.0F);
  NormGradients gradients;
  gradients.gain = dgain.data();
  Buffer da = nan_buffer(rows * width);
  norm_backward(norm_spec, rows, y.data(), stats.data(), x.data(), da.data(), false, gradients);
  keep(da);
  keep(dgain);

  unary({Unary::gelu}, rows * width, y.data(), out.data());
  dropout(5, 6, 0.2F, 3, rows * width, out.data(), out.data(), false);
  keep(out);

  AttentionSpec attention_spec;
  attention_spec.queries = attention_spec.keys = rows;
  attention_spec.heads = attention_spec.kv_heads = 3;
  attention_spec.head_dim = width / 3;
  attention_spec.causal = true;
  Buffer scratch = nan_buffer(attention_scratch(attention_spec, false));
  Buffer lse = nan_buffer(rows * 3);
  attention(attention_spec, 0, 3, x.data(), width, y.data(), width, y.data(), width, out.data(),
            width, lse.data(), scratch.data());
  keep(out);
  keep(lse);

  HeadSpec head;
  head.width = width;
  head.vocab = width;
  head.w = w.data();
  const std::vector<int32_t> targets(static_cast<size_t>(rows), 4);
  Buffer work = nan_buffer(rows * width);
  const HeadLoss loss = head_loss(head, rows, x.data(), targets.data(), work.data(), nullptr,
                                  nullptr, da.data(), false, dw.data(), nullptr);
  keep(da);
  keep(dw);
  keep({static_cast<float>(loss.loss)});
  return all;
}

TEST(Threads, GiveTheSameBits) {
  constexpr int kThreads = 4;
  ThreadPool pool(kThreads);
  std::vector<Buffer> results(kThreads);
  pool.run([&](int thread) { results[static_cast<size_t>(thread)] = some_of_everything(); });
  for (const float x : results[0]) ASSERT_TRUE(std::isfinite(x));
  for (const Buffer& result : results) EXPECT_EQ(result, results[0]);
  pool.run([&](int thread) { results[static_cast<size_t>(thread)] = some_of_everything(); });
  for (const Buffer& result : results) EXPECT_EQ(result, results[0]);
}

}  // namespace
}  // namespace addnorm::kernels
