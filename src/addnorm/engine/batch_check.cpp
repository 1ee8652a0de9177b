#include "addnorm/engine/batch_check.h"

#include <fmt/format.h>

#include "addnorm/base/error.h"

namespace addnorm::engine {
namespace {

void check_ids(const std::vector<int32_t>& ids, int64_t length, int64_t vocab, const char* what,
               bool may_be_ignored) {
  for (size_t i = 0; i < ids.size(); ++i) {
    if (ids[i] >= 0 && ids[i] < vocab) continue;
    if (may_be_ignored && ids[i] == nodes::Batch::ignored) continue;
    fail_input("batch", fmt::format("expected {} in 0..{}, got {} in sequence {}, position {}",
                                    what, vocab - 1, ids[i], static_cast<int64_t>(i) / length,
                                    static_cast<int64_t>(i) % length));
  }
}

void check_size(size_t got, int64_t sequences, int64_t length, const char* what) {
  if (static_cast<int64_t>(got) == sequences * length) return;
  fail_input("batch", fmt::format("expected {} of shape [{}, {}], got {} values", what, sequences,
                                  length, got));
}

void check_length(int64_t length, int64_t context, const char* what) {
  if (length <= context) return;
  fail_input("batch",
             fmt::format("expected {} of at most context = {}, got {}; shorten the sequences "
                         "or raise model.context",
                         what, context, length));
}

}  // namespace

void PreparedBatch::prepare(const graph::Graph& graph, const nodes::Batch& batch,
                            const Request& request) {
  batch_ = &batch;
  request_ = &request;
  const bool pair = graph.stacks.size() > 1;
  if (batch.sequences < 1 || batch.length < 1) {
    fail_input("batch", fmt::format("expected at least one sequence of one token, got {} x {}",
                                    batch.sequences, batch.length));
  }
  if (pair != (batch.source_length > 0)) {
    fail_input("batch", pair
                            ? "expected a source beside the tokens, since the model has an encoder "
                              "and a decoder"
                            : "expected no source, since the model has one stack");
  }
  if (graph.memory_read && batch.source_length != batch.length) {
    fail_input(fmt::format("batch, decoder formula {}:{}", graph.memory_read->line,
                           graph.memory_read->column),
               fmt::format("expected source and tokens of one length, since `memory` is read there "
                           "beside the decoder's own tokens, got {} and {}; try cross(..), which "
                           "attends over `memory` of any length",
                           batch.source_length, batch.length));
  }
  check_size(batch.tokens.size(), batch.sequences, batch.length, "tokens");
  check_size(batch.targets.size(), batch.sequences, batch.length, "targets");
  check_length(batch.length, graph.context, "a length");
  check_ids(batch.tokens, batch.length, graph.vocab, "a token id", false);
  check_ids(batch.targets, batch.length, graph.vocab, "a target id (or -100)", true);
  if (!batch.mask.empty()) check_size(batch.mask.size(), batch.sequences, batch.length, "mask");
  if (pair) {
    check_size(batch.source.size(), batch.sequences, batch.source_length, "source");
    check_length(batch.source_length, graph.context, "a source length");
    check_ids(batch.source, batch.source_length, graph.vocab, "a source id", false);
    if (!batch.source_mask.empty()) {
      check_size(batch.source_mask.size(), batch.sequences, batch.source_length, "source_mask");
    }
  }
  positions_.resize(batch.tokens.size());
  nodes::fill_positions(batch.mask.empty() ? nullptr : batch.mask.data(), batch.sequences,
                        batch.length, positions_.data());
  source_positions_.resize(batch.source.size());
  if (pair) {
    nodes::fill_positions(batch.source_mask.empty() ? nullptr : batch.source_mask.data(),
                          batch.sequences, batch.source_length, source_positions_.data());
  }
  targets_.assign(batch.targets.begin(), batch.targets.end());
  for (size_t i = 0; i < batch.mask.size(); ++i) {
    if (batch.mask[i] == 0) targets_[i] = nodes::Batch::ignored;
  }
  targets_counted_ = batch.target_count();
  divisor_ = request.divisor > 0 ? request.divisor
                                 : static_cast<double>(std::max<int64_t>(1, targets_counted_));
  schedules_.resize(graph.schedules.size());
  graph.schedule_values(request.t, at_t_, schedules_);
}

nodes::BatchView PreparedBatch::view(int64_t first, int64_t count) const {
  const nodes::Batch& b = *batch_;
  nodes::BatchView view;
  view.first_sequence = first;
  view.sequences = count;
  view.length = b.length;
  view.source_length = b.source_length;
  view.tokens = b.tokens.data() + first * b.length;
  view.targets = targets_.data() + first * b.length;
  view.mask = b.mask.empty() ? nullptr : b.mask.data() + first * b.length;
  view.positions = positions_.data() + first * b.length;
  if (b.source_length > 0) {
    view.source = b.source.data() + first * b.source_length;
    view.source_mask =
        b.source_mask.empty() ? nullptr : b.source_mask.data() + first * b.source_length;
    view.source_positions = source_positions_.data() + first * b.source_length;
  }
  view.divisor = divisor_;
  view.label_smoothing = request_->label_smoothing;
  view.z_loss = request_->z_loss;
  view.training = request_->training;
  view.dropout_seed = request_->dropout_seed;
  view.schedules = schedules_.data();
  return view;
}

int64_t PreparedBatch::rows(graph::Rows rows) const {
  if (rows == graph::Rows::fixed) return 1;
  return batch_->sequences * (rows == graph::Rows::source ? batch_->source_length : batch_->length);
}

}  // namespace addnorm::engine
