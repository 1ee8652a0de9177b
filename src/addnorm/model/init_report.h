// Proof of an initialization: per tensor the rule, the spread it should have and the one it has.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "addnorm/model/init.h"

namespace addnorm::model {

struct InitRow {
  std::string name;
  graph::Role role = graph::Role::linear;
  InitRule rule;
  double target = 0;    // standard deviation
  double measured = 0;  // root of the mean square around the rule's mean
  int64_t size = 0;     // elements of the tensor
  int64_t count = 0;    // elements measured: all, or whole rows spread evenly
  double z = 0;  // (measured - target) in standard errors; infinite for a constant that is none
};

struct InitReport {
  std::vector<InitRow> rows;
  Findings notes;  // spreads far above what suits the width

  bool passed() const;  // |z| <= 5 everywhere
};

// Draws elements of every parameter, at most about `limit` of each and one at a time: the model is
// never in memory. The standard error of the spread of n draws of kurtosis k is std*sqrt((k-1)/(4n)),
// std/sqrt(2n) for the normal distribution.
InitReport init_report(const Specification& specification, const graph::ModelShape& shape,
                       const graph::Graph& graph, uint64_t seed, int64_t limit = int64_t{1} << 20);

}  // namespace addnorm::model
