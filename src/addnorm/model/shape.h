// Parts of shape() that loading shares.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "addnorm/model/specification.h"

namespace addnorm::model {

using Report = std::function<void(const std::string& path, const std::string& message)>;

// The stacks of a model, encoder first, and the key that holds each one's wiring.
struct StackKey {
  graph::StackSide side;
  formula::Stack stack;
  std::string wiring;  // "model.encoder_wiring"
};
std::vector<StackKey> stack_keys(const std::string& kind);

// Everything but the programs and what needs them.
graph::ModelShape sizes(const ModelSection& model);
graph::StackProgram& program_of(graph::ModelShape* shape, graph::StackSide side);

// Values of embed_scale, attn_scale and logit_scale, once the programs are there.
void evaluate_scales(const ModelSection& model, graph::ModelShape* shape, const Report& report);

}  // namespace addnorm::model
