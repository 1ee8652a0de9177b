#include "addnorm/model/estimate.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <limits>

namespace addnorm::model {
namespace {

double size_of(const graph::Parameter& parameter) {
  double size = 1;
  for (const int64_t dim : parameter.dims) size *= static_cast<double>(dim);
  return size;
}

// "12,345", or "1.00e+12" from a billion on.
std::string count(double value) {
  if (value >= 1e9) return fmt::format("{:.2e}", value);
  std::string digits = fmt::format("{:.0f}", value);
  for (int at = static_cast<int>(digits.size()) - 3; at > 0; at -= 3) {
    digits.insert(static_cast<size_t>(at), ",");
  }
  return digits;
}

std::string bytes_text(double bytes) {
  static constexpr const char* units[] = {"B", "KiB", "MiB", "GiB", "TiB"};
  int unit = 0;
  for (; bytes >= 1024 && unit < 4; ++unit) bytes /= 1024;
  return fmt::format("{:.4g} {}", bytes, units[unit]);
}

}  // namespace

Estimate estimate(const graph::Graph& graph, const graph::ModelShape& shape,
                  const TrainSection& train) {
  Estimate e;
  const auto context = static_cast<double>(shape.context);
  const double rows = static_cast<double>(train.batch) * context;
  e.tokens = rows * static_cast<double>(train.accumulate);
  for (const graph::Parameter& parameter : graph.parameters) e.parameters += size_of(parameter);
  double values = 0;
  for (const graph::Node& node : graph.nodes) {
    const nodes::Shape& out = graph.shape(node.output);
    // The logits are never whole in memory.
    if (out.per_token() && !node.label.starts_with("head")) values += static_cast<double>(out.cols);
    if (std::holds_alternative<nodes::Linear>(node.op)) {
      const nodes::Shape& weight = graph.shape(node.inputs[1]);
      const double size = static_cast<double>(weight.height) * static_cast<double>(weight.cols);
      e.product_weights += size;
      e.flops += 6 * size * e.tokens;
    } else if (const auto* attention = std::get_if<nodes::Attention>(&node.op)) {
      const double width =
          static_cast<double>(attention->heads) * static_cast<double>(attention->head_dim);
      e.flops += (attention->causal ? 6 : 12) * width * context * e.tokens;
    }
  }
  const double moments = train.optimizer == "sgd" ? 1 : 2;
  e.weight_bytes = 4 * e.parameters;
  e.gradient_bytes = 4 * e.parameters;
  e.moment_bytes = 4 * moments * e.parameters;
  e.activation_bytes = 4 * values * rows;
  return e;
}

double available_memory() {
  double bytes = static_cast<double>(::sysconf(_SC_PHYS_PAGES)) *
                 static_cast<double>(::sysconf(_SC_PAGE_SIZE));
  for (const char* path :
       {"/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"}) {
    std::ifstream file(path);
    double limit = 0;
    if (file >> limit && limit > 0) bytes = std::min(bytes, limit);
  }
  return bytes;
}

std::string describe(const Estimate& e) {
  return fmt::format(
      "{} parameters; memory {} (weights {}, gradients {}, moments {}, activations at most {}); "
      "{:.3e} FLOPs per update of {} tokens",
      count(e.parameters), bytes_text(e.memory()), bytes_text(e.weight_bytes),
      bytes_text(e.gradient_bytes), bytes_text(e.moment_bytes), bytes_text(e.activation_bytes),
      e.flops, count(e.tokens));
}

void require_memory(const Estimate& e, double bytes) {
  if (e.memory() <= bytes) return;
  fail_input("model", "expected a model that fits into " + bytes_text(bytes) + " of memory, got " +
                          describe(e) + "; try a smaller width, fewer layers or a smaller batch");
}

}  // namespace addnorm::model
