// The list of node kinds. A graph is made of nothing else.
#pragma once

#include <variant>

#include "addnorm/nodes/attention.h"
#include "addnorm/nodes/binary.h"
#include "addnorm/nodes/cross_entropy.h"
#include "addnorm/nodes/detach.h"
#include "addnorm/nodes/embedding.h"
#include "addnorm/nodes/head_scale.h"
#include "addnorm/nodes/linear.h"
#include "addnorm/nodes/norm.h"
#include "addnorm/nodes/reduce.h"
#include "addnorm/nodes/rotary.h"
#include "addnorm/nodes/sum.h"
#include "addnorm/nodes/unary.h"

namespace addnorm::nodes {

// Each kind has `name`, a shape rule, and forward and backward templates on the scalar type.
using Op = std::variant<Embedding, SinusoidalPositions, Norm, Linear, Rotary, Attention, HeadScale,
                        Sum, Binary, Unary, Dot, Rms, Detach, Drop, CrossEntropy>;

}  // namespace addnorm::nodes
