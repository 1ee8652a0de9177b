// Streaming attention against the full matrix of scores in double, every option, many shapes.
#include <gtest/gtest.h>

#include "kernels/support.h"

namespace addnorm::kernels {
namespace {

constexpr Index kSpan = 400;

struct Case {
  std::string name;
  Index queries = 5, keys = 5, heads = 2, kv_heads = 2, head_dim = 4;
  bool causal = false;
  double scale = 0.5, softcap = 0;
  bool mask = false, alibi = false, t5 = false, left_padded = false;
  bool all_masked = false;
};

constexpr Index kBuckets = 6;

struct Inputs {
  Case c;
  Buffer q, k, v, dout, table, slopes;
  std::vector<uint8_t> mask;
  std::vector<int32_t> buckets, query_positions, key_positions;
  Index q_pitch, k_pitch, v_pitch, out_pitch;

  explicit Inputs(const Case& which) : c(which) {
    q_pitch = c.heads * c.head_dim + 1;
    k_pitch = c.kv_heads * c.head_dim + 2;
    v_pitch = c.kv_heads * c.head_dim + 3;
    out_pitch = c.heads * c.head_dim + 4;
    q = random_buffer(c.queries * q_pitch, 1);
    k = random_buffer(c.keys * k_pitch, 2);
    v = random_buffer(c.keys * v_pitch, 3);
    dout = random_buffer(c.queries * out_pitch, 4);
    table = random_buffer(kBuckets * c.heads, 5);
    slopes = random_buffer(c.heads, 6, 0.1);
    for (Index j = 0; j < c.keys; ++j) {
      mask.push_back(c.all_masked ? 0 : (j * 7 + 3) % 5 == 0 || (c.left_padded && j < 2) ? 0 : 1);
    }
    buckets.resize(2 * kSpan + 1);
    relative_buckets(kSpan, kBuckets, 20, !c.causal, buckets.data());
    const auto place = [&](Index j) { return static_cast<int32_t>(std::max<Index>(0, j - 2)); };
    for (Index i = 0; i < c.queries; ++i) query_positions.push_back(place(i));
    for (Index j = 0; j < c.keys; ++j) key_positions.push_back(place(j));
  }

