// The real Source: a data set's training and validation parts.
#pragma once

#include <memory>
#include <optional>

#include "addnorm/data/dataset.h"
#include "addnorm/train/source.h"

namespace addnorm::train {

// Bytes of text behind the targets of a part; 0 for masked prediction, whose targets are a share of it.
int64_t target_bytes(const data::Rows& rows, data::Task task);

class DataSource : public Source {
 public:
  DataSource(const data::Dataset& dataset, data::Task task, const model::DataSection& data,
             const model::TrainSection& train);

  void step(int64_t step, std::vector<nodes::Batch>& micro_batches) override;
  void name_origins(int64_t step, std::vector<nodes::Batch>& micro_batches) const override;
  int64_t validation_batches() const override;
  void validation(int64_t index, nodes::Batch& batch) override;
  int64_t validation_bytes() const override { return validation_bytes_; }

 private:
  data::Batches training_;
  std::optional<data::Batches> validation_;
  int64_t validation_bytes_ = 0;
};

}  // namespace addnorm::train
