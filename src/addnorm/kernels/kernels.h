// The contract of the fast kernels: free functions on float buffers, called by an engine that keeps
// every value as a contiguous row-major [rows, cols] buffer. What holds for all of them:
//
// - Single-threaded on what they are given; callers split rows, heads or parameters among threads.
// - Nothing is allocated by us; where scratch is needed the caller passes it and a function says how
//   many floats. oneDNN allocates inside its calls.
// - Same input, same instruction set: same bits, whichever thread calls. A GEMM's row may depend on
//   the number of rows in the call (oneDNN), so other splits may give other bits.
// - Outputs are overwritten (whatever they held, NaN included) unless a parameter `accumulate` is true
//   or the text says "added to". Gradients of parameters (gain, bias, alpha, tables, weights by
//   head_loss) are always added to. A gradient pointer that may be null is skipped when null.
// - Buffers that are written must not overlap any other argument unless the text allows it; "may be
//   the same as" means the identical pointer.
// - NaN and infinity flow through; sizes of 0 are legal everywhere and then write nothing, except sums
//   over an empty dimension, which are 0.
// - No alignment is required.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace addnorm::kernels {

using Index = int64_t;

// ---------------------------------------------------------------------------------------------------
// Instruction sets (simd.cpp). Recorded in env.json; forced in tests.

std::string instruction_set();                // the one in use, e.g. "AVX3", "AVX2", "SSE4"
std::vector<std::string> instruction_sets();  // all that this processor can run, best first
// "" goes back to the best. Not for use while kernels run. oneDNN chooses for itself.
void force_instruction_set(const std::string& name);

// ---------------------------------------------------------------------------------------------------
// Matrix products (gemm.cpp)

// C[m,n] (+)= op(A)[m,k] op(B)[k,n], row-major; `a_pitch` is the row length of A as stored (A is [m,k],
// or [k,m] when `a_transposed`), likewise B and C. k = 0 gives 0 (or leaves C when accumulating).
void matmul(bool a_transposed, bool b_transposed, Index m, Index n, Index k, const float* a,
            Index a_pitch, const float* b, Index b_pitch, float* c, Index c_pitch, bool accumulate);

// y[m,n] = x[m,k] w[n,k]^T + bias[n]; bias may be null.
void linear(Index m, Index n, Index k, const float* x, const float* w, const float* bias, float* y);
// dx[m,k] (+)= dy[m,n] w[n,k]
void linear_dx(Index m, Index n, Index k, const float* dy, const float* w, float* dx,
               bool accumulate);
// dw[n,k] (+)= dy[m,n]^T x[m,k]
void linear_dw(Index m, Index n, Index k, const float* dy, const float* x, float* dw,
               bool accumulate);
// sums[cols] (+)= sum over rows of a[rows,cols]; dbias of a linear layer.
void column_sums(Index rows, Index cols, const float* a, float* sums, bool accumulate);

// ---------------------------------------------------------------------------------------------------
// Norms (norm.cpp). Definitions: catalogue.md "Norm kinds". `rows` counts normalized rows of n
// numbers: a norm per head on [tokens, heads*n] is called with rows = tokens*heads, the parameters
// shared by all.

enum class NormKind { layernorm, rmsnorm, scalenorm, l2norm, dyt, derf };

struct NormSpec {
  NormKind kind = NormKind::layernorm;
  Index n = 0;
  float eps = 0;  // inside the root (layernorm, rmsnorm), a lower clamp (scalenorm, l2norm)
  bool unit_offset = false;  // the stored gain is gain - 1
  // [n]; scalenorm [1]; null: gain 1, for scalenorm the fixed g = sqrt(n). l2norm ignores it.
  const float* gain = nullptr;
  const float* bias = nullptr;   // [n] or null; layernorm, dyt, derf
  const float* alpha = nullptr;  // [1]; dyt, derf (required there)
  const float* shift = nullptr;  // [1]; derf (null: 0)
};

struct NormGradients {  // all added to, all may be null; shapes as in NormSpec
  float* gain = nullptr;
  float* bias = nullptr;
  float* alpha = nullptr;
  float* shift = nullptr;
};

