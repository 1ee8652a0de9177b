#include "addnorm/checkpoint/batch_file.h"

#include <fmt/format.h>

#include <algorithm>

#include "addnorm/base/text.h"
#include "addnorm/text/utf8.h"

namespace addnorm::checkpoint {
namespace {

constexpr int64_t shown_ids = 10;

class Reader {
 public:
  Reader(const SafetensorsFile& file, const BatchLimits& limits) : file_(file), limits_(limits) {}

  BatchFile read() {
    check_names();
    nodes::Batch& batch = result_.batch;
    if (const TensorInfo* tokens = matrix("tokens", true)) {
      batch.sequences = tokens->shape[0];
      batch.length = tokens->shape[1];
      const std::vector<int64_t> shape = tokens->shape;
      batch.tokens = ids(*tokens, false);
      if (const TensorInfo* targets = matrix("targets", true, shape))
        batch.targets = ids(*targets, true);
      batch.mask = mask("mask", shape);
    }
    if (const TensorInfo* source = limits_.pair ? matrix("source", true) : nullptr) {
      batch.source_length = source->shape[1];
      if (batch.sequences > 0 && source->shape[0] != batch.sequences) {
        wrong("source", fmt::format("expected {} sequences like tokens, got {}", batch.sequences,
                                    source->shape[0]));
      }
      const std::vector<int64_t> shape = source->shape;
      batch.source = ids(*source, false);
      batch.source_mask = mask("source_mask", shape);
    }
    if (has_errors(result_.findings)) throw Error(result_.findings);
    ignore_under_mask();
    return std::move(result_);
  }

 private:
  void wrong(const std::string& tensor, const std::string& message) {
    result_.findings.push_back({Level::error, file_.name() + ": " + tensor, message});
  }

  void check_names() {
    std::vector<std::string> known = {"tokens", "targets", "mask"};
    if (limits_.pair) known.insert(known.end(), {"source", "source_mask"});
    constexpr size_t told = 20;  // a file of weights, taken for a batch, may hold a million
    size_t others = 0;
    for (const TensorInfo& tensor : file_.tensors()) {
      if (std::find(known.begin(), known.end(), tensor.name) != known.end()) continue;
      if (++others > told) continue;
      const std::string near = nearest(tensor.name, known);
      wrong(text::quoted(tensor.name),
            fmt::format("expected only {}{}, got this tensor{}", join(known, ", "),
                        limits_.pair ? "" : " for a model of one stack",
                        near.empty() ? "" : "; try " + near));
    }
    if (others > told) {
      wrong("and more", fmt::format("expected no others, got {} further tensors", others - told));
    }
  }

  // The tensor if it is there and has the right shape; an empty `shape` takes any matrix.
  const TensorInfo* matrix(const std::string& name, bool required,
                           const std::vector<int64_t>& shape = {}) {
    const TensorInfo* tensor = file_.find(name);
    if (tensor == nullptr) {
      if (required) wrong(name, "expected this tensor, got none");
      return nullptr;
    }
    if (!shape.empty() && tensor->shape != shape) {
      wrong(name,
            fmt::format("expected the shape {} of {}, got {}", shape_text(shape),
                        name == "source_mask" ? "source" : "tokens", shape_text(tensor->shape)));
      return nullptr;
    }
    if (tensor->shape.size() != 2 || tensor->count == 0) {
      wrong(name, fmt::format("expected [sequences, length], both at least 1, got the shape {}",
                              shape_text(tensor->shape)));
      return nullptr;
    }
    if (tensor->shape[1] > limits_.context) {
      wrong(name, fmt::format("expected at most {} positions (the context), got {}",
                              limits_.context, tensor->shape[1]));
      return nullptr;
    }
    return tensor;
  }