  AttentionSpec spec() const {
    AttentionSpec s;
    s.queries = c.queries;
    s.keys = c.keys;
    s.heads = c.heads;
    s.kv_heads = c.kv_heads;
    s.head_dim = c.head_dim;
    s.causal = c.causal;
    s.scale = static_cast<float>(c.scale);
    s.softcap = static_cast<float>(c.softcap);
    if (c.mask) s.key_mask = mask.data();
    if (c.alibi) s.slopes = slopes.data();
    if (c.t5) {
      s.table = table.data();
      s.buckets = buckets.data();
      s.span = kSpan;
      s.bucket_count = kBuckets;
    }
    if (c.left_padded) {
      s.query_positions = query_positions.data();
      s.key_positions = key_positions.data();
    }
    return s;
  }
};

struct Slow {
  Wide out, lse, dq, dk, dv, dtable;
};

size_t at(Index row, Index pitch, Index column) {
  return static_cast<size_t>(row * pitch + column);
}

// The definition of AttentionSpec, and its derivative by hand through the whole matrix.
Slow slow_attention(const Inputs& in, Index kv_begin, Index kv_end) {
  const Case& c = in.c;
  Slow slow;
  slow.out.assign(in.dout.size(), 0);
  slow.lse.assign(static_cast<size_t>(c.queries * c.heads), 0);
  slow.dq.assign(in.q.size(), 0);
  slow.dk.assign(in.k.size(), 0);
  slow.dv.assign(in.v.size(), 0);
  slow.dtable.assign(in.table.size(), 0);
  const Index e = c.head_dim;
  const Index group = c.heads / c.kv_heads;
  for (Index h = kv_begin * group; h < kv_end * group; ++h) {
    const Index kv = h / group;
    for (Index i = 0; i < c.queries; ++i) {
      const auto keys = static_cast<size_t>(c.keys);
      Wide s(keys, -INFINITY);
      Wide slope(keys, 1.0);
      std::vector<int32_t> bucket(keys, 0);
      for (size_t j = 0; j < keys; ++j) {
        const auto column = static_cast<Index>(j);
        if ((c.causal && column > i) || (c.mask && in.mask[j] == 0)) continue;
        double x = 0;
        for (Index d = 0; d < e; ++d) {
          x += double{in.q[at(i, in.q_pitch, h * e + d)]} *
               in.k[at(column, in.k_pitch, kv * e + d)] * c.scale;
        }
        if (c.softcap > 0) {
          const double t = std::tanh(x / c.softcap);
          x = c.softcap * t;
          slope[j] = 1 - t * t;
        }
        const Index pi = c.left_padded ? in.query_positions[static_cast<size_t>(i)] : i;
        const Index pj = c.left_padded ? in.key_positions[j] : column;
        if (c.alibi) {
          x -= in.slopes[static_cast<size_t>(h)] * std::abs(static_cast<double>(pi - pj));
        }
        bucket[j] = in.buckets[static_cast<size_t>(pj - pi + kSpan)];
        if (c.t5) x += in.table[at(bucket[j], c.heads, h)];
        s[j] = x;
      }
      const double largest = keys > 0 ? *std::max_element(s.begin(), s.end()) : -INFINITY;
      double total = 0;
      for (const double x : s) total += std::isinf(x) ? 0 : std::exp(x - largest);
      slow.lse[at(i, c.heads, h)] = total == 0 ? INFINITY : largest + std::log(total);
      if (total == 0) continue;
      Wide p(keys);
      Wide dp(keys, 0.0);
      double along = 0;
      for (size_t j = 0; j < keys; ++j) {
        p[j] = std::isinf(s[j]) ? 0 : std::exp(s[j] - largest) / total;
        for (Index d = 0; d < e; ++d) {
          const double value = in.v[at(static_cast<Index>(j), in.v_pitch, kv * e + d)];
          slow.out[at(i, in.out_pitch, h * e + d)] += p[j] * value;
          const double g = in.dout[at(i, in.out_pitch, h * e + d)];
          dp[j] += g * value;
          slow.dv[at(static_cast<Index>(j), in.v_pitch, kv * e + d)] += p[j] * g;
        }
        along += p[j] * dp[j];
      }
      for (size_t j = 0; j < keys; ++j) {
        const double ds = p[j] * (dp[j] - along);
        if (c.t5) slow.dtable[at(bucket[j], c.heads, h)] += ds;
        for (Index d = 0; d < e; ++d) {
          const size_t qi = at(i, in.q_pitch, h * e + d);
          const size_t ki = at(static_cast<Index>(j), in.k_pitch, kv * e + d);
          slow.dq[qi] += ds * slope[j] * c.scale * in.k[ki];
          slow.dk[ki] += ds * slope[j] * c.scale * in.q[qi];
        }
      }
    }
  }
  return slow;
}

std::vector<Case> cases() {
  std::vector<Case> list;
  const auto with = [&](const char* name, auto change) {
    Case c;
    c.name = name;
    change(c);
    list.push_back(c);
  };
  with("plain", [](Case&) {});
  with("causal", [](Case& c) { c.causal = true; });
  for (const Index size : {1, 3, 7, 17, 65, 130}) {
    with("causal_sizes", [&](Case& c) {
      c.queries = c.keys = size;
      c.causal = true;
      c.head_dim = size % 9 + 1;
    });
    with("cross_sizes", [&](Case& c) {
      c.queries = size;
      c.keys = 9;
      c.head_dim = 17;
      c.mask = true;
    });
    with("cross_sizes_turned", [&](Case& c) {
      c.queries = 6;
      c.keys = size;
      c.head_dim = 33;
    });
  }
  with("blocks_causal", [](Case& c) {
    c.queries = c.keys = 300;
    c.causal = true;
    c.head_dim = 16;
  });
  with("blocks", [](Case& c) {
    c.queries = 70;
    c.keys = 270;
    c.mask = true;
    c.head_dim = 16;
  });
  with("grouped", [](Case& c) {
    c.queries = c.keys = 20;
    c.heads = 6;
    c.kv_heads = 2;
    c.causal = true;
  });
  with("softcap", [](Case& c) {
    c.queries = c.keys = 20;
    c.softcap = 1.5;
    c.causal = true;
  });
  for (const bool causal : {false, true}) {
    for (const bool padded : {false, true}) {
      for (const Index size : {11, 150}) {
        with("alibi", [&](Case& c) {
          c.queries = c.keys = size;
          c.causal = causal;
          c.left_padded = padded;
          c.alibi = c.mask = true;
        });
        with("t5", [&](Case& c) {
          c.queries = c.keys = size;
          c.causal = causal;
          c.left_padded = padded;
          c.mask = padded;
          c.t5 = true;
        });
      }
    }
  }
  with("everything", [](Case& c) {
    c.queries = c.keys = 140;
    c.heads = 4;
    c.kv_heads = 2;
    c.head_dim = 24;
    c.softcap = 2;
    c.causal = c.mask = c.alibi = c.t5 = c.left_padded = true;
  });
  with("all_masked", [](Case& c) { c.mask = c.all_masked = true; });
  with("first_rows_masked", [](Case& c) { c.mask = c.causal = c.left_padded = true; });
  with("no_keys", [](Case& c) { c.keys = 0; });
  with("no_queries", [](Case& c) { c.queries = 0; });
  return list;
}

class Attention : public EverySet {};

// The pitch's gaps stay as they were, so the whole buffers can be compared.
void expect_rows(const Buffer& got, const Wide& want, Index rows, Index pitch, Index cols,
                 const char* what) {
  Buffer rows_got;
  Wide rows_want;
  for (Index row = 0; row < rows; ++row) {
    for (Index column = 0; column < pitch; ++column) {
      const size_t i = at(row, pitch, column);
      if (column < cols) {
        rows_got.push_back(got[i]);
        rows_want.push_back(want[i]);
      } else {
        ASSERT_TRUE(std::isnan(got[i])) << what << " wrote into a gap";
      }
    }
  }
  // With one key the true gradients of q and k are 0: the floor is the size of the inputs.
  expect_near(rows_got, rows_want, 2e-5, what, 1);
}

TEST_P(Attention, ForwardAndBackward) {
  for (const Case& c : cases()) {
    SCOPED_TRACE(c.name + " " + std::to_string(c.queries) + "x" + std::to_string(c.keys));
    const Inputs in(c);
    const AttentionSpec spec = in.spec();
    const Slow slow = slow_attention(in, 0, c.kv_heads);
    Buffer scratch = nan_buffer(attention_scratch(spec, false));
    Buffer out = nan_buffer(c.queries * in.out_pitch);
    Buffer lse = nan_buffer(c.queries * c.heads);
    attention(spec, 0, c.kv_heads, in.q.data(), in.q_pitch, in.k.data(), in.k_pitch, in.v.data(),
              in.v_pitch, out.data(), in.out_pitch, lse.data(), scratch.data());
    expect_rows(out, slow.out, c.queries, in.out_pitch, c.heads * c.head_dim, "out");
    for (size_t i = 0; i < lse.size(); ++i) {
      if (std::isinf(slow.lse[i])) {
        ASSERT_TRUE(std::isinf(lse[i]) && lse[i] > 0);
      } else {
        ASSERT_NEAR(lse[i], slow.lse[i], 1e-5 * std::max(1.0, std::abs(slow.lse[i])));
      }
    }
    scratch = nan_buffer(attention_scratch(spec, true));
    Buffer dq = nan_buffer(c.queries * in.q_pitch);
    Buffer dk = nan_buffer(c.keys * in.k_pitch);
    Buffer dv = nan_buffer(c.keys * in.v_pitch);
    Buffer dtable(in.table.size(), 0.0F);
    AttentionGradients gradients{dq.data(), dk.data(), dv.data(),    false,
                                 false,     false,     dtable.data()};
    attention_backward(spec, 0, c.kv_heads, in.q.data(), in.q_pitch, in.k.data(), in.k_pitch,
                       in.v.data(), in.v_pitch, out.data(), in.out_pitch, lse.data(),
                       in.dout.data(), gradients, scratch.data());
    expect_rows(dq, slow.dq, c.queries, in.q_pitch, c.heads * c.head_dim, "dq");
    expect_rows(dk, slow.dk, c.keys, in.k_pitch, c.kv_heads * c.head_dim, "dk");
    expect_rows(dv, slow.dv, c.keys, in.v_pitch, c.kv_heads * c.head_dim, "dv");
    if (c.t5) expect_near(dtable, slow.dtable, 2e-5, "dtable");
    if (HasFatalFailure()) return;
  }
}

// Splitting by key heads gives the same bits, and accumulating doubles what is there.
TEST_P(Attention, HeadRangesAndAccumulation) {
  Case c;
  c.queries = c.keys = 37;
  c.heads = 4;
  c.kv_heads = 2;
  c.causal = c.t5 = true;
  const Inputs in(c);
  const AttentionSpec spec = in.spec();
  Buffer scratch(static_cast<size_t>(attention_scratch(spec, true)));
  std::vector<Buffer> results[2];
  for (const bool split : {false, true}) {
    Buffer out = nan_buffer(c.queries * in.out_pitch);
    Buffer lse = nan_buffer(c.queries * c.heads);
    Buffer dq = nan_buffer(c.queries * in.q_pitch);
    Buffer dk = nan_buffer(c.keys * in.k_pitch);
    Buffer dv = nan_buffer(c.keys * in.v_pitch);
    Buffer dtable(in.table.size(), 0.0F);
    const auto run = [&](Index begin, Index end, bool accumulate) {
      attention(spec, begin, end, in.q.data(), in.q_pitch, in.k.data(), in.k_pitch, in.v.data(),
                in.v_pitch, out.data(), in.out_pitch, lse.data(), scratch.data());
      AttentionGradients gradients{dq.data(),  dk.data(),  dv.data(),    accumulate,
                                   accumulate, accumulate, dtable.data()};
      attention_backward(spec, begin, end, in.q.data(), in.q_pitch, in.k.data(), in.k_pitch,
                         in.v.data(), in.v_pitch, out.data(), in.out_pitch, lse.data(),
                         in.dout.data(), gradients, scratch.data());
    };
    if (split) {
      run(1, 2, false);
      run(0, 1, false);
    } else {
      run(0, 2, false);
    }
    for (Buffer* buffer : {&out, &lse, &dq, &dk, &dv, &dtable}) {
      for (float& x : *buffer) x = std::isnan(x) ? 0 : x;
      results[split ? 1 : 0].push_back(*buffer);
    }
    if (!split) continue;
    const std::vector<Buffer> before = {dq, dk, dv, dtable};
    run(0, 2, true);
    const Buffer* after[] = {&dq, &dk, &dv, &dtable};
    for (size_t b = 0; b < before.size(); ++b) {
      for (size_t i = 0; i < before[b].size(); ++i) {
        ASSERT_NEAR((*after[b])[i], 2 * before[b][i], 1e-5) << b;
      }
    }
  }
  for (size_t b = 0; b < results[0].size(); ++b) EXPECT_EQ(results[0][b], results[1][b]) << b;
}

TEST_P(Attention, NanInAQueryReachesItsRowOnly) {
  Case c;
  c.queries = c.keys = 20;
  c.causal = true;
  Inputs in(c);
  in.q[at(7, in.q_pitch, 0)] = kNan;
  const AttentionSpec spec = in.spec();
  Buffer scratch(static_cast<size_t>(attention_scratch(spec, false)));
  Buffer out(static_cast<size_t>(c.queries * in.out_pitch));
  Buffer lse(static_cast<size_t>(c.queries * c.heads));
  attention(spec, 0, 2, in.q.data(), in.q_pitch, in.k.data(), in.k_pitch, in.v.data(), in.v_pitch,
            out.data(), in.out_pitch, lse.data(), scratch.data());
  for (Index i = 0; i < c.queries; ++i) {
    EXPECT_EQ(std::isnan(out[at(i, in.out_pitch, 0)]), i == 7) << i;
  }
}

// Memory grows with the length, not with its square.
TEST(AttentionScratch, IsLinearInTheLength) {
  AttentionSpec spec;
  spec.head_dim = 64;
  spec.queries = spec.keys = 4096;
  const Index small = attention_scratch(spec, true);
  spec.queries = spec.keys = 8192;
  const Index large = attention_scratch(spec, true);
  EXPECT_LT(large, 2 * small + 1);
  EXPECT_LT(small, Index{4096} * 64 * 8);
}

ADDNORM_EVERY_SET(Attention);

}  // namespace
}  // namespace addnorm::kernels
