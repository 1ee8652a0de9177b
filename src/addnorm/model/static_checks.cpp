#include "addnorm/model/static_checks.h"

#include <algorithm>

#include "addnorm/base/text.h"
#include "addnorm/model/checks.h"

namespace addnorm::model {
namespace {

using formula::Place;
using graph::StackSide;

bool before(const Place& a, const Place& b) {
  return a.line != b.line ? a.line < b.line : a.column < b.column;
}

void add_statements(const std::vector<formula::Statement>& body, std::vector<StatementText>* to) {
  for (const formula::Statement& statement : body) {
    std::vector<std::string> values;
    values.reserve(statement.values.size());
    for (const formula::ExprPtr& value : statement.values) values.push_back(formula::print(*value));
    to->push_back({statement.at, join(statement.names, ", ") + " = " + join(values, ", ")});
  }
}

// Rules of the user that no parameter takes.
void check_unused_rules(const Specification& spec, const graph::Graph& graph, Findings* to) {
  for (const auto& [key, rule] : spec.init) {
    const auto source = spec.sources.find("init." + key);
    if (key == "default" || source == spec.sources.end() || source->second == Source::wiring)
      continue;
    const bool encoder = key.starts_with("encoder."), decoder = key.starts_with("decoder.");
    const std::string role = encoder || decoder ? key.substr(8) : key;
    const bool used = std::any_of(graph.parameters.begin(), graph.parameters.end(),
                                  [&](const graph::Parameter& parameter) {
                                    return role == graph::role_name(parameter.role) &&
                                           (!encoder || parameter.side == StackSide::encoder) &&
                                           (!decoder || parameter.side == StackSide::decoder);
                                  });
    if (used) continue;
    const std::string why = role == "head" ? "; a tied head follows embed" : "";
    to->push_back(
        {Level::information, "init." + key, "no effect: no parameter has this role" + why});
  }
}

}  // namespace

std::vector<StatementText> statements_of(const formula::Program& program) {
  std::vector<StatementText> all;
  add_statements(program.let, &all);
  add_statements(program.begin, &all);
  for (const formula::Block& block : program.blocks) add_statements(block.body, &all);
  add_statements(program.end, &all);
  std::stable_sort(all.begin(), all.end(), [](const StatementText& a, const StatementText& b) {
    return before(a.at, b.at);
  });
  return all;
}

StackCheck::StackCheck(const Specification& spec, const graph::ModelShape& sizes,
                       const graph::Graph& whole, const std::vector<InitRule>& all_rules,
                       const Paths& all_paths, const graph::Stack& one, Findings* to)
    : specification(spec),
      shape(sizes),
      graph(whole),
      rules(all_rules),
      paths(all_paths),
      stack(one),
      program((one.side == StackSide::encoder ? sizes.encoder : sizes.decoder).program),
      key_(one.side == StackSide::encoder   ? "model.encoder_wiring"
           : one.side == StackSide::decoder ? "model.decoder_wiring"
                                            : "model.wiring"),
      statements_(statements_of(program)),
      to_(to) {
  for (const graph::Branch& branch : graph.branches) {
    if (branch.side == stack.side) branches.push_back(branch);
  }
  // Stacks are lowered one after the other, the encoder first.
  end_node = static_cast<int>(graph.nodes.size());
  if (stack.side == StackSide::encoder) end_node = paths.index_of(stack.out) + 1;
  if (stack.side == StackSide::decoder) first_node = paths.index_of(graph.stacks.front().out) + 1;
}

void StackCheck::add(Level level, const Place& at, const std::string& message) {
  if (!said_.insert({at.line, at.column, message}).second) return;
  const std::string place =
      at.line > 0 ? ":" + std::to_string(at.line) + ":" + std::to_string(at.column) : "";
  to_->push_back({level, key_ + place, message});
}

std::string StackCheck::statement(const Place& at) const {
  std::string text;
  for (const StatementText& candidate : statements_) {
    if (!before(at, candidate.at)) text = candidate.text;
  }
  return "`" + text + "`";
}

Findings static_checks(const Specification& specification, const graph::ModelShape& shape,
                       const graph::Graph& graph) {
  Findings findings;
  const std::vector<InitRule> rules = init_rules(specification, shape, graph);
  const Paths paths(graph, rules);
  for (const graph::Stack& stack : graph.stacks) {
    StackCheck check(specification, shape, graph, rules, paths, stack, &findings);
    check_paths(&check);
    check_factors(&check);
    check_depth(&check);
  }
  check_unused_rules(specification, graph, &findings);
  return findings;
}

graph::Graph build(const Specification& specification, const graph::ModelShape& shape,
                   Findings* findings) {
  graph::Graph graph = graph::lower(shape);
  if (findings != nullptr) {
    const Findings found = static_checks(specification, shape, graph);
    findings->insert(findings->end(), found.begin(), found.end());
  }
  return graph;
}

}  // namespace addnorm::model
