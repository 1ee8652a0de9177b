// Lowers the program of one stack, layer by layer.
#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "addnorm/graph/builder.h"
#include "addnorm/graph/writes.h"

namespace addnorm::graph {

class StackLowering {
 public:
  StackLowering(Builder& builder, const StackProgram& stack, const formula::Layout& layout,
                const std::vector<std::string>& branches);

  // `memory` is -1 where there is no encoder. Returns `out`.
  Stack run(ValueId embed, ValueId memory);

 private:
  // The value of an expression: a scalar (every name but t known) or a value of the graph.
  struct Operand {
    formula::ExprPtr scalar;
    ValueId value = -1;
  };
  using Key = std::pair<const formula::Expr*, int>;  // an expression in a branch instance

  // Numbers of norms, params, linears and names of branch calls of one block, by order of the text.
  struct Names {
    std::map<Key, int> norms, params, linears;
    std::map<Key, std::string> calls;
    Writes writes;
  };
  struct Scope {          // where statements run
    std::string section;  // "begin", "end", "blocks.0"
    std::string points;   // "blocks.0.attn."
    std::map<std::string, Operand>* locals = nullptr;
    const Names* names = nullptr;
    int instance = 0;
  };

  Names name_parts(const std::vector<formula::Statement>& body, int instances) const;
  void number_shared_params();
  void run_statements(const std::vector<formula::Statement>& body, Scope& scope);
  void assign(const std::string& name, const Operand& value, Scope& scope,
              std::map<std::string, int>& left);
  void run_layer(const formula::Block& block, int layer, const Names& names);

  Operand evaluate(const formula::Expr& expression, Scope& scope);
  Operand name(const formula::Expr& expression, Scope& scope);
  Operand binary(const formula::Expr& expression, Scope& scope);
  Operand operand_of(const formula::Expr& expression, bool negative, Scope& scope);
  Operand call(const formula::Expr& expression, Scope& scope);
  Operand branch(const formula::Expr& expression, Scope& scope);
  Operand param(const formula::Expr& expression, Scope& scope);
  ValueId value(const Operand& operand);  // a scalar becomes a number of the graph
  Scalar scalar(const Operand& operand) { return builder_.scalar(operand.scalar); }

  Builder& builder_;
  const StackProgram& stack_;
  const formula::Layout& layout_;
  std::vector<std::string> branches_;
  formula::Scalars scalars_;
  bool own_drops_ = false;  // the program says where dropout acts
  std::map<std::string, Operand> carried_;
  std::map<const formula::Expr*, int> stack_params_;  // number of each share=stack param
  std::map<const formula::Expr*, ValueId> shared_, layer_shared_;
  ValueId embed_ = -1, memory_ = -1, out_ = -1;
  int branch_number_ = 0;
  uint64_t drops_ = 0;
};

}  // namespace addnorm::graph
