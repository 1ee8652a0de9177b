// The formulas that the catalogue must hold, written down a second time: what the catalogue file says
// is compared with these as programs, so a slip in either shows.
#pragma once

struct Formula {
  const char* name;
  const char* text;
};

// clang-format off
inline const Formula formulas[] = {
    {"post-ln",
     "x = norm(x + f(x))"},
    {"shifted-post-ln",
     "n = norm(x); x = n + f(n); out = norm(x)"},
    {"deepnorm",
     "x = norm((2*L)^(1/4)*x + f(x))"},
    {"deepnorm/encoder",
     "x = norm(0.81*(N^4*M)^(1/16)*x + f(x))"},
    {"deepnorm/decoder",
     "x = norm((3*M)^(1/4)*x + f(x))"},
    {"minimax-01",
     "n = norm(x); x = (2*L)^(1/4)*n + f(n); out = norm(x)"},
    {"glm-130b",
     "n = norm(x); x = (2*L)^(1/2)*n + f(n); out = norm(x)"},
    {"admin-torch",
     "x = norm(sqrt((S + 1)/log(S + 1) - 1)*x + f(x))"},
    {"deepscale-post",
     "x = norm(sqrt(0.995)*x + sqrt(0.005)*f(x))"},
    {"b2t",
     "h = norm(x + attn(x)); x = norm(h + ffn(h) + x)"},
    {"b2t/decoder",
     "h = norm(x + attn(x)); c = norm(h + cross(h)); x = norm(c + ffn(c) + x)"},
    {"spannorm",
     "block[1..1]: y = norm(x + attn(norm(x))); x = norm(x + ffn(y))\n"
     "block: y = norm(x + attn(x)); x = norm(x + ffn(y))"},
    {"keel",
     "block[1..1]: x = x + attn(norm(x)); x = norm(x + ffn(norm(x)))\n"
     "block: x = norm(S*x + f(norm(x)))"},
    {"pre-ln",
     "x = x + f(norm(x)); out = norm(x)"},
    {"ln-scaling",
     "x = x + f(norm(x)/sqrt(l)); out = norm(x)"},
    {"layer-scale",
     "x = x + param(10^(-1 - 4*clip(L - 18, 0, 1) - clip(L - 24, 0, 1)), per=channel)*f(norm(x)); out = norm(x)"},
    {"res-scale",
     "x = param(1, per=channel)*x + f(norm(x)); out = norm(x)"},
    {"depth-mup",
     "let: base = 2\n"
     "block: x = x + sqrt(base/L)*f(norm(x))\n"
     "end: out = norm(x)"},
    {"completep",
     "let: base = 2\n"
     "block: x = x + base/L*f(norm(x))\n"
     "end: out = norm(x)"},
    {"minicpm",
     "let: scale = 1.4\n"
     "block: x = x + scale/sqrt(L)*f(norm(x))\n"
     "end: out = norm(x)"},
    {"granite",
     "let: scale = 0.22\n"
     "block: x = x + scale*f(norm(x))\n"
     "end: out = norm(x)"},
    {"deepscale-pre",
     "x = sqrt(0.995)*x + sqrt(0.005)*f(norm(x)); out = norm(x)"},
    {"prores",
     "let: T = 1000\n"
     "block: x = x + clip(t/(T*l), 0, 1)*f(norm(x))\n"
     "end: out = norm(x)"},
    {"gpas",
     "x = x + f(norm(x)); x = x - silu(param(0, share=layer))*detach(x); out = norm(x)"},
    {"qk-norm",
     "x = x + attn(norm(x), qk=rmsnorm); x = x + ffn(norm(x)); out = norm(x)"},
    {"normformer",
     "x = x + norm(attn(norm(x), heads=param(1))); x = x + ffn(norm(x), inner=norm); out = norm(x)"},
    {"sub-ln",
     "x = x + attn(norm(x), inner=norm); x = x + ffn(norm(x), inner=norm); out = norm(x)"},
    {"scalenorm",
     "x = x + f(scalenorm(x)); out = scalenorm(x)"},
    {"dyt",
     "x = x + f(dyt(x)); out = dyt(x)"},
    {"derf",
     "x = x + f(derf(x)); out = derf(x)"},
    {"peri-ln",
     "x = x + norm(f(norm(x))); out = norm(x)"},
    {"res-post-norm",
     "x = x + norm(f(x)); out = norm(x)"},
    {"swin-v2",
     "x = x + norm(f(x), gain=0); out = norm(x)"},
    {"olmo2",
     "x = x + norm(attn(x, qk_full=rmsnorm)); x = x + norm(ffn(x)); out = norm(x)"},
    {"trinity",
     "x = x + norm(f(norm(x)), gain=1/sqrt(L)); out = norm(x)"},
    {"pangu-ultra",
     "x = x + norm(attn(norm(x)), gain=0.283/sqrt(L)); x = x + norm(ffn(norm(x)), gain=0.432/sqrt(L)); out = norm(x)"},
    {"mix-ln",
     "let: fraction = 1/4\n"
     "block[1..floor(fraction*L)]: x = norm(x + f(x))\n"
     "block: x = x + f(norm(x))\n"
     "end: out = norm(x)"},
    {"hybridnorm",
     "y = x + attn(x, qk=rmsnorm, v=rmsnorm); n = norm(y); x = n + ffn(n); out = norm(x)"},
    {"parallel",
     "n = norm(x); x = x + attn(n) + ffn(n); out = norm(x)"},
    {"parallel-two-norms",
     "x = x + attn(norm(x)) + ffn(norm(x)); out = norm(x)"},
    {"resi-dual",
     "begin: x = embed; r = embed\n"
     "block: y = f(x); x = norm(x + y); r = r + y\n"
     "end: out = x + norm(r)"},
    {"siamese-norm",
     "begin: x = embed; y = embed\n"
     "block: x = norm(x); z = f(norm(x + norm(y))); x = x + z/sqrt(2*l); y = y + z\n"
     "end: out = norm(norm(x) + norm(y))"},
    {"reversible",
     "begin: x = embed; y = embed\n"
     "block: x = x + attn(norm(y)); y = y + ffn(norm(x))\n"
     "end: out = norm((x + y)/2)"},
    {"nanochat",
     "begin: x = rmsnorm(embed, affine=false); e = x; m = x\n"
     "block: x = param(1.15 - 0.1*(l - 1)/max(L - 1, 1))*x + param(0.2 - 0.15*(l - 1)/max(L - 1, 1))*e\n"
     "x = x + attn(rmsnorm(x, affine=false)); x = x + ffn(rmsnorm(x, affine=false))\n"
     "m = m + clip(floor(L/2) + 2 - l, 0, 1)*(x - m)\n"
     "end: out = rmsnorm(x - param(0.2)*m, affine=false)"},
    {"reinject",
     "begin: x = embed; e = linear(embed, bias=false)\n"
     "block: x = x + f(norm(x + e))\n"
     "end: out = norm(x)"},
    {"top-skip",
     "x = x + f(norm(x)); out = norm(x + embed)"},
    {"highway",
     "g = sigmoid(linear(x)); x = norm(g*f(x) + (1 - g)*x)"},
    {"gtrxl",
     "y = relu(f(norm(x))); r = sigmoid(linear(y, bias=false) + linear(x, bias=false)); z = sigmoid(linear(y, bias=false) + linear(x, bias=false) - param(2, per=channel))\n"
     "h = tanh(linear(y, bias=false) + linear(r*x, bias=false)); x = (1 - z)*x + z*h"},
    {"orthogonal",
     "y = f(norm(x)); x = x + y - dot(y, x)/dot(x, x)*x; out = norm(x)"},
    {"deep-delta",
     "c = norm(x); k = l2norm(f(c)); b = 2*sigmoid(dot(param(0, per=channel), c) + param(0)); v = 4*sigmoid(dot(param(0, per=channel), c))\n"
     "x = x + b*(v - dot(k, x))*k; out = norm(x)"},
    {"rezero",
     "x = x + param(0, share=layer)*f(x)"},
    {"skip-init",
     "x = x + param(0)*f(x)"},
    {"t-fixup",
     "x = x + f(x)"},
    {"fixup",
     "x = x + param(1)*f(x + param(0)) + param(0)"},
    {"gpt2",
     "x = x + f(norm(x)); out = norm(x)"},
    {"ds-init",
     "x = norm(x + f(x))"},
    {"prores/post",
     "x = norm((2*L)^(1/4)*x + clip(t/(1000*l), 0, 1)*f(x))"},
    {"gpas/post",
     "g = x - silu(param(0, share=layer))*detach(x); x = norm((2*L)^(1/4)*g + f(x))"},
    {"normformer/resscale",
     "x = x + norm(attn(norm(x), heads=param(1))); x = param(1, per=channel)*x + ffn(norm(x), inner=norm); out = norm(x)"},
    {"sub-ln/decoder",
     "x = x + attn(norm(x), inner=norm); x = x + cross(norm(x)); x = x + ffn(norm(x), inner=norm); out = norm(x)"},
    {"dyt/7b",
     "begin: x = param(sqrt(d))*embed\n"
     "block: x = x + attn(param(1, per=channel)*tanh(param(0.8)*x))\n"
     "x = x + ffn(param(1, per=channel)*tanh(param(0.2)*x))\n"
     "end: out = param(1, per=channel)*tanh(param(0.2)*x)"},
    {"peri-ln/embed",
     "begin: x = norm(embed)\n"
     "block: x = x + norm(f(norm(x)))\n"
     "end: out = norm(x)"},
    {"plamo2",
     "x = x + norm(attn(norm(x)), gain=1/5); x = x + norm(ffn(norm(x)), gain=1/5^1.5); out = norm(x)"},
    {"hybridnorm-star",
     "block[1..1]: y = x + attn(norm(x), qk=rmsnorm, v=rmsnorm); x = y + ffn(norm(y))\n"
     "block: y = x + attn(x, qk=rmsnorm, v=rmsnorm); n = norm(y); x = n + ffn(n)\n"
     "end: out = norm(x)"},
    {"siamese-norm/hybrid",
     "begin: x = embed; y = embed\n"
     "block: a = attn(param(1, per=channel)*x + norm(y), qk=rmsnorm, v=rmsnorm); x = norm(x + a/sqrt(2*l)); y = y + a\n"
     "b = ffn(norm(x + norm(y))); x = x + b/sqrt(2*l); y = y + b\n"
     "end: out = norm(norm(x) + norm(y))"},
    {"gru-gate",
     "y = f(norm(x)); r = sigmoid(linear(y) + linear(x)); z = sigmoid(linear(y) + linear(x))\n"
     "h = tanh(linear(y) + r*linear(x)); x = (1 - z)*h + z*x; out = norm(x)"},
    {"marian-depth-scaling",
     "x = norm(x + f(x))"},
};
// clang-format on
