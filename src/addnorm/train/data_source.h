// The real Source: a data set's training and validation parts.
#pragma once

#include <memory>
#include <optional>

#include "addnorm/data/dataset.h"
#include "addnorm/train/source.h"

namespace addnorm::train {

class DataSource : public Source {
 public:
  DataSource(const data::Dataset& dataset, data::Task task, const model::DataSection& data,
             const model::TrainSection& train);

  void step(int64_t step, std::vector<nodes::Batch>& micro_batches) override;
  void name_origins(int64_t step, std::vector<nodes::Batch>& micro_batches) const override;
  int64_t validation_batches() const override;
  void validation(int64_t index, nodes::Batch& batch) override;
  int64_t validation_bytes() const override;

 private:
  data::Batches training_;
  std::optional<data::Batches> validation_;
};

}  // namespace addnorm::train
