// Abstract values of expressions: their type, for scalars their value at the first update and at the
// end of all schedules, and what they depend on. Mistakes are reported on the way.
#pragma once

#include <map>
#include <set>
#include <string>
#include <vector>

#include "addnorm/formula/check.h"
#include "addnorm/formula/check_flow.h"
#include "addnorm/formula/check_report.h"
#include "addnorm/formula/functions.h"
#include "addnorm/formula/program.h"

namespace addnorm::formula {

// In the order of broadcasting, but for vector with token, which make a tensor. `bad` values come
// from a reported mistake and cause no further ones.
enum class Type { bad, scalar, number, vector, token, tensor };
std::string type_name(Type type);
Type broadcast(Type a, Type b);

struct Value {
  Type type = Type::bad;
  bool known = false;  // the two values below are; scalars only
  double first = 0;    // at t = 1
  double last = 0;     // at t = infinity
  bool reads_t = false;
  int node = Flow::nothing;

  static Value scalar(double value) { return {Type::scalar, true, value, value, false}; }
};

enum class Section { let, range, begin, block, end };

// Where an expression stands.
struct Scope {
  Section section = Section::let;
  std::map<std::string, Value> names;  // let names, carried names, those set so far
  int layer = 0;                       // in a block, from 1
  bool exists = true;                  // false: a block without layers, checked as layer 1
  bool sublayer = false;               // the block calls f
  std::string branch;                  // what f stands for here
  int instance = 1;                    // s
};

class Evaluator {
 public:
  Evaluator(const Context& context, Report& report, Flow& flow)
      : context_(context), report_(report), flow_(flow) {}

  Value evaluate(const Expr& expression, const Scope& scope);
  // One that must be a scalar known before running; `what` completes "expected a scalar ..".
  Value scalar(const Expr& expression, const Scope& scope, const std::string& what);

  Scalars stack_scalars;              // L N M d head_dim, later S
  std::set<std::string> block_names;  // set in some block
  bool uses_lost = false;             // a mistake hides what depends on what
  bool reads_memory = false;

  // " at L = 1, l = 2 (layer 2)": the scalars that an expression reads.
  std::string resolved(const Expr& expression, const Scope& scope, bool at_end = false) const;

 private:
  Value name(const Expr& e);
  Value stack_scalar(const Expr& e);
  Value unknown_name(const Expr& e);
  Value negate(const Expr& e);
  Value binary(const Expr& e);
  Value call(const Expr& e);
  Value branch(const Expr& e, const std::vector<Value>& arguments);
  Value dot(const Expr& e, const std::vector<Value>& arguments);
  Value clip(const Expr& e);
  Value param(const Expr& e);
  // Elementwise over the arguments, scalars computed.
  Value combine(const Expr& e, const std::vector<Value>& arguments);

  bool arguments_fit(const Expr& e, const Function& function);
  // `owner` says whose options they are; `kind` is the entry of the table that has them.
  void options(const std::vector<Option>& given, const std::string& owner, const Function& kind);
  void option(const Option& given, const std::string& owner, const OptionRule& rule);
  const Function& norm_kind(const std::string& kind) const;

  Value eval(const Expr& e);
  Value eval_allowing_infinity(const Expr& e);
  Value scalar_without_t(const Expr& e, const std::string& what);
  bool need(const Value& value, Type type, const Expr& e, const std::string& what);
  Value judged(Value value, const Expr& e);
  void divisor_not_zero(const Value& divisor, const Expr& e);
  void error(const Place& at, const std::string& rule, std::string message) {
    report_.error(at, rule, std::move(message));
  }

  const Context& context_;
  Report& report_;
  Flow& flow_;
  const Scope* scope_ = nullptr;
  bool infinity_allowed_ = false;
  std::string without_t_;  // what may not depend on t here, "" where it may
};

}  // namespace addnorm::formula
