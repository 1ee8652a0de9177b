// Reachability by one backward sweep: a node's arguments always have smaller numbers.
#include "addnorm/formula/check_flow.h"

#include <fmt/format.h>

#include <map>

#include "addnorm/base/text.h"

namespace addnorm::formula {

int Flow::add(Node node) {
  nodes_.push_back(node);
  return static_cast<int>(nodes_.size()) - 1;
}

int Flow::embed() {
  if (embed_ == nothing) embed_ = add({});
  return embed_;
}

int Flow::merge(int a, int b) {
  if (a == nothing || a == b) return b;
  if (b == nothing) return a;
  return add({a, b, false});
}

int Flow::detach(int a) { return a == nothing ? nothing : add({a, nothing, true}); }

int Flow::branch(int argument, const Expr& call, const std::string& branch, int layer) {
  const int node = add({argument, nothing, false});
  instances_.push_back({node, &call, branch, layer});
  return node;
}

std::vector<char> Flow::reaching(int out, bool through_detach) const {
  std::vector<char> reached(nodes_.size(), 0);
  if (out == nothing) return reached;
  reached[static_cast<size_t>(out)] = 1;
  for (size_t i = static_cast<size_t>(out) + 1; i-- > 0;) {
    const Node& node = nodes_[i];
    if (!reached[i] || (node.detached && !through_detach)) continue;
    if (node.a != nothing) reached[static_cast<size_t>(node.a)] = 1;
    if (node.b != nothing) reached[static_cast<size_t>(node.b)] = 1;
  }
  return reached;
}

void Flow::judge(int out, const Place& out_at, Report& report) const {
  const std::vector<char> reached = reaching(out, true);
  const std::vector<char> trained = reaching(out, false);
  const auto embed = static_cast<size_t>(embed_);
  if (embed_ == nothing || !reached[embed]) {
    report.error(out_at, "embed",
                 "expected `out` to depend on `embed`, got no chain of arguments from `embed` to "
                 "`out`; try an `out` that reads `x`");
  } else if (!trained[embed]) {
    report.error(out_at, "embed detach",
                 "expected a gradient from `out` to `embed`, got a `detach` on every path; try a "
                 "path without one");
  }
  std::map<const Expr*, std::vector<const Instance*>> calls;
  for (const Instance& instance : instances_) calls[instance.call].push_back(&instance);
  for (const auto& [call, instances] : calls) judge_call(instances, reached, trained, report);
}

void Flow::judge_call(const std::vector<const Instance*>& instances,
                      const std::vector<char>& reached, const std::vector<char>& trained,
                      Report& report) const {
  // `lost` instances by layer, for those among `all`; a layer's branches are named where others of
  // the same call in that layer are not lost.
  const auto in_words = [](const std::vector<const Instance*>& lost,
                           const std::vector<const Instance*>& all) {
    std::map<int, size_t> in_layer;
    for (const Instance* instance : all) ++in_layer[instance->layer];
    std::map<int, std::vector<std::string>> lost_in;
    for (const Instance* instance : lost) lost_in[instance->layer].push_back(instance->branch);
    std::vector<int> whole;
    std::vector<std::string> words;
    for (const auto& [layer, branches] : lost_in) {
      if (branches.size() == in_layer[layer]) {
        whole.push_back(layer);
      } else {
        words.push_back(fmt::format("{} ({})", layer, join(branches, ", ")));
      }
    }
    if (!whole.empty()) words.insert(words.begin(), layer_list(whole));
    return (lost_in.size() == 1 ? "layer " : "layers ") + join(words, ", ");
  };
  std::vector<const Instance*> dead, alive, untrained;
  for (const Instance* instance : instances) {
    const auto node = static_cast<size_t>(instance->node);
    (reached[node] ? alive : dead).push_back(instance);
    if (reached[node] && !trained[node]) untrained.push_back(instance);
  }
  const Expr& call = *instances.front()->call;
  const auto tell = [&](const std::vector<const Instance*>& lost, size_t of,
                        const std::string& rule, const std::string& expected,
                        const std::string& all_lost, const std::string& hint) {
    if (lost.empty()) return;
    if (lost.size() == of) {
      report.error(call.at, rule,
                   fmt::format("expected {}, got {}; try {}", expected, all_lost, hint));
    } else {
      report.add(
          Level::warning, call.at, rule,
          fmt::format("expected {}, got {} in {}", expected, all_lost, in_words(lost, instances)));
    }
  };
  tell(dead, instances.size(), "dead branch",
       fmt::format("the result of `{}` to reach `out`", call.name), "no use of it that does",
       "adding it to `x`");
  tell(untrained, alive.size(), "untrained branch",
       fmt::format("a gradient from `out` to `{}`", call.name), "a `detach` on every path",
       "a path without one");
}

std::string layer_list(const std::vector<int>& layers) {
  std::vector<std::string> parts;
  for (size_t i = 0; i < layers.size();) {
    size_t j = i;
    while (j + 1 < layers.size() && layers[j + 1] == layers[j] + 1) ++j;
    if (j == i) {
      parts.push_back(std::to_string(layers[i]));
    } else {
      parts.push_back(fmt::format("{} {} {}", layers[i], j == i + 1 ? "and" : "to", layers[j]));
    }
    i = j + 1;
  }
  return join(parts, ", ");
}

}  // namespace addnorm::formula
