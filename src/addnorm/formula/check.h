// Every static error of a program at once, judged for one stack of a model.
#pragma once

#include <string>
#include <vector>

#include "addnorm/base/error.h"
#include "addnorm/formula/program.h"
#include "addnorm/formula/scalar.h"

namespace addnorm::formula {

enum class Stack { decoder, encoder, pair_encoder, pair_decoder };

struct Context {
  Stack stack = Stack::decoder;
  int layers = 1;          // L of this stack
  int encoder_layers = 1;  // N; a single stack has N = M = L whatever stands here
  int decoder_layers = 1;  // M
  double width = 64;       // d
  double head_dim = 16;
  std::string norm = "layernorm";  // what norm() means
  Scalars let_overrides;           // wiring = "mix-ln(fraction=0.06)"
};

// The branches a sublayer formula stands for, in order: attn, ffn; in the decoder of a pair attn,
// cross, ffn.
std::vector<std::string> branches(Stack stack);

// Branch calls of one layer of a block: a call of f counts once for each branch it stands for.
int branch_calls(const Block& block, Stack stack);

// Errors and warnings of design section 1, sorted by place: "expected X, got Y; try Z" with the
// nearest known name. Structural findings about paths (no residual, no final norm, ...) are judged
// on the graph, not here. A finding's place is "formula:line:column", or "formula" where the whole
// program is meant. The cost grows with layers times the length of the text.
Findings check(const Program& program, const Context& context);

// What a checked program says about the layers of a stack. Throws on a program with errors.
struct Layout {
  Scalars scalars;                     // L N M S d head_dim and let names
  std::vector<const Block*> block_of;  // per layer (0-based); points into the program
  // Branch calls in the layers before this one (0-based). In a sublayer formula with k calls of f
  // the instance number i (0-based) of the layer has s = calls_before + i*k + 1.
  std::vector<int> calls_before;
};
Layout layout(const Program& program, const Context& context);

}  // namespace addnorm::formula