// Statistics saved per row for the backward pass: [rows, 2]. layernorm: mean, 1/sqrt(var + eps);
// rmsnorm: 0, 1/sqrt(mean square + eps); scalenorm, l2norm: 1 or 0 below the clamp, 1/max(|a|, eps);
// dyt, derf: nothing (stats may be null).
inline Index norm_stats(Index rows) { return 2 * rows; }

// out[rows,n] = norm(a[rows,n]). `out` may be the same as `a` if no backward pass follows.
void norm(const NormSpec& spec, Index rows, const float* a, float* out, float* stats);
// da[rows,n] (+)= derivative by a of <out, dout>. da may be the same as dout when not accumulating.
void norm_backward(const NormSpec& spec, Index rows, const float* a, const float* stats,
                   const float* dout, float* da, bool accumulate, const NormGradients& gradients);

// sum[rows,n] = ca*a + cb*b; out = norm(sum), in one pass. `sum` may be the same as a or b.
void add_norm(const NormSpec& spec, Index rows, float ca, const float* a, float cb, const float* b,
              float* sum, float* out, float* stats);
// The backward pass of add_norm. ds = d<out,dout>/dsum + dsum_in (the gradient of `sum` by its other
// uses; null: none). Then da (+)= ca*ds, db (+)= cb*ds; da, db and dsum_out may be null, dsum_out
// (always overwritten) receives ds. dsum_in may be the same as da, db or dsum_out where that output
// is overwritten; da and db must differ.
struct AddNormOutputs {
  float ca = 1;
  float* da = nullptr;
  bool accumulate_a = false;
  float cb = 1;
  float* db = nullptr;
  bool accumulate_b = false;
  float* dsum_out = nullptr;
};
void add_norm_backward(const NormSpec& spec, Index rows, const float* sum, const float* stats,
                       const float* dout, const float* dsum_in, const AddNormOutputs& outputs,
                       const NormGradients& gradients);

// ---------------------------------------------------------------------------------------------------
// Sums and products with broadcasting (sums.cpp). The result is [rows, cols]; each operand is one of

enum class Shape {
  tensor,  // [rows, cols]
  vector,  // [1, cols]: the same in every row
  column,  // [rows, 1]: the same in every column
  number,  // [1, 1]
};
// A result that is itself a number per token is called with cols = 1, a vector with rows = 1.
// Reductions (the gradient of a vector, column or number) sum in blocks, numbers in double.

struct Term {
  const float* a = nullptr;
  float weight = 1;
  Shape shape = Shape::tensor;
};

// out[rows,cols] = constant + sum of weight*a over `count` terms (0: the constant alone). out may be
// the same as any tensor-shaped term.
void weighted_sum(Index rows, Index cols, float constant, Index count, const Term* terms,
                  float* out);
// da (+)= weight * dout, summed down to `shape`. For tensors da may be the same as dout.
void weighted_sum_backward(Index rows, Index cols, float weight, const float* dout, Shape shape,
                           float* da, bool accumulate);

enum class Binary {
  multiply,
  divide,
  minimum,
  maximum
};  // at a tie min and max are the first operand

// out[rows,cols] = a op b. out may be the same as a tensor-shaped operand if no backward pass follows.
void binary(Binary op, Index rows, Index cols, const float* a, Shape a_shape, const float* b,
            Shape b_shape, float* out);
// da, db (null: not wanted) get their gradients, summed down to their shapes. da and db must differ:
// where a and b are one value, call twice, the second time accumulating. A tensor-shaped da or db may
// be the same as dout if the other one is null and it does not accumulate.
void binary_backward(Binary op, Index rows, Index cols, const float* a, Shape a_shape,
                     const float* b, Shape b_shape, const float* dout, float* da, bool accumulate_a,
                     float* db, bool accumulate_b);

// out[rows] = sum over the width of a*b, in [rows, cols]; shapes tensor or vector.
void dot(Index rows, Index cols, const float* a, Shape a_shape, const float* b, Shape b_shape,
         float* out);
// dout [rows]; da, db as in binary_backward.
void dot_backward(Index rows, Index cols, const float* a, Shape a_shape, const float* b,
                  Shape b_shape, const float* dout, float* da, bool accumulate_a, float* db,
                  bool accumulate_b);

