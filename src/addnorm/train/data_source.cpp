#include "addnorm/train/data_source.h"

namespace addnorm::train {

int64_t target_bytes(const data::Rows& rows, data::Task task) {
  return task == data::Task::masked ? 0 : static_cast<int64_t>(rows.target_bytes());
}

DataSource::DataSource(const data::Dataset& dataset, data::Task task,
                       const model::DataSection& data, const model::TrainSection& train)
    : training_(dataset.training_batches(task, data, train)) {
  if (!dataset.validation) return;
  validation_ = dataset.validation_batches(task, data, train.batch);
  validation_bytes_ = target_bytes(*dataset.validation, task);
}

void DataSource::step(int64_t step, std::vector<nodes::Batch>& micro_batches) {
  micro_batches.resize(static_cast<size_t>(training_.micro_batches(step)));
  for (size_t i = 0; i < micro_batches.size(); ++i) {
    training_.fill(step, static_cast<int64_t>(i), micro_batches[i]);
  }
}

void DataSource::name_origins(int64_t step, std::vector<nodes::Batch>& micro_batches) const {
  int64_t row = 0;
  for (nodes::Batch& batch : micro_batches) {
    batch.origin.clear();
    for (int64_t i = 0; i < batch.sequences; ++i) {
      batch.origin.push_back(training_.origin(step, row++));
    }
  }
}

int64_t DataSource::validation_batches() const {
  return validation_ ? validation_->steps_per_epoch() : 0;
}

void DataSource::validation(int64_t index, nodes::Batch& batch) {
  validation_->fill(index + 1, 0, batch);
}

}  // namespace addnorm::train
