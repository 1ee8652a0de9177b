#include "addnorm/lab/metrics.h"

#include <fstream>
#include <nlohmann/json.hpp>

#include "addnorm/base/error.h"
#include "addnorm/base/files.h"

namespace addnorm::lab {
namespace {

using nlohmann::json;

constexpr int deepest = 8;  // lines nest no deeper; a parser of ours must not recurse at will

json parse_line(std::string_view line) {
  return json::parse(line.begin(), line.end(), [](int depth, json::parse_event_t, json&) {
    if (depth > deepest) throw std::length_error("nested too deeply");
    return true;
  });
}

// Non-finite numbers are strings in the file.
std::optional<double> number(const json& value) {
  if (value.is_number()) return value.get<double>();
  if (!value.is_string()) return std::nullopt;
  const auto& text = value.get_ref<const std::string&>();
  const double inf = std::numeric_limits<double>::infinity();
  if (text == "inf" || text == "Infinity") return inf;
  if (text == "-inf" || text == "-Infinity") return -inf;
  if (text == "nan" || text == "-nan" || text == "NaN") return missing;
  return std::nullopt;
}

std::optional<double> number(const json& object, const char* key) {
  const auto at = object.find(key);
  return at == object.end() ? std::nullopt : number(*at);
}

int64_t whole(const json& object, const char* key) {
  const auto at = object.find(key);
  return at != object.end() && at->is_number() ? at->get<int64_t>() : 0;
}

std::string word(const json& object, const char* key) {
  const auto at = object.find(key);
  return at != object.end() && at->is_string() ? at->get<std::string>() : "";
}

StepRecord step_of(const json& object) {
  StepRecord record;
  record.step = whole(object, "step");
  record.loss = number(object, "loss").value_or(missing);
  record.lr = number(object, "lr");
  record.grad_norm = number(object, "grad_norm");
  record.clipped = number(object, "clipped").value_or(0);
  record.seconds = number(object, "seconds").value_or(0);
  record.tokens = whole(object, "tokens");
  record.nonfinite_steps = whole(object, "nonfinite_steps");
  return record;
}

void add_layers(DiagRecord& record, const json& object, const char* key) {
  const auto list = object.find(key);
  if (list == object.end() || !list->is_array()) return;
  for (const json& item : *list) {
    if (!item.is_object()) continue;
    DiagLayer layer;
    layer.layer = item.contains("layer") ? static_cast<int>(whole(item, "layer")) : -1;
    layer.stack = word(item, "stack");
    layer.stream_ms = number(item, "stream_ms").value_or(missing);
    layer.stream_grad_norm = number(item, "stream_grad_norm").value_or(missing);
    layer.grad_norm = number(item, "grad_norm").value_or(missing);
    layer.update_ratio = number(item, "update_ratio").value_or(missing);
    layer.correlation = number(item, "r").value_or(missing);
    record.layers.push_back(layer);
  }
}

DiagRecord diag_of(const json& object) {
  DiagRecord record;
  record.step = whole(object, "step");
  add_layers(record, object, "layers");
  add_layers(record, object, "out");
  if (const auto roles = object.find("roles"); roles != object.end() && roles->is_object()) {
    for (const auto& [role, values] : roles->items()) {
      if (!values.is_object()) continue;
      record.roles[role] = {number(values, "grad_norm").value_or(missing),
                            number(values, "update_ratio").value_or(missing)};
    }
  }
  return record;
}

void add(Metrics& metrics, const json& object) {
  const std::string event = word(object, "event");
  if (event == "step") metrics.steps.push_back(step_of(object));
  if (event == "eval") {
    metrics.evals.push_back({whole(object, "step"), number(object, "val_loss").value_or(missing)});
  }
  if (event == "diag") metrics.diags.push_back(diag_of(object));
  if (event == "note") {
    for (const char* key : {"text", "message", "note"}) {
      if (std::string text = word(object, key); !text.empty()) {
        metrics.notes.push_back({whole(object, "step"), std::move(text)});
        break;
      }
    }
  }
  const auto keep = [&](std::optional<double>& to, const char* key) {
    if (const auto v = number(object, key)) to = v;
  };
  keep(metrics.unigram_entropy, "unigram_entropy");
  keep(metrics.unigram_validation, "unigram_validation");
  keep(metrics.bigram_entropy, "bigram_entropy");
  keep(metrics.bigram_validation, "bigram_validation");
}

}  // namespace

Metrics parse_metrics(std::string_view text, const std::string& file) {
  Metrics metrics;
  size_t from = 0;
  for (int line = 1; from < text.size(); ++line) {
    const size_t end = text.find('\n', from);
    if (end == std::string_view::npos) {
      metrics.torn = true;
      break;
    }
    const std::string_view content = text.substr(from, end - from);
    from = end + 1;
    try {
      const json object = parse_line(content);
      if (!object.is_object()) throw std::invalid_argument("not an object");
      add(metrics, object);
    } catch (const std::exception& problem) {
      fail_input(file + ":" + std::to_string(line),
                 "expected one JSON object on a line, got \"" + std::string(content.substr(0, 60)) +
                     "\" (" + problem.what() + "); remove the line to read the rest");
    }
  }
  return metrics;
}

Metrics read_metrics(const std::filesystem::path& file) {
  if (!std::filesystem::exists(file)) {
    Metrics none;
    none.absent = true;
    return none;
  }
  return parse_metrics(read_file(file), file.string());
}

int64_t last_step(const std::filesystem::path& file) {
  std::ifstream in(file, std::ios::binary | std::ios::ate);
  if (!in) return 0;
  const auto size = static_cast<int64_t>(in.tellg());
  const int64_t wanted = std::min<int64_t>(size, 16384);
  std::string tail(static_cast<size_t>(wanted), '\0');
  in.seekg(size - wanted);
  in.read(tail.data(), wanted);
  size_t end = tail.rfind('\n');
  while (end != std::string::npos && end > 0) {
    const size_t begin = tail.rfind('\n', end - 1);
    const size_t from = begin == std::string::npos ? 0 : begin + 1;
    const json line = json::parse(tail.substr(from, end - from), nullptr, false);
    if (line.is_object() && word(line, "event") == "step") return whole(line, "step");
    end = begin;
  }
  return 0;
}

}  // namespace addnorm::lab