// out[rows] = sqrt(mean of a² over the width)
void rms(Index rows, Index cols, const float* a, float* out);
// da (+)= dout * a/(cols*out), 0 in rows where out is 0; out [rows] is the result of rms.
void rms_backward(Index rows, Index cols, const float* a, const float* out, const float* dout,
                  float* da, bool accumulate);

// out[rows, heads*head_dim] = a times one number per head, scale[heads]. out may be the same as a if no
// backward pass follows.
void head_scale(Index rows, Index heads, Index head_dim, const float* a, const float* scale,
                float* out);
// da (+)= scale*dout (may be the same as dout); dscale[heads] is added to. Both may be null.
void head_scale_backward(Index rows, Index heads, Index head_dim, const float* a,
                         const float* scale, const float* dout, float* da, bool accumulate,
                         float* dscale);

// ---------------------------------------------------------------------------------------------------
// Elementwise functions (unary.cpp)

enum class Unary {
  identity,
  sigmoid,
  silu,
  tanh,
  erf,
  relu,
  gelu,
  gelu_tanh,
  relu2,
  abs,
  sqrt,
  log,
  exp,
  clip,   // to [p, q]; derivative 1 on the closed interval
  power,  // a^p; 0^0 = 1
};  // relu, abs: derivative 0 at 0; gelu = a*Phi(a); relu2 = relu(a)²

struct Function {
  Unary kind = Unary::identity;
  float p = 0;
  float q = 0;
};

// out[count] = f(a). out may be the same as a if no backward pass follows.
void unary(const Function& f, Index count, const float* a, float* out);
// da (+)= f'(a) * dout; a is the input. da may be the same as dout when not accumulating.
void unary_backward(const Function& f, Index count, const float* a, const float* dout, float* da,
                    bool accumulate);

// pre[rows,cols] += bias (null: nothing); h = f(pre). The bias + activation after a matrix product.
void bias_activation(const Function& f, Index rows, Index cols, const float* bias, float* pre,
                     float* h);
// dpre = f'(pre) * dh (may be the same as dh or pre); dbias[cols] is added to, may be null.
void bias_activation_backward(const Function& f, Index rows, Index cols, const float* pre,
                              const float* dh, float* dpre, float* dbias);

// gate += gate_bias, in += in_bias (null: nothing), h = f(gate) * in; all [rows,cols].
void gated_activation(const Function& f, Index rows, Index cols, const float* gate_bias,
                      float* gate, const float* in_bias, float* in, float* h);
// dgate = f'(gate)*in*dh, din = f(gate)*dh (dgate may be the same as gate or dh, din the same as in or
// dh, not both dh); the biases' gradients [cols] are added to, may be null.
void gated_activation_backward(const Function& f, Index rows, Index cols, const float* gate,
                               const float* in, const float* dh, float* dgate, float* din,
                               float* dgate_bias, float* din_bias);

// Dropout: kept elements are divided by 1 - rate (0 <= rate < 1). Whether element `first + i` is kept is
// a function of (seed, stream, first + i) alone, by base/random.h: word i%4 of block i/4, kept when
// it is >= rate*2^32. The backward pass is the same call on the gradient. out may be the same as a when
// not accumulating.
void dropout(uint64_t seed, uint64_t stream, float rate, uint64_t first, Index count,
             const float* a, float* out, bool accumulate);

// ---------------------------------------------------------------------------------------------------
// Embeddings and positions (positions.cpp)

// out[rows,width] (+)= scale * table[id of the row]; ids are valid rows of the table.
void gather(Index rows, Index width, const int32_t* ids, const float* table, float scale,
            float* out, bool accumulate);
// dtable[id of the row] += scale * dout[row], row after row.
void scatter_add(Index rows, Index width, const int32_t* ids, const float* dout, float scale,
                 float* dtable);

// cos, sin [positions, rotary_dim/2] of angle p*base^(-2i/rotary_dim), computed in double.
void rotary_table(Index positions, Index rotary_dim, double base, float* cos, float* sin);

