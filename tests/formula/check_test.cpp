// Every static error of the language: at least one program that has it, with its place, and one
// close by that has not.
#include "addnorm/formula/check.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "formula/check_support.h"

namespace addnorm::formula {
namespace {

// A block with one more statement in front of a complete program.
std::string with(const std::string& statement) {
  return "block:\n" + statement + "\nx = x + f(x)\nend: out = x";
}

TEST(CheckNames, UnknownFunction) {
  expect_findings("x = x + f(nrom(x))",
                  {"error [formula:1:11] expected a function, got `nrom`; try `norm`"});
  expect_findings("begin: x = embed; g = embed\nblock: x = x + g(x) + f(g)",
                  {"error [formula:2:16] expected a function, got the name `g`; try `g*(..)`"});
}

TEST(CheckNames, UnknownName) {
  expect_findings("x = x + f(norm(xs))", {"error [formula:1:16] expected a name that is set, got "
                                          "`xs`"});
  expect_findings("x = x + f(x)*heed_dim",
                  {"error [formula:1:14] expected a name that is set, got `heed_dim`; try "
                   "`head_dim`"});
  expect_findings("x = x + f(x)*D", {"error [formula:1:14] expected a name that is set, got `D`; "
                                     "try `d`"});
  expect_findings("x = x + norm*f(x)", {"error [formula:1:9] expected a value, got the function "
                                        "`norm`; try `norm(..)`"});
  expect_findings("x = x + f(x)*true", {"error [formula:1:14] expected a value, got the word "
                                        "`true`"});
}

TEST(CheckNames, ReadBeforeSet) {
  expect_findings("x = y + f(x); y = x",
                  {"error [formula:1:5] expected a name that is set before it is read, got `y`; to "
                   "carry it from layer to layer set it in `begin`"});
  expect_fine("begin: y = embed\nblock: x = y + f(x); y = x");
  expect_findings("begin: x = norm(x)\nblock: x = x + f(x)",
                  {"error [formula:1:17] expected a name that is set before it is read, got `x`"});
  expect_fine("begin: y = norm(x)\nblock: x = x + f(x)*y");
  expect_findings("n = norm(x); x = x + f(n)\nend: out = n",
                  {"error [formula:2:12] expected a carried name, got `n`, which lives in a block "
                   "only"});
  expect_findings("x = x + f(x)\nend: y = out; out = x",
                  {"error [formula:2:10] expected a name that is set, got `out`"});
  expect_fine("x = x + f(x)\nend: out = x; out = norm(out)");
  // In a sublayer formula a name lives until the end of the branch's instance.
  expect_findings("block: x = x + f(x) + y; y = x", {"error [formula:1:23]"});
}

TEST(CheckNames, ABlockWithoutLayersIsCheckedAsLayer1) {
  expect_findings("block[1..0]: x = x + f(z)\nblock: x = x + f(x)", {"error [formula:1:24]"});
  // Values are judged for the layers that exist.
  expect_fine("block[1..0]: x = x + f(x)/(l - 1)\nblock: x = x + f(x)");
  expect_fine("block[2..L]: x = x + f(x)/(L - 1)\nblock: x = x + f(x)", stack(1));
}

TEST(CheckNames, Reserved) {
  for (const char* name :
       {"L",     "S",      "d",       "head_dim", "N",     "M",    "l",     "s",     "t",
        "embed", "memory", "in",      "write",    "norm",  "attn", "f",     "dot",   "clip",
        "true",  "false",  "channel", "layer",    "stack", "let",  "begin", "block", "end"}) {
    const std::string message =
        std::string("error [formula:2:1] expected a name of your own, got `") + name +
        "`, which is reserved";
    expect_findings(with(std::string(name) + " = x"), {message});
  }
  expect_findings(with("out = x"), {"error [formula:2:1] expected `out` to be set in `end` only"});
  expect_findings("begin: out = embed\nblock: x = x + f(x)",
                  {"error [formula:1:8] expected `out` to be set in `end` only"});
  expect_fine(with("y = x"));
  // ffn2 is a branch only where ffn is called twice.
  expect_fine("ffn2 = attn(x); x = x + ffn(ffn2)");
  expect_findings(
      "ffn2 = attn(x); x = x + ffn(x) + ffn(ffn2)",
      {"error [formula:1:1] expected a name of your own, got `ffn2`", "error [formula:1:38]"});
}

TEST(CheckNames, Twice) {
  expect_findings(with("a, a = x, x"),
                  {"error [formula:2:4] expected each name once on the left, got `a` twice"});
  expect_findings("let: a = 1; a = 2\nblock: x = x + a*f(x)",
                  {"error [formula:1:13] expected each `let` name once, got a second `a`"});
  expect_findings("let: a = 1\nblock: a = 2; x = x + a*f(x)",
                  {"error [formula:2:8] expected a name of your own, got the `let` name `a`"});
  expect_findings("x = x + f(norm(x, gain=1, gain=2))",
                  {"error [formula:1:27] expected an option once, got a second `gain=`"});
  expect_fine(with("a = x; a = 2*a"));
}

TEST(CheckNames, ValuesCount) {
  expect_findings(with("a, b = x"), {"error [formula:2:1] expected 2 values, got 1"});
  expect_findings(with("a = x, x"), {"error [formula:2:1] expected 1 value, got 2"});
  expect_fine(with("a, b = x, 2*x; b, a = a, b"));
}

TEST(CheckCalls, Arity) {
  expect_findings("x = x + f(norm(x, x))", {"error [formula:1:11] expected 1 argument of `norm`, "
                                            "got 2"});
  expect_findings("x = x + f(norm())",
                  {"error [formula:1:11] expected 1 argument of `norm`, got 0"});
  expect_findings("x = x + dot(x)*f(x)",
                  {"error [formula:1:9] expected 2 arguments of `dot`, got 1"});
  expect_findings("x = x + clip(f(x), 0)",
                  {"error [formula:1:9] expected 3 arguments of `clip`, got "
                   "2"});
  expect_findings("x = x + min(1)*f(x)",
                  {"error [formula:1:9] expected 2 arguments of `min`, got 1"});
}

TEST(CheckCalls, UnknownOption) {
  expect_findings(
      "x = x + f(norm(x, gian=1))",
      {"error [formula:1:19] expected an option of `norm` (here layernorm) (gain, bias, "
       "affine, eps, unit_offset), got `gian=`; try `gain`"});
  expect_findings("x = x + f(x, qk=rmsnorm)",
                  {"error [formula:1:14] expected an option of `f` (inner), got `qk=`"});
  expect_findings("x = x + f(tanh(x, gain=1))",
                  {"error [formula:1:19] expected no option of `tanh`, "
                   "got `gain=`"});
  expect_findings("x = x + attn(x, qk=rmsnorm(bias=false)) + ffn(x)",
                  {"error [formula:1:28] expected an option of `rmsnorm` (gain, affine, eps, "
                   "unit_offset), got `bias=`"});
}

TEST(CheckCalls, OptionsOfNormFollowTheModelsKind) {
  Context context = stack();
  const std::vector<std::pair<std::string, std::vector<std::string>>> accepted = {
      {"layernorm", {"gain=2", "bias=false", "affine=false", "eps=1e-3", "unit_offset=true"}},
      {"rmsnorm", {"gain=2", "affine=false", "eps=1e-3", "unit_offset=true"}},
      {"scalenorm", {"gain=2", "affine=false", "eps=1e-3", "unit_offset=true"}},
      {"l2norm", {"eps=0"}},
      {"dyt", {"gain=2", "bias=false", "alpha=1"}},
      {"derf", {"gain=2", "bias=false", "alpha=1", "shift=0.1"}}};
  for (const auto& [kind, options] : accepted) {
    context.norm = kind;
    for (const char* option : {"gain=2", "bias=false", "affine=false", "eps=1e-3",
                               "unit_offset=true", "alpha=1", "shift=0.1", "eps=0"}) {
      const bool fits = std::find(options.begin(), options.end(), option) != options.end() ||
                        (std::string(option) == "eps=0" && kind != "dyt" && kind != "derf") ||
                        (std::string(option) == "eps=1e-3" && kind == "l2norm");
      for (const std::string& name : {std::string("norm"), kind}) {
        for (const std::string& program : {"x = x + f(" + name + "(x, " + option + "))",
                                           "x = x + f(x, inner=" + name + "(" + option + "))"}) {
          EXPECT_EQ(findings(program, context).empty(), fits) << kind << ": " << program;
        }
      }
    }
  }
}

TEST(CheckCalls, OptionValues) {
  expect_findings("x = x + f(layernorm(x, bias=1))",
                  {"error [formula:1:29] expected true or false for `bias=`, got `1`"});
  expect_findings("x = x + f(layernorm(x, bias=flase))",
                  {"error [formula:1:29] expected true or false for `bias=`, got `flase`; try "
                   "`false`"});
  expect_findings("x = x + f(norm(x, gain=true))",
                  {"error [formula:1:19] expected a scalar for `gain=`, got `true`"});
  expect_findings("x = x + f(norm(x, gain=x))",
                  {"error [formula:1:24] expected a scalar for `gain=`, got a tensor [B,T,d]"});
  expect_findings("x = x + f(norm(x, gain=param(1)))",
                  {"error [formula:1:24] expected a scalar for "
                   "`gain=`, got a number [1]"});
  expect_findings("x = x + f(norm(x, eps=-1e-5))",
                  {"error [formula:1:23] expected `eps=` of at least 0, got -1e-05"});
  expect_findings("x = x + f(x, inner=rmsnrm)",
                  {"error [formula:1:20] expected a kind of norm for `inner=`, got `rmsnrm`; try "
                   "`rmsnorm`"});
  expect_findings("x = x + f(x, inner=norm(x))",
                  {"error [formula:1:20] expected a kind of norm for `inner=`, got `norm(x)`"});
  expect_findings("x = x + param(1, per=layer)*f(x)",
                  {"error [formula:1:18] expected channel for `per=`, got `layer`"});
  expect_findings("x = x + param(1, share=block)*f(x)",
                  {"error [formula:1:24] expected layer or stack for `share=`, got `block`"});
  expect_fine("x = x + param(1, per=channel, share=stack)*f(x)");
  expect_fine("x = x + f(norm(x, gain=1/l))");
}

TEST(CheckCalls, HeadsTakeParamInOneForm) {
  expect_fine("x = x + attn(x, heads=param(1/l)) + ffn(x)");
  for (const char* heads : {"param(1, per=channel)", "2*param(1)", "1", "param(1, 2)"}) {
    expect_findings(std::string("x = x + attn(x, heads=") + heads + ") + ffn(x)",
                    {"error [formula:1:23] expected `heads=param(e)` in this form for `attn`"});
  }
  expect_findings("x = x + attn(x, heads=param(x)) + ffn(x)",
                  {"error [formula:1:29] expected a scalar as the start of `param`"});
}

TEST(CheckCalls, OptionsWithoutEffect) {
  expect_findings("x = x + f(layernorm(x, affine=false, bias=false))",
                  {"error [formula:1:38] expected no `bias=` beside `affine=false`"});
  expect_findings("x = x + f(rmsnorm(x, gain=2, unit_offset=true, affine=false))",
                  {"error [formula:1:22] expected no `gain=` beside `affine=false`",
                   "error [formula:1:30] expected no `unit_offset=` beside `affine=false`"});
  expect_fine("x = x + f(rmsnorm(x, affine=true, gain=2))");
  expect_fine("x = x + f(rmsnorm(x, affine=false, eps=1e-3))");
  expect_findings("x = x + attn(x, qk=norm, qk_full=norm) + ffn(x)",
                  {"error [formula:1:26] expected `qk=` or `qk_full=`, got both"});
  expect_findings("let: a = 1; b = 2\nblock: x = x + a*f(x)",
                  {"error [formula:1:13] expected every `let` name to be read, got `b`"});
  expect_findings("begin: y = param(1, share=layer)*embed\nblock: x = x + f(x) + y",
                  {"error [formula:1:21] expected `share=` in a block, got it outside"});
}

TEST(CheckTypes, ScalarsAndTensors) {
  expect_findings("x = 2", {"error [formula:1:5] expected a tensor [B,T,d] for `x`, got a scalar"});
  expect_findings("x = x + f(2)", {"error [formula:1:11] expected a tensor [B,T,d] as the argument "
                                   "of `f`, got a scalar"});
  expect_findings("x = x + f(norm(param(1)))", {"error [formula:1:16] expected a tensor [B,T,d] as "
                                                "the argument of `norm`, got a number [1]"});
  expect_findings(
      "x = x + linear(rms(x))*f(x)",
      {"error [formula:1:16] expected a tensor [B,T,d] as the argument of `linear`, got "
       "a number per token [B,T,1]"});
  expect_findings("x = x + f(x); x = rms(x)",
                  {"error [formula:1:19] expected a tensor [B,T,d] for `x`, got a number per token "
                   "[B,T,1]"});
  expect_findings("x = x + f(x)\nend: out = 3",
                  {"error [formula:2:12] expected a tensor [B,T,d] for "
                   "`out`, got a scalar"});
  expect_findings("x = x + f(x)^x", {"error [formula:1:14] expected a scalar as an exponent, got a "
                                     "tensor [B,T,d]"});
  expect_findings("x = x + clip(f(x), 0, x)",
                  {"error [formula:1:23] expected a scalar as a bound of "
                   "`clip`"});
  expect_findings("x = x + floor(f(x))",
                  {"error [formula:1:15] expected a scalar as the argument of "
                   "`floor`"});
  expect_findings("x = x + tanh(2)*f(x)",
                  {"error [formula:1:14] expected a tensor as the argument of "
                   "`tanh`, got a scalar"});
  expect_findings("x = x + detach(2)*f(x)", {"error [formula:1:16]"});
  expect_findings("x = x + rms(param(1, per=channel))*f(x)",
                  {"error [formula:1:13] expected a tensor [B,T,d] as the argument of `rms`, got a "
                   "vector [d]"});
  expect_findings("x = x + param(x)*f(x)",
                  {"error [formula:1:15] expected a scalar as the start of "
                   "`param`, got a tensor [B,T,d]"});
}

TEST(CheckTypes, Broadcasting) {
  expect_fine("x = param(1)*x + f(rms(x)*param(1, per=channel) + 0*x)");
  expect_fine("x = x + f(rms(x)*param(1, per=channel))");  // [B,T,1] and [d] make [B,T,d]
  expect_fine("x = max(x, 0) + f(min(x, rms(x))^2)");
  expect_fine("x = x + sqrt(2)*abs(log(2))*exp(-1)*min(2, l)*clip(l, 0, 1)*floor(L/2)*f(x)");
  expect_findings("x = param(1)*param(2, per=channel)",
                  {"error [formula:1:5] expected a tensor [B,T,d] for `x`, got a vector [d]"});
  expect_findings("x = x + f(param(1)*param(2, per=channel))",
                  {"error [formula:1:11] expected a tensor [B,T,d] as the argument of `f`, got a "
                   "vector [d]"});
}

TEST(CheckTypes, Dot) {
  expect_fine("x = x + dot(x, f(x))*x");
  expect_fine("x = x + dot(param(0, per=channel), f(x))");
  expect_findings("x = x + dot(param(0, per=channel), param(0, per=channel))*f(x)",
                  {"error [formula:1:36] expected a tensor [B,T,d] beside a vector [d] as the "
                   "argument of `dot`, got a vector [d]"});
  expect_findings("x = x + dot(x, 2)*f(x)", {"error [formula:1:16] expected a tensor [B,T,d] or a "
                                             "vector [d] as the argument of `dot`, got a scalar"});
}

TEST(CheckTypes, CarriedNamesKeepTheirs) {
  expect_findings(
      "begin: r = rms(embed)\nblock: r = x; x = x + f(x)*r",
      {"error [formula:2:12] expected a number per token [B,T,1] for `r`, got a tensor"});
  expect_fine("begin: r = rms(embed)\nblock: r = rms(x); x = x + f(x)*r");
  expect_findings("begin: w = 1\nblock: w = rms(x); x = x + w*f(x)", {"error [formula:2:12]"});
  expect_fine("begin: w = 1\nblock: w = w/2; x = x + w*f(x)");
  expect_fine(with("y = rms(x); y = x"));  // names of the block's own may change
}

TEST(CheckScalars, Finite) {
  expect_findings("x = x + sqrt(2 - l)*f(x)",
                  {"error [formula:1:9] expected a finite number, got `sqrt(2 - l)` = nan at l = 3 "
                   "in layer 3"});
  expect_fine("x = x + sqrt(2 - l)*f(x)", stack(2));
  expect_findings("x = x + exp(1000)*f(x)", {"error [formula:1:9] expected a finite number, got "
                                             "`exp(1000)` = inf in layer 1"});
  expect_findings("w = log(l - 1); x = x + w*f(x)",
                  {"error [formula:1:5] expected a finite number, got `log(l - 1)` = -inf at l = 1 "
                   "in layer 1"});
  expect_findings(
      "let: a = log(L - 4)\nblock: x = x + a*f(x)",
      {"error [formula:1:10] expected a finite number, got `log(L - 4)` = -inf at L = 4"});
  expect_findings("x = x + f(norm(x, gain=sqrt(-1)))", {"error [formula:1:24]"});
  expect_fine("x = x + max(log(l - 1), -3)*f(x)");  // infinity inside max
  expect_fine("x = x + 1/exp(1000)*f(x)");          // and as a divisor
  expect_findings("x = x + max(sqrt(-1), 1)*f(x)", {"error [formula:1:13]"});  // but never nan
  expect_findings("x = x + 2*(exp(1000) - 1)/exp(1000)*f(x)", {"error [formula:1:12]"});
}

TEST(CheckScalars, Schedules) {
  expect_fine("x = x + clip(t/(1000*l), 0, 1)*f(x)");
  expect_fine("x = x + (1/t + min(t, 5)^2)*f(x)");
  expect_fine("w = clip(t/100, 0, 1); x = x + w*f(x)");
  expect_fine("x = x + 1/sqrt(t + 3)*f(x)");
  expect_findings("x = x + t*f(x)",
                  {"error [formula:1:9] expected a finite number, got `t` = inf at "
                   "t = inf in layer 1; try `clip` or `min` around it"});
  expect_findings("x = x + min(t, t)*f(x)", {"error [formula:1:9] expected a finite number, got "
                                             "`min(t, t)` = inf"});
  expect_findings("x = x + clip(t/t, 0, 1)*f(x)", {"error [formula:1:14] expected a finite number, "
                                                   "got `t/t` = nan at t = inf"});
  expect_findings("x = x + 1/(t - 1)*f(x)", {"error [formula:1:12] expected a divisor other than "
                                             "zero, got `t - 1` = 0 at t = 1"});
  expect_findings("x = x + 1/(1/t)*f(x)",
                  {"error [formula:1:12] expected a divisor other than zero, "
                   "got `1/t` = 0 at t = inf"});
  expect_findings("x = x + clip(f(x), -t, min(t, 4))", {});
}

TEST(CheckScalars, WhereTMayNotStand) {
  expect_findings("let: a = 1/t\nblock: x = x + a*f(x)",
                  {"error [formula:1:12] expected a scalar in `let` that is the same at every "
                   "update, got `t`"});
  expect_findings("block[1..t]: x = x + f(x)\nblock: x = x + f(x)", {"error [formula:1:10]"});
  expect_findings("x = x + param(1/t)*f(x)", {"error [formula:1:17] expected a scalar as the start "
                                              "of `param` that is the same"});
  for (const char* option : {"gain", "alpha", "shift"}) {
    expect_findings(
        std::string("x = x + f(derf(x, ") + option + "=1/t))",
        {std::string("error [formula:1:") + std::to_string(22 + std::string(option).size()) +
         "] expected a scalar for `" + option + "=`"});
  }
  expect_findings("x = x + f(norm(x, eps=1/t))", {"error [formula:1:25]"});
  expect_findings("w = 1/t; x = x + f(norm(x, gain=w))",
                  {"error [formula:1:33] expected a scalar for `gain=` that is the same at every "
                   "update, got `w`, which depends on `t`"});
  expect_fine("w = 1/l; x = x + f(norm(x, gain=w))");
}

TEST(CheckScalars, DivisionByZero) {
  expect_findings("x = x + f(x)/(L - 1)",
                  {"error [formula:1:15] expected a divisor other than zero, "
                   "got `L - 1` = 0 at L = 1 in layer 1"},
                  stack(1));
  expect_fine("x = x + f(x)/(L - 1)");
  expect_findings("x = x + (l - 1)/(l - 3)*f(x)",
                  {"error [formula:1:18] expected a divisor other "
                   "than zero, got `l - 3` = 0 at l = 3 in layer 3"});
  expect_findings(
      "let: a = 0\nblock: x = x + f(x)/a",
      {"error [formula:2:21] expected a divisor other than zero, got `a` = 0 at a = 0"});
}

TEST(CheckScalars, ClipBounds) {
  expect_findings("x = x + clip(f(x), 1, 0)", {"error [formula:1:20] expected bounds of `clip` in "
                                               "order, got 1 above 0"});
  expect_findings("x = x + clip(f(x), 0, 3 - l)",
                  {"error [formula:1:20] expected bounds of `clip` in "
                   "order, got 0 above -1"});
  expect_fine("x = x + clip(f(x), 1, 1)");
}

TEST(CheckScalars, WhatIsKnownWhere) {
  expect_findings(
      "let: a = S\nblock: x = x + a*f(x)",
      {"error [formula:1:10] expected L, N, M, d, head_dim or a `let` name in `let`, got "
       "`S`"});
  expect_findings("let: a = l\nblock: x = x + a*f(x)",
                  {"error [formula:1:10] expected `l` in a block "
                   "only"});
  expect_findings("let: a = embed\nblock: x = x + a*f(x)",
                  {"error [formula:1:10] expected a scalar in `let`, got a tensor"});
  expect_findings("let: a = b; b = 1\nblock: x = x + a*b*f(x)", {"error [formula:1:10]"});
  expect_findings("begin: x = l*embed\nblock: x = x + f(x)",
                  {"error [formula:1:12] expected `l` in a "
                   "block only"});
  expect_findings("x = x + f(x)\nend: out = s*x", {"error [formula:2:12] expected `s` in a block "
                                                   "only"});
  expect_findings("x = x + s*attn(x) + ffn(x)",
                  {"error [formula:1:9] expected `s` in a sublayer formula"});
  expect_fine("x = x + f(x)/sqrt(s)/S\nend: out = S*x/N/M/d/head_dim/L");
}

TEST(CheckScalars, InstancesAreNumberedThroughTheStack) {
  // S = 2*L = 8; s runs 1..8 over layers and branches.
  expect_findings("x = x + f(x)/(s - 8)",
                  {"error [formula:1:15] expected a divisor other than zero, "
                   "got `s - 8` = 0 at s = 8 in layer 4"});
  expect_fine("x = x + f(x)/(s - 9)/(S - 9)*(s - 0.5)");
  expect_findings(
      "block[1..1]: x = x + attn(x) + ffn(x)\nblock: x = x + f(x)/(s - 3)",
      {"error [formula:2:22] expected a divisor other than zero, got `s - 3` = 0 at s = "
       "3 in layer 2"});
  expect_findings("x = x + f(x)/(S - 12)", {"error [formula:1:15]"}, pair(Stack::pair_decoder));
}

TEST(CheckBlocks, Ranges) {
  expect_findings("block[1..5]: x = x + f(x)",
                  {"error [formula:1:1] expected a range within 1..L = 1..4, got `block[1..5]` = "
                   "1..5"});
  expect_findings("block[0..L]: x = x + f(x)",
                  {"error [formula:1:1] expected a range within 1..L = "
                   "1..4, got `block[0..L]` = 0..4"});
  expect_findings("block[9..9]: x = x + f(x)\nblock: x = x + f(x)", {"error [formula:1:1]"});
  expect_findings(
      "block[1..L/3]: x = x + f(x)\nblock: x = x + f(x)",
      {"error [formula:1:10] expected a whole number as a bound of a range, got `L/3` = "
       "1.3333333333333333 at L = 4; try `floor`"});
  expect_fine("block[1..3*(L/3)]: x = x + f(x)", stack(7));  // whole within 1e-9
  expect_fine("block[1..floor(L/8)]: x = x + f(x)\nblock: x = x + f(x)");
  expect_fine("block[9..0]: x = x + f(x)\nblock: x = x + f(x)");
  expect_findings("block[1..x]: x = x + f(x)", {"error [formula:1:10]"});
  expect_findings(
      "let: q = 2\nblock[1..q]: x = x + f(x)",
      {"error [formula:2:1] expected a block for every layer, got none for layers 3 and "
       "4 of 4"});
  expect_findings("block[2..2]: x = x + f(x)\nblock[4..4]: x = x + f(x)",
                  {"error [formula:2:1] expected a block for every layer, got none for layers 1, 3 "
                   "of 4"});
  expect_findings("block[1..1/0]: x = x + f(x)", {"error [formula:1:12] expected a divisor"});
  expect_findings("block[1..1e300]: x = x + f(x)", {"error [formula:1:1] expected a range within"});
}

TEST(CheckBlocks, Order) {
  expect_findings("x = x + f(x)\nblock[1..1]: x = x + f(x)",
                  {"error [formula:2:1] expected no block after one without a range"});
  expect_fine("block[1..1]: x = x + f(x)\nblock: x = x + f(x)");
  expect_findings("block:\nend: out = x",
                  {"error [formula:1:1] expected statements in a block, got none"});
  expect_findings("begin: x = embed", {"error [formula] expected at least one block, got none"});
  expect_findings("", {"error [formula] expected at least one block, got none"});
}

TEST(CheckBlocks, TheFirstRangeThatHoldsALayerIsUsed) {
  const Program program = parse(
      "block[1..2]: x = x + f(x)\nblock[2..3]: x = x + attn(x) + ffn(x)\n"
      "block: x = x + attn(x)");
  const Layout where = layout(program, stack(5));
  ASSERT_EQ(where.block_of.size(), 5u);
  const std::vector<int> expected = {0, 0, 1, 2, 2};
  for (size_t i = 0; i < 5; ++i) {
    EXPECT_EQ(where.block_of[i], &program.blocks[static_cast<size_t>(expected[i])]);
  }
  EXPECT_EQ(where.calls_before, (std::vector<int>{0, 2, 4, 6, 7}));
  EXPECT_EQ(where.scalars.at("S"), 8);
  EXPECT_EQ(where.scalars.at("L"), 5);
  EXPECT_THROW(layout(parse("x = y"), stack()), Error);
}

TEST(CheckBlocks, Branches) {
  expect_findings(
      "x = x + f(x) + ffn(x)",
      {"error [formula:1:16] expected a block to use either `f` or attn, cross and ffn, "
       "got `ffn` beside `f`"});
  expect_fine("block[1..1]: x = x + attn(x) + ffn(x)\nblock: x = x + f(x)");
  expect_findings("begin: x = attn(embed)\nblock: x = x + f(x)",
                  {"error [formula:1:12] expected branches in blocks only, got `attn` in `begin`"});
  expect_findings("x = x + f(x)\nend: out = f(x)",
                  {"error [formula:2:12] expected branches in blocks only, got `f` in `end`"});
}

TEST(CheckBlocks, Memory) {
  const std::string cross = "x = x + attn(x); x = x + cross(x); x = x + ffn(x)";
  expect_findings(cross,
                  {"error [formula:1:26] expected a decoder beside an encoder, got `cross`"});
  expect_findings(cross, {"error [formula:1:26]"}, pair(Stack::pair_encoder));
  expect_fine(cross, pair(Stack::pair_decoder));
  expect_findings("x = x + f(x) + memory",
                  {"error [formula:1:16] expected a decoder beside an encoder, got a stack without "
                   "`memory`"});
  expect_fine("x = x + attn(x) + ffn(x + memory)", pair(Stack::pair_decoder));
  expect_findings("x = x + attn(x) + ffn(x)",
                  {"error [formula] expected the decoder of a pair to read `memory`"},
                  pair(Stack::pair_decoder));
  expect_findings("block[1..0]: x = x + cross(x)\nblock: x = x + attn(x) + ffn(x)",
                  {"error [formula] expected the decoder of a pair"}, pair(Stack::pair_decoder));
  expect_fine("x = x + f(x)", pair(Stack::pair_decoder));
  expect_fine("x = x + attn(x) + ffn(x)", pair(Stack::pair_encoder));
}

}  // namespace
}  // namespace addnorm::formula
