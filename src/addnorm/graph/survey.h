// What stands where in a model: its norms by place, and what every branch reads. Read off the nodes,
// so it holds for any formula.
#pragma once

#include <string>
#include <vector>

#include "addnorm/graph/graph.h"

namespace addnorm::graph {

// Norm nodes of one stack. Those that options of branch calls ask for (`qk=` is two of them, one on q
// and one on k) are not part of the others.
struct NormCount {
  StackSide side = StackSide::single;
  int begin = 0, blocks = 0, end = 0;
  int qk = 0, value = 0, inner = 0;

  int placed() const { return begin + blocks + end; }
  int in_branches() const { return qk + value + inner; }
};
std::vector<NormCount> count_norms(const Graph& graph);  // in the order of Graph::stacks

// What one branch call reads.
struct Reading {
  std::string branch;  // "decoder.blocks.0.cross"
  std::string kind;    // attn cross ffn
  int layer = 0;
  // What makes its argument: "norm", "stream", "embed", or the operation; in a pair with the stack
  // before it ("decoder norm"). `name` is that value's ("decoder.blocks.0.norm.2").
  std::string from, name;
  // Of cross-attention: "encoder out (encoder.end.norm.1)", with what computes it in parentheses.
  std::string memory;
};
std::vector<Reading> branch_readings(const Graph& graph);  // in order of computation

}  // namespace addnorm::graph
