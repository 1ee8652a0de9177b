// The model as a list of nodes: what the formula and the specification lower to, and all that later
// layers look at. Nothing here knows a wiring's name.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "addnorm/formula/program.h"
#include "addnorm/formula/scalar.h"
#include "addnorm/nodes/node.h"

namespace addnorm::graph {

using nodes::Rows;
using nodes::Scalar;
using nodes::Shape;
using ValueId = int;

// What a weight is for. Initialization, learning-rate factors and weight decay go by role.
enum class Role : uint8_t {
  embed,
  positions,
  q,
  k,
  v,
  attn_out,
  ffn_in,
  ffn_gate,
  ffn_out,
  cross_q,
  cross_k,
  cross_v,
  cross_out,
  head,
  linear,
  norm,
  param,
  bias,  // of linear layers and norms; always starts at 0
};
const char* role_name(Role role);
const std::vector<Role>& all_roles();

enum class StackSide : uint8_t { single, encoder, decoder };  // encoder and decoder: of a pair

struct Parameter {
  std::string name;  // design section 4
  Role role = Role::linear;
  StackSide side = StackSide::single;
  std::vector<int64_t> dims;  // as in files: [out, in], [d], [1]
  int layer = -1;             // 0-based, -1 outside blocks
  double start = 0;           // what norms, biases and params start at
  bool matrix = false;        // drawn at random (matrices and embeddings), `start` does not count
  ValueId value = -1;

  int64_t size() const;
  int64_t fan_in() const { return dims.back(); }  // of a matrix
  int64_t fan_out() const { return dims.front(); }
};

struct Value {
  Shape shape;
  int parameter = -1;  // index of the parameter, or
  int node = -1;       // of the node that computes it
};

struct Node {
  nodes::Op op;
  std::vector<ValueId> inputs;
  ValueId output = -1;
  std::string label;        // for people: "blocks.0.attn: scores", "blocks.0.ffn.x = ..."
  formula::Place at{0, 0};  // in the formula; 0 where the node is not written there
  StackSide side = StackSide::single;
  int layer = -1;  // 0-based, -1 outside blocks
};

// One call of attn, cross or ffn of one layer.
struct Branch {
  std::string name;  // "blocks.0.attn", "decoder.blocks.1.ffn2"
  std::string kind;  // attn cross ffn
  StackSide side = StackSide::single;
  int layer = 0;
  int number = 1;  // s, 1..S, in order of computation
  ValueId in = -1;
  ValueId out = -1;
  ValueId write = -1;  // -1 where nothing of it is added
  formula::Place at;
};

struct Stack {
  StackSide side = StackSide::single;
  std::string prefix;  // "", "encoder.", "decoder."
  int layers = 0;
  ValueId embed = -1;
  ValueId out = -1;
  std::vector<ValueId> layer_input;  // x before layer l; [layers] = x after the last
  bool implied_out = false;          // `out = x` was not written
};

struct Graph {
  std::vector<Value> values;
  std::vector<Node> nodes;            // in order of computation
  std::vector<Parameter> parameters;  // in a fixed order: embeddings, blocks, begin, end, head
  std::vector<Branch> branches;
  std::vector<Stack> stacks;  // encoder first
  std::map<std::string, ValueId> points;
  std::vector<formula::ExprPtr>
      schedules;  // expressions in t; every other name is a number already
  ValueId logits = -1;
  ValueId loss = -1;
  int64_t width = 0;
  int64_t vocab = 0;
  int64_t context = 0;
  // Where the decoder of a pair reads `memory` as a value: beside its own tokens, position by position,
  // so its batches need source and tokens of one length.
  std::optional<formula::Place> memory_read;

  const Shape& shape(ValueId id) const { return values[static_cast<size_t>(id)].shape; }
  int64_t parameter_count() const;
  // Values of `schedules` at t into `to` (as many); `names` must hold "t" and is reused.
  void schedule_values(double t, formula::Scalars& names, std::vector<double>& to) const;
  // Per value: whether a gradient of the loss can reach it and is of use (a parameter, or a value
  // that depends on one).
  std::vector<bool> needs_gradient() const;
};

}  // namespace addnorm::graph
