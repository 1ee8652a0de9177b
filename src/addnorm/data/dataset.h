// From the [data] section to training and validation rows, a tokenizer and the reference entropies.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "addnorm/base/error.h"
#include "addnorm/data/batches.h"
#include "addnorm/data/entropy.h"
#include "addnorm/data/rows.h"
#include "addnorm/model/specification.h"
#include "addnorm/text/tokenizer.h"

namespace addnorm::data {

Task task_of(const std::string& kind);  // decoder | encoder | encoder-decoder

struct DatasetOptions {
  model::DataSection data;
  Task task = Task::next_token;
  int64_t context = 0;      // the longest row, special ids included
  bool drop_blank = false;  // pairs: drop and count blank lines instead of refusing them
  // The tokenizer of a run that is resumed or evaluated; absent: `data.tokenizer`, where `chars` takes
  // its table from the training part.
  std::shared_ptr<const text::Tokenizer> tokenizer;
};

struct Dataset {
  std::shared_ptr<const text::Tokenizer> tokenizer;
  std::shared_ptr<const Rows> training;
  std::shared_ptr<const Rows> validation;  // null where nothing is held out
  Entropies entropies;
  Findings findings;  // warnings and information: what was skipped, cut, dropped, replaced

  Batches training_batches(Task task, const model::DataSection& data,
                           const model::TrainSection& train) const;
  // In order, the same for every seed: masks of masked prediction belong to the row.
  Batches validation_batches(Task task, const model::DataSection& data, int64_t batch) const;
};

// Everything that is wrong with files, sizes and settings is an Error: a missing or unreadable file, a
// folder without text, text in another encoding, an unknown character, a training part shorter than one
// row, pairs whose files have different numbers of lines.
Dataset open_dataset(const DatasetOptions& options);

// An Error where [data] names a file or folder that is not there.
void require_texts(const model::DataSection& data);

// All files of [data] in the order in which they are used: source, target, validation.
std::vector<TextRecord> record_texts(const model::DataSection& data);

// One part alone: all rows of the files, in order and complete, for `eval --data`.
std::shared_ptr<const Rows> open_evaluation(const std::vector<std::string>& files,
                                            const DatasetOptions& options, Findings& findings);

}  // namespace addnorm::data