  std::vector<int32_t> ids(const TensorInfo& tensor, bool targets) {
    if (tensor.type != ElementType::i64 && tensor.type != ElementType::i32) {
      wrong(tensor.name, fmt::format("expected I64 or I32, got {}", checkpoint::name(tensor.type)));
      return {};
    }
    const std::vector<int64_t> values = file_.read_int64(tensor);
    std::vector<int32_t> result(values.size());
    int64_t bad = 0;
    for (size_t i = 0; i < values.size(); ++i) {
      const int64_t id = values[i];
      if ((id >= 0 && id < limits_.vocab) || (targets && id == nodes::Batch::ignored)) {
        result[i] = static_cast<int32_t>(id);
      } else if (++bad <= shown_ids) {
        wrong(tensor.name,
              fmt::format("sequence {}, position {}: expected an id in 0..{}{}, got {}",
                          static_cast<int64_t>(i) / tensor.shape[1],
                          static_cast<int64_t>(i) % tensor.shape[1], limits_.vocab - 1,
                          targets ? " or -100" : "", id));
      }
    }
    if (bad > shown_ids) {
      wrong(tensor.name,
            fmt::format("{} more ids outside 0..{}", bad - shown_ids, limits_.vocab - 1));
    }
    return result;
  }

  std::vector<uint8_t> mask(const std::string& name, const std::vector<int64_t>& shape) {
    const TensorInfo* tensor = matrix(name, false, shape);
    if (tensor == nullptr) return {};
    if (tensor->type != ElementType::u8 && tensor->type != ElementType::boolean) {
      wrong(name, fmt::format("expected U8 or BOOL, got {}", checkpoint::name(tensor->type)));
      return {};
    }
    const auto bytes = file_.bytes(*tensor);
    std::vector<uint8_t> result(bytes.size());
    for (size_t i = 0; i < bytes.size(); ++i) {
      result[i] = static_cast<uint8_t>(bytes[i]);
      if (result[i] > 1) {
        wrong(name, fmt::format("sequence {}, position {}: expected 0 or 1, got {}",
                                static_cast<int64_t>(i) / shape[1],
                                static_cast<int64_t>(i) % shape[1], result[i]));
        break;
      }
    }
    return result;
  }

  void ignore_under_mask() {
    nodes::Batch& batch = result_.batch;
    for (size_t i = 0; i < batch.mask.size(); ++i) {
      if (batch.mask[i] != 0 || batch.targets[i] == nodes::Batch::ignored) continue;
      batch.targets[i] = nodes::Batch::ignored;
      ++result_.targets_under_mask;
    }
    if (result_.targets_under_mask > 0) {
      result_.findings.push_back(
          {Level::warning, file_.name() + ": targets",
           fmt::format("{} targets stand under mask 0; they are ignored and not "
                       "counted in the divisor",
                       result_.targets_under_mask)});
    }
  }

  const SafetensorsFile& file_;
  const BatchLimits& limits_;
  BatchFile result_;
};

}  // namespace

BatchFile read_batch(const fs::path& path, const BatchLimits& limits) {
  return read_batch(SafetensorsFile::open(path), limits);
}

BatchFile read_batch(const SafetensorsFile& file, const BatchLimits& limits) {
  return Reader(file, limits).read();
}

void write_batch(const fs::path& path, const nodes::Batch& batch) {
  const std::vector<int64_t> shape = {batch.sequences, batch.length};
  const std::vector<int64_t> source_shape = {batch.sequences, batch.source_length};
  const auto wide = [](const std::vector<int32_t>& ids) {
    return std::vector<int64_t>(ids.begin(), ids.end());
  };
  const std::vector<int64_t> tokens = wide(batch.tokens);
  const std::vector<int64_t> targets = wide(batch.targets);
  const std::vector<int64_t> source = wide(batch.source);
  std::vector<TensorOut> tensors = {{"tokens", ElementType::i64, shape, tokens.data(), {}},
                                    {"targets", ElementType::i64, shape, targets.data(), {}}};
  if (!source.empty())
    tensors.push_back({"source", ElementType::i64, source_shape, source.data(), {}});
  if (!batch.mask.empty())
    tensors.push_back({"mask", ElementType::u8, shape, batch.mask.data(), {}});
  if (!batch.source_mask.empty()) {
    tensors.push_back({"source_mask", ElementType::u8, source_shape, batch.source_mask.data(), {}});
  }
  write_safetensors(path, tensors);
}

}  // namespace addnorm::checkpoint
