// Checks 1, 2, 6, 7, 8 and 10 of the catalogue: paths without branches, streams, dead statements.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "addnorm/base/text.h"
#include "addnorm/model/checks.h"

namespace addnorm::model {
namespace {

using formula::Place;
using graph::ValueId;

constexpr double largest_half = 65504;
const Place nowhere{0, 0};

// One after the node of a value; of a stack's whole part where it has none of its own.
int end_of(const StackCheck& check, ValueId value) {
  return std::max(check.first_node, check.paths.index_of(value) + 1);
}

// "layer 3", "layers 2 to 4", "layers 1, 4"; numbers from 1, ascending.
std::string layers_text(const std::vector<int>& layers) {
  if (layers.size() == 1) return "layer " + std::to_string(layers[0]);
  if (layers.back() - layers.front() + 1 == static_cast<int>(layers.size())) {
    return fmt::format("layers {} to {}", layers.front(), layers.back());
  }
  std::vector<std::string> numbers;
  numbers.reserve(layers.size());
  for (const int layer : layers) numbers.push_back(std::to_string(layer));
  return "layers " + join(numbers, ", ");
}

// The statement that assigns `out`, or where it is implied.
Place place_of_out(const StackCheck& check) {
  for (const formula::Statement& statement : check.program.end) {
    if (std::count(statement.names.begin(), statement.names.end(), "out") > 0) return statement.at;
  }
  return nowhere;
}

void check_bare_path(StackCheck* check) {
  const auto reached = check->paths.bare(check->stack.embed, end_of(*check, check->stack.out));
  const auto out = reached.find(check->stack.out);
  if (out == reached.end()) return;
  const Place at = place_of_out(*check);
  const bool normed =
      std::any_of(check->branches.begin(), check->branches.end(),
                  [&](const graph::Branch& b) { return check->paths.normed(b.in); });
  if (normed && out->second.known && std::abs(out->second.value - 1) < 1e-9) {
    check->add(Level::warning, at,
               "no final norm: the stream grows from branch to branch and " +
                   (check->stack.implied_out ? std::string("the implied statement `out = x`")
                                             : check->statement(at)) +
                   " passes it on as it is; try `out = norm(x)`");
    return;
  }
  check->add(
      Level::warning, at,
      "a path leads from embed to out through no branch and no norm" +
          (out->second.known ? fmt::format(" (factor {:.6g})", out->second.value) : std::string()) +
          ": the model needs an initialization rule that bounds its branches");
}

struct LayerPaths {
  bool bare = false;  // from x to the new x, without branch and norm
  Gain gain;
};

std::vector<LayerPaths> check_layers(StackCheck* check) {
  std::vector<LayerPaths> layers;
  std::vector<int> without;
  for (int l = 0; l < check->stack.layers; ++l) {
    const ValueId from = check->stack.layer_input[static_cast<size_t>(l)];
    const ValueId to = check->stack.layer_input[static_cast<size_t>(l) + 1];
    const int end = end_of(*check, to);
    const auto bare = check->paths.bare(from, end);
    const auto found = bare.find(to);
    layers.push_back({found != bare.end(), found == bare.end() ? Gain{} : found->second});
    if (found == bare.end() && !check->paths.bare(from, end, true).contains(to)) {
      without.push_back(l + 1);
    }
  }
  if (!without.empty()) {
    Place at = nowhere;
    for (const graph::Branch& branch : check->branches) {
      if (branch.layer + 1 == without.front()) at = branch.at;
    }
    check->add(Level::warning, at,
               "no residual in " + layers_text(without) +
                   ": every path from x to the new x leads through a branch; try `x = x + ...`");
  }
  return layers;
}

void check_growth(StackCheck* check, const std::vector<LayerPaths>& layers) {
  double factor = 1;
  for (size_t l = 0; l < layers.size(); ++l) {
    if (!layers[l].bare || !layers[l].gain.known) return;
    const auto calls =
        std::count_if(check->branches.begin(), check->branches.end(),
                      [&](const graph::Branch& b) { return b.layer == static_cast<int>(l); });
    if (calls == 0) continue;
    const double each = std::pow(std::abs(layers[l].gain.value), 1 / static_cast<double>(calls));
    for (int64_t call = 0; call < calls; ++call) {
      factor *= each;
      if (!(factor > largest_half)) continue;
      const auto branch =
          std::find_if(check->branches.begin(), check->branches.end(),
                       [&](const graph::Branch& b) { return b.layer == static_cast<int>(l); }) +
          call;
      const double deepnorm = std::pow(2.0 * check->stack.layers, 0.25);
      check->add(
          Level::warning, branch->at,
          fmt::format("the stream leaves fp16: at branch {} ({}) the factors on x multiply to "
                      "{:.4g}, above 65504, in {}{}",
                      branch->number, branch->name, factor, check->statement(branch->at),
                      std::abs(each - deepnorm) < 1e-6
                          ? "; the factor is (2*L)^(1/4) and no norm stands on the path of x: "
                            "deepnorm mis-spelt?"
                          : ""));
      return;
    }
  }
}

void check_dead(StackCheck* check) {
  const auto read = check->paths.ancestors({check->graph.logits});
  struct Runs {
    int live = 0, dead = 0, dead_at_end = 0;
    Place at;
  };
  std::map<std::string, Runs> statements;
  for (int i = check->first_node; i < check->end_node; ++i) {
    const graph::Node& node = check->graph.nodes[static_cast<size_t>(i)];
    if (node.at.line == 0 || check->paths.inside(i)) continue;
    Runs& runs = statements[check->statement(node.at)];
    if (runs.live + runs.dead == 0) runs.at = node.at;
    if (read[static_cast<size_t>(node.output)]) {
      ++runs.live;
      runs.dead_at_end = 0;
    } else {
      ++runs.dead;
      ++runs.dead_at_end;
    }
  }
  for (const auto& [text, runs] : statements) {
    if (runs.live == 0) {
      check->add(Level::information, runs.at, "none of the names that " + text + " sets is read");
    } else if (runs.dead_at_end > 0) {
      check->add(Level::information, runs.at,
                 "what " + text + " sets is no longer read after its last uses");
    }
  }
}

void check_norm_of_norm(StackCheck* check) {
  for (int i = check->first_node; i < check->end_node; ++i) {
    const graph::Node& node = check->graph.nodes[static_cast<size_t>(i)];
    const auto* norm = std::get_if<nodes::Norm>(&node.op);
    if (norm == nullptr || !is_scale_free(*norm) || check->paths.inside(i)) continue;
    const graph::Node* inner = check->paths.node_of(node.inputs[0]);
    if (inner == nullptr || check->paths.inside(check->paths.index_of(node.inputs[0]))) continue;
    const auto* first = std::get_if<nodes::Norm>(&inner->op);
    if (first == nullptr || !is_scale_free(*first)) continue;
    check->add(Level::information, node.at,
               "redundant norm in " + check->statement(node.at) +
                   ": its argument is already the output of a norm, in " +
                   check->statement(inner->at));
  }
}

bool has_qk_norm(const StackCheck& check, const graph::Branch& branch) {
  // The attention's first input: a norm between it and the projection.
  std::vector<ValueId> open = {branch.out};
  while (!open.empty()) {
    const graph::Node* node = check.paths.node_of(open.back());
    open.pop_back();
    if (node == nullptr || !check.paths.inside(check.paths.index_of(node->output))) continue;
    if (std::holds_alternative<nodes::Attention>(node->op)) {
      const graph::Node* query = check.paths.node_of(node->inputs[0]);
      while (query != nullptr && std::holds_alternative<nodes::Rotary>(query->op)) {
        query = check.paths.node_of(query->inputs[0]);
      }
      return query != nullptr && std::holds_alternative<nodes::Norm>(query->op);
    }
    open.push_back(node->inputs[0]);
  }
  return false;
}

void check_saturation(StackCheck* check, const std::vector<LayerPaths>& layers) {
  for (const graph::Branch& branch : check->branches) {
    if (branch.kind != "attn" || !layers[static_cast<size_t>(branch.layer)].bare) continue;
    if (check->paths.normed(branch.in) || has_qk_norm(*check, branch)) continue;
    check->add(
        Level::warning, branch.at,
        "attention saturates with depth: its argument in " + check->statement(branch.at) +
            " is not the result of a norm and the stream grows; try a norm, or `qk=rmsnorm`");
  }
}

}  // namespace

void check_paths(StackCheck* check) {
  check_bare_path(check);
  const std::vector<LayerPaths> layers = check_layers(check);
  check_growth(check, layers);
  check_dead(check);
  check_norm_of_norm(check);
  check_saturation(check, layers);
}

}  // namespace addnorm::model
