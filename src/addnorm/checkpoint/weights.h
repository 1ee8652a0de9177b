// Tensors of a file into memory that is already there: all or nothing, by exact name and shape.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "addnorm/checkpoint/safetensors.h"
#include "addnorm/graph/graph.h"

namespace addnorm::checkpoint {

struct Wanted {
  std::string name;
  std::vector<int64_t> shape;
  std::span<float> floats;  // where the values go: one of the two
  std::span<double> doubles;
};

// The file must hold exactly these tensors, of a floating type. Missing, extra and wrongly shaped ones
// come in one Error (Failure::input), each with the nearest name; values that are not finite, also after
// the conversion, in one of Failure::nonfinite with tensor and index. Nothing is written before names
// and shapes are right.
void read_tensors(const SafetensorsFile& file, const std::vector<Wanted>& wanted);

// All parameters of a model; `parameter(i)` is the memory of the i-th.
void load_weights(const fs::path& path, const graph::Graph& graph,
                  const std::function<std::span<float>(size_t)>& parameter);
void load_weights(const fs::path& path, const graph::Graph& graph,
                  const std::function<std::span<double>(size_t)>& parameter);

}  // namespace addnorm::checkpoint
