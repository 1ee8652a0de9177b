#include "addnorm/checkpoint/weights.h"

#include <fmt/format.h>

#include <cmath>
#include <set>

#include "addnorm/base/error.h"
#include "addnorm/base/text.h"
#include "addnorm/text/utf8.h"

namespace addnorm::checkpoint {
namespace {

int64_t product(const std::vector<int64_t>& shape) {
  int64_t count = 1;
  for (const int64_t one : shape) count *= one;
  return count;
}

// What is wrong with names, shapes and types; empty: nothing.
Findings mismatches(const SafetensorsFile& file, const std::vector<Wanted>& wanted) {
  std::vector<std::string> present;
  for (const TensorInfo& tensor : file.tensors()) present.push_back(tensor.name);
  std::vector<std::string> names;
  std::set<std::string> known;
  for (const Wanted& one : wanted) {
    names.push_back(one.name);
    known.insert(one.name);
  }
  Findings problems;
  const auto add = [&](std::string message) {
    problems.push_back({Level::error, file.name(), std::move(message)});
  };
  const auto hint = [](const std::string& near) {
    return near.empty() ? std::string() : "; nearest name: " + near;
  };
  for (const Wanted& one : wanted) {
    const TensorInfo* tensor = file.find(one.name);
    if (tensor == nullptr) {
      add(fmt::format("expected a tensor {} {}, got none{}", one.name, shape_text(one.shape),
                      hint(nearest(one.name, present))));
    } else if (tensor->shape != one.shape) {
      add(fmt::format("{}: expected shape {}, got {}", one.name, shape_text(one.shape),
                      shape_text(tensor->shape)));
    } else if (!is_floating(tensor->type)) {
      add(fmt::format("{}: expected F16, BF16, F32 or F64, got {}", one.name, name(tensor->type)));
    }
  }
  constexpr size_t most_extras = 1000, longest_name = 256;
  size_t extras = 0;
  for (const std::string& extra : present) {
    if (known.contains(extra) || ++extras > most_extras) continue;
    const bool of_any_length = extra.size() <= longest_name;
    add(fmt::format("expected no tensor {}: the model has none of that name{}",
                    of_any_length ? extra : text::quoted(extra, longest_name),
                    of_any_length ? hint(nearest(extra, names)) : ""));
  }
  if (extras > most_extras) {
    add(fmt::format("expected no others, got {} further tensors", extras - most_extras));
  }
  return problems;
}

template <class T>
void judge(const std::string& file, const Wanted& one, std::span<const T> values,
           std::string& problems) {
  int64_t bad = 0;
  size_t first = 0;
  for (size_t i = 0; i < values.size(); ++i) {
    if (std::isfinite(values[i])) continue;
    if (bad++ == 0) first = i;
  }
  if (bad == 0) return;
  if (!problems.empty()) problems += '\n';
  problems += fmt::format(
      "error [{}] {}: expected finite numbers, got {} at index {} ({} of {} values not finite)",
      file, one.name, values[first], first, bad, values.size());
}

template <class T>
void load(const fs::path& path, const graph::Graph& graph,
          const std::function<std::span<T>(size_t)>& parameter) {
  std::vector<Wanted> wanted;
  for (size_t i = 0; i < graph.parameters.size(); ++i) {
    Wanted one{graph.parameters[i].name, graph.parameters[i].dims, {}, {}};
    if constexpr (std::is_same_v<T, float>) {
      one.floats = parameter(i);
    } else {
      one.doubles = parameter(i);
    }
    wanted.push_back(std::move(one));
  }
  read_tensors(SafetensorsFile::open(path), wanted);
}

}  // namespace

void read_tensors(const SafetensorsFile& file, const std::vector<Wanted>& wanted) {
  if (const Findings problems = mismatches(file, wanted); !problems.empty()) throw Error(problems);
  std::string not_finite;
  for (const Wanted& one : wanted) {
    const TensorInfo& tensor = file.at(one.name);
    ADDNORM_ASSERT(static_cast<int64_t>(one.floats.size() + one.doubles.size()) ==
                   product(one.shape));
    if (!one.floats.empty()) {
      file.read_float(tensor, one.floats);
      judge<float>(file.name(), one, one.floats, not_finite);
    } else if (!one.doubles.empty()) {
      file.read_double(tensor, one.doubles);
      judge<double>(file.name(), one, one.doubles, not_finite);
    }
  }
  if (!not_finite.empty()) {
    throw Error(Failure::nonfinite, not_finite + "; `addnorm inspect` counts them per tensor");
  }
}

void load_weights(const fs::path& path, const graph::Graph& graph,
                  const std::function<std::span<float>(size_t)>& parameter) {
  load<float>(path, graph, parameter);
}

void load_weights(const fs::path& path, const graph::Graph& graph,
                  const std::function<std::span<double>(size_t)>& parameter) {
  load<double>(path, graph, parameter);
}

}  // namespace addnorm::checkpoint