enum class RotaryLayout { half, interleaved };
// Turns the first rotary_dim channels of every head of x[rows, heads*head_dim] by the table's row of
// its position (positions[rows]) and copies the others; `inverse` turns back, which is the backward pass.
// out may be the same as x when not accumulating.
void rotary(RotaryLayout layout, Index rows, Index heads, Index head_dim, Index rotary_dim,
            const int32_t* positions, const float* cos, const float* sin, bool inverse,
            const float* x, float* out, bool accumulate);

// ---------------------------------------------------------------------------------------------------
// Attention (attention.cpp): streaming softmax, scores exist only in blocks.

// One sequence. Score of query i and key j in head h:
//   s = scale * <q_i, k_j>;  s = softcap*tanh(s/softcap) if softcap > 0;
//   s -= slope_h * |pos_i - pos_j|;  s += table[bucket(pos_j - pos_i), h]
// and -inf for masked keys and, if causal, for j > i (by index). A row without keys gives 0 and zero
// gradients. Query head h uses key head h / (heads/kv_heads).
struct AttentionSpec {
  Index queries = 0, keys = 0;
  Index heads = 1, kv_heads = 1;  // kv_heads divides heads
  Index head_dim = 0;
  bool causal = false;
  float scale = 1;
  float softcap = 0;
  const uint8_t* key_mask = nullptr;  // [keys], 0 = masked; null: none is
  const float* slopes = nullptr;      // [heads], alibi; null: none
  const float* table = nullptr;       // [buckets, heads], t5; null: none
  const int32_t* buckets =
      nullptr;     // [2*span + 1]: bucket of distance d = pos_j - pos_i at d + span
  Index span = 0;  // every |distance| <= span
  Index bucket_count = 0;
  const int32_t* query_positions =
      nullptr;                             // [queries]; null: the index. For slopes and table only.
  const int32_t* key_positions = nullptr;  // [keys]
};

// lookup[2*span + 1] as AttentionSpec::buckets wants it: T5's bucket formula; `bidirectional` in
// encoders, else causal (keys after the query share bucket 0).
void relative_buckets(Index span, Index buckets, Index distance, bool bidirectional,
                      int32_t* lookup);

// Floats of scratch for one call; grows with queries + keys, not with their product.
Index attention_scratch(const AttentionSpec& spec, bool backward);

// Works on the key heads kv_begin..kv_end-1 and their query heads, so that calls on disjoint ranges can run
// on different threads. Rows of q, out: [queries, heads*head_dim] with the given pitch (floats from one
// row to the next); k, v: [keys, kv_heads*head_dim]. lse[queries, heads] keeps log of the sum of
// exp(score), +inf for a row without keys.
void attention(const AttentionSpec& spec, Index kv_begin, Index kv_end, const float* q,
               Index q_pitch, const float* k, Index k_pitch, const float* v, Index v_pitch,
               float* out, Index out_pitch, float* lse, float* scratch);

struct AttentionGradients {
  float* dq = nullptr;  // pitches as of q, k, v
  float* dk = nullptr;
  float* dv = nullptr;
  bool accumulate_q = false, accumulate_k = false, accumulate_v = false;
  float* dtable =
      nullptr;  // [buckets, heads], added to (columns of the heads in range); may be null
};
// q, k, v, out, lse as after attention(); dout has out's pitch.
void attention_backward(const AttentionSpec& spec, Index kv_begin, Index kv_end, const float* q,
                        Index q_pitch, const float* k, Index k_pitch, const float* v, Index v_pitch,
                        const float* out, Index out_pitch, const float* lse, const float* dout,
                        const AttentionGradients& gradients, float* scratch);

// ---------------------------------------------------------------------------------------------------
// Output head and loss (head_loss.cpp)

inline constexpr int32_t kIgnoredTarget = -100;

