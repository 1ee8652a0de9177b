#include "addnorm/model/init_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>

#include "addnorm/base/text.h"

namespace addnorm::model {
namespace {

using graph::Role;

// Sum of squares around the rule's mean, over the first elements of every `step`-th row.
void measure(const graph::Parameter& parameter, uint64_t seed, int64_t limit, InitRow* row) {
  const bool constant = row->rule.kind == InitRule::Kind::constant;
  const double mean = row->rule.offset + (constant ? row->rule.value : 0);
  const int64_t width = parameter.dims.back();
  const int64_t height = row->size / width;
  const int64_t columns = std::min(width, limit);
  const int64_t rows = std::clamp<int64_t>(limit / columns, 1, height);
  double squares = 0;
  for (int64_t i = 0; i < rows; ++i) {
    const int64_t at = static_cast<int64_t>(static_cast<__int128>(i) * height / rows);
    for (int64_t j = 0; j < columns; ++j) {
      const double difference =
          draw(row->rule, seed, parameter.name, static_cast<uint64_t>(at * width + j)) - mean;
      squares += difference * difference;
    }
  }
  row->count = rows * columns;
  row->measured = std::sqrt(squares / static_cast<double>(row->count));
}

double z_score(const InitRow& row) {
  if (row.target == 0) return row.measured == 0 ? 0 : std::numeric_limits<double>::infinity();
  const double error =
      row.target * std::sqrt((row.rule.kurtosis() - 1) / (4 * static_cast<double>(row.count)));
  return (row.measured - row.target) / error;
}

bool in_a_branch(Role role) { return role >= Role::q && role <= Role::cross_out; }

// A spread that suits one width is far too large for a much larger one (a std of 0.02 at width
// 14336). Roles with the same spread share a line.
Findings far_too_large(const std::vector<InitRow>& rows, int64_t width) {
  const auto d = static_cast<double>(width);
  const double uniform = 1 / std::sqrt(3 * d), small = std::sqrt(2 / (5 * d));
  std::map<double, std::vector<std::string>> roles;
  for (const InitRow& row : rows) {
    if (!in_a_branch(row.role) || row.target < 2 * std::max(uniform, small)) continue;
    auto& names = roles[row.target];
    const std::string name = graph::role_name(row.role);
    if (std::find(names.begin(), names.end(), name) == names.end()) names.push_back(name);
  }
  Findings notes;
  for (const auto& [std, names] : roles) {
    notes.push_back(
        {Level::warning, "init",
         fmt::format("{}: std {:.6g} is large for width {}: {:.4g} times 1/sqrt(3*d) = {:.5g} and "
                     "{:.4g} times sqrt(2/(5*d)) = {:.5g}",
                     join(names, " "), std, width, std / uniform, uniform, std / small, small)});
  }
  return notes;
}

}  // namespace

bool InitReport::passed() const {
  return std::all_of(rows.begin(), rows.end(),
                     [](const InitRow& row) { return std::abs(row.z) <= 5; });
}

InitReport init_report(const Specification& specification, const graph::ModelShape& shape,
                       const graph::Graph& graph, uint64_t seed, int64_t limit) {
  const std::vector<InitRule> rules = init_rules(specification, shape, graph);
  InitReport report;
  for (size_t i = 0; i < rules.size(); ++i) {
    const graph::Parameter& parameter = graph.parameters[i];
    InitRow row;
    row.name = parameter.name;
    row.role = parameter.role;
    row.rule = rules[i];
    row.target = rules[i].target_std();
    row.size = parameter.size();
    measure(parameter, seed, limit, &row);
    row.z = z_score(row);
    report.rows.push_back(std::move(row));
  }
  report.notes = far_too_large(report.rows, shape.width);
  return report;
}

}  // namespace addnorm::model
