// What depends on what in the unrolled program: from `embed` through branch instances to `out`. It
// is structural: 0*x depends on x.
#pragma once

#include <string>
#include <vector>

#include "addnorm/formula/check_report.h"
#include "addnorm/formula/program.h"

namespace addnorm::formula {

class Flow {
 public:
  static constexpr int nothing = -1;  // depends on neither `embed` nor a branch

  int embed();
  int merge(int a, int b);
  int detach(int a);
  // One instance of a branch call; `branch` is attn, cross or ffn, `layer` counts from 1. The call
  // must outlive this object.
  int branch(int argument, const Expr& call, const std::string& branch, int layer);

  // Errors and warnings about what does not reach `out`, or only through a detach. `out_at` is the
  // statement that sets `out`.
  void judge(int out, const Place& out_at, Report& report) const;

 private:
  struct Node {
    int a = nothing;
    int b = nothing;
    bool detached = false;
  };
  struct Instance {
    int node = nothing;
    const Expr* call = nullptr;
    std::string branch;
    int layer = 0;
  };

  int add(Node node);
  // Nodes from which `out` is reached; without `through_detach` only along gradients.
  std::vector<char> reaching(int out, bool through_detach) const;
  void judge_call(const std::vector<const Instance*>& instances, const std::vector<char>& reached,
                  const std::vector<char>& trained, Report& report) const;

  std::vector<Node> nodes_;  // arguments before results
  std::vector<Instance> instances_;
  int embed_ = nothing;
};

// 1, 2, 3, 7 as "1 to 3, 7".
std::string layer_list(const std::vector<int>& layers);

}  // namespace addnorm::formula