// logits = cap(logit_scale * (x w^T + bias)), cap(u) = softcap*tanh(u/softcap) if softcap > 0.
// Loss of a row with target y: (1 - label_smoothing)*(lse - logit_y) + label_smoothing*(lse - mean logit)
// + z_loss*lse².
struct HeadSpec {
  Index width = 0, vocab = 0;
  const float* w = nullptr;     // [vocab, width]
  const float* bias = nullptr;  // [vocab] or null
  float logit_scale = 1;
  float softcap = 0;
  float label_smoothing = 0;
  float z_loss = 0;
  float row_weight =
      1;  // gradients are of row_weight * (sum of the rows' losses): 1/number of targets
};

struct HeadLoss {
  double loss = 0;    // sum over rows, not weighted
  Index targets = 0;  // rows that are not ignored
};

// Rows of a chunk for which scratch stays in the tens of megabytes and the products stay efficient.
Index head_chunk_rows(Index vocab);

// One chunk. `work` [rows, vocab] holds the logits and then (gradient = true) the gradient by x w^T + bias,
// which stays there for head_weight_gradients; with gradient = false it holds the logits.
// logits, dlogits [rows, vocab] (null: not wanted) receive copies of the logits and of the gradient
// by them; dx[rows,width] (null: not wanted) (+)= its gradient. The arithmetic is the same with and
// without copies. targets[rows]: 0..vocab-1 or kIgnoredTarget (loss 0, gradient 0).
// targets null: only the logits are computed.
HeadLoss head_chunk(const HeadSpec& spec, Index rows, const float* x, const int32_t* targets,
                    bool gradient, float* work, float* logits, float* dlogits, float* dx,
                    bool accumulate_x);

// dw[v_begin..v_end) += work^T x, dbias[v_begin..v_end) += column sums (null: none) for the rows of the
// chunk; threads may share one dw by disjoint ranges of the vocabulary, work being common to all.
// dw, dbias point to the start of the whole tensors.
void head_weight_gradients(const HeadSpec& spec, Index rows, const float* x, const float* work,
                           Index v_begin, Index v_end, float* dw, float* dbias);

// All rows, chunk after chunk of head_chunk_rows; work holds min(rows, head_chunk_rows(vocab)) * vocab floats.
// dw (null: no gradient at all), dbias as above over the whole vocabulary; logits, dlogits, dx for all rows.
HeadLoss head_loss(const HeadSpec& spec, Index rows, const float* x, const int32_t* targets,
                   float* work, float* logits, float* dlogits, float* dx, bool accumulate_x,
                   float* dw, float* dbias);

// ---------------------------------------------------------------------------------------------------
// Optimizer and buffers (optimizer.cpp)

struct AdamStep {
  float gradient_scale = 1;  // the gradient is multiplied by it first (clipping, averaging)
  float rate = 0;            // lr * lr_scale
  float beta1 = 0.9F, beta2 = 0.999F;
  float correction1 = 1;  // 1/(1 - beta1^t)
  float correction2 = 1;  // 1/(1 - beta2^t)
  float eps = 1e-8F;
  float decay = 0;              // weight_decay * its factor
  bool decoupled = true;        // adamw: w -= rate*decay*w; else decay*w is added to the gradient
  bool clear_gradient = false;  // sets g to 0 in the same pass
};
// w, g, m, v [count]: m, v updated, w -= rate*(m*correction1/(sqrt(v*correction2) + eps) + decay*w)
void adam(const AdamStep& step, Index count, float* w, float* g, float* m, float* v);

struct SgdStep {
  float gradient_scale = 1;
  float rate = 0;
  float momentum = 0;
  float decay = 0;  // added to the gradient as decay*w
  bool clear_gradient = false;
};
// buffer = momentum*buffer + g + decay*w; w -= rate*buffer. buffer may be null if momentum is 0.
void sgd(const SgdStep& step, Index count, float* w, float* g, float* buffer);

double sum_squares(Index count, const float* a);     // in double
double sum_values(Index count, const float* a);      // in double
Index first_nonfinite(Index count, const float* a);  // -1: all are finite
void scale(Index count, float factor, float* a);
void fill(Index count, float value, float* a);
void add(Index count, const float* a, float* out);  // out += a
// out (+)= sum of parts[0..number-1], added in this order; out may be the same as parts[0] when not
// accumulating.
void sum_parts(Index count, Index number, const float* const* parts, float* out, bool accumulate);

}  // namespace addnorm::kernels
