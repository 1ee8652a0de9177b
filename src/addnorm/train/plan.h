// From a specification to everything a training needs except memory: data, sizes, graph, costs.
#pragma once

#include <memory>
#include <string>

#include "addnorm/data/dataset.h"
#include "addnorm/formula/catalogue.h"
#include "addnorm/graph/lower.h"
#include "addnorm/model/estimate.h"
#include "addnorm/model/specification.h"

namespace addnorm::train {

struct Plan {
  model::Specification specification;  // vocab filled in, paths absolute
  data::Task task = data::Task::next_token;
  data::Dataset dataset;
  graph::ModelShape shape;
  graph::Graph graph;
  model::Estimate estimate;
  Findings findings;  // warnings and information of all of them
};

// Opens the data, lowers the model and judges both. `tokenizer`: of a run that goes on; else the
// specification's. Refuses a model that does not fit into memory before it allocates it.
Plan make_plan(const model::Specification& specification, const formula::Catalogue& catalogue,
               std::shared_ptr<const text::Tokenizer> tokenizer = nullptr);

// Parameters, memory, FLOPs per update, entropies, resolved warm-up: lines for people.
std::string describe(const Plan& plan);

// The table's size where the specification leaves it open; Error where it is smaller than the
// tokenizer's, information where rows are to spare.
void fill_vocab(model::Specification& specification, const text::Tokenizer& tokenizer,
                Findings& findings);

}  // namespace addnorm::train
