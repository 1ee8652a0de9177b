// Times: step i of F computes at time i, the head at F, the backward pass of step i at 2F - i.
#include "addnorm/graph/plan.h"

#include <algorithm>
#include <limits>
#include <map>

#include "addnorm/base/error.h"

namespace addnorm::graph {
namespace {

constexpr int never = std::numeric_limits<int>::max();

// What the backward pass of a node reads besides the gradient of its output; parameters left out.
std::vector<ValueId> saved_values(const Node& node) {
  struct Saved {
    const Node& n;
    std::vector<ValueId> operator()(const nodes::Norm&) const { return {n.inputs[0]}; }
    std::vector<ValueId> operator()(const nodes::Linear&) const { return {n.inputs[0]}; }
    std::vector<ValueId> operator()(const nodes::Attention&) const {
      return {n.inputs[0], n.inputs[1], n.inputs[2], n.output};
    }
    std::vector<ValueId> operator()(const nodes::HeadScale&) const { return n.inputs; }
    std::vector<ValueId> operator()(const nodes::Binary&) const { return n.inputs; }
    std::vector<ValueId> operator()(const nodes::Dot&) const { return n.inputs; }
    std::vector<ValueId> operator()(const nodes::Unary&) const { return n.inputs; }
    std::vector<ValueId> operator()(const nodes::Rms&) const { return {n.inputs[0], n.output}; }
    std::vector<ValueId> operator()(const nodes::Embedding&) const { return {}; }
    std::vector<ValueId> operator()(const nodes::SinusoidalPositions&) const { return {}; }
    std::vector<ValueId> operator()(const nodes::Rotary&) const { return {}; }
    std::vector<ValueId> operator()(const nodes::Sum&) const { return {}; }
    std::vector<ValueId> operator()(const nodes::Detach&) const { return {}; }
    std::vector<ValueId> operator()(const nodes::Drop&) const { return {}; }
    std::vector<ValueId> operator()(const nodes::CrossEntropy&) const { return {}; }
  };
  return std::visit(Saved{node}, node.op);
}

struct Item {  // a buffer that several values or gradients may share
  int64_t floats = 0;
  int start = never;
  int end = -1;
  int64_t offset = no_buffer;
};

struct Access {  // to one gradient
  int time;
  bool write;
};

class Planner {
 public:
  Planner(const Graph& graph, const PlanRequest& request)
      : graph_(graph),
        request_(request),
        wanted_(graph.needs_gradient()),
        accesses_(graph.values.size()),
        group_(graph.values.size()) {
    for (Step& step : fuse(graph))
      plan_.steps.push_back({std::move(step), no_buffer, {}, {}, {}, false});
    head_ = static_cast<int>(plan_.steps.size()) - 1;
    plan_.value.assign(graph.values.size(), no_buffer);
    plan_.gradient.assign(graph.values.size(), no_buffer);
    for (size_t v = 0; v < group_.size(); ++v) group_[v] = static_cast<int>(v);
  }

  Plan run() {
    mark_barriers();
    plan_values();
    if (request_.backward) {
      list_gradients();
      share_gradients();
    }
    place_all();
    return std::move(plan_);
  }

 private:
  const Node& node(int n) const { return graph_.nodes[static_cast<size_t>(n)]; }
  const Node& node(const Step& step, size_t i) const { return node(step.nodes[i]); }
  bool in_arena(ValueId id) const { return graph_.shape(id).per_token(); }
  bool wanted(ValueId id) const { return wanted_[static_cast<size_t>(id)]; }
  int backward_time(int step) const { return 2 * head_ - step; }
  int last_time() const { return 2 * head_ + 1; }

  int64_t floats(const Shape& shape, int64_t cols) const {
    const int64_t rows = shape.rows == Rows::source ? request_.source_rows : request_.target_rows;
    return (rows * cols + 15) / 16 * 16;
  }

  void mark_barriers() {
    if (!request_.shared_matrices || !request_.backward) return;
    for (int s = 0; s <= head_; ++s) {
      StepPlan& step = plan_.steps[static_cast<size_t>(s)];
      for (const int n : step.step.nodes) {
        const bool matrix = std::holds_alternative<nodes::Linear>(node(n).op) ||
                            std::holds_alternative<nodes::Embedding>(node(n).op);
        step.barrier = step.barrier || (matrix && wanted(node(n).output));
      }
    }
  }

  // Where other threads read a buffer at a step with a barrier, it must stay until the next barrier.
  int shared_read(int step) const {
    if (!plan_.steps[static_cast<size_t>(step)].barrier) return backward_time(step);
    for (int s = step - 1; s >= 0; --s) {
      if (plan_.steps[static_cast<size_t>(s)].barrier) return backward_time(s);
    }
    return last_time();
  }

  void plan_values() {
    values_.assign(graph_.values.size(), {});
    for (int s = 0; s <= head_; ++s) {
      StepPlan& step = plan_.steps[static_cast<size_t>(s)];
      const bool head = s == head_;
      for (const int n : step.step.nodes) {
        for (const ValueId input : node(n).inputs) use_value(input, s);
        const bool hidden = step.step.kind == Step::Kind::gated && n == step.step.nodes[2];
        if (!head && !hidden) {
          Item& item = values_[static_cast<size_t>(node(n).output)];
          item.floats = in_arena(node(n).output) ? floats(graph_.shape(node(n).output),
                                                          graph_.shape(node(n).output).cols)
                                                 : 0;
          item.start = s;
          item.end = std::max(item.end, request_.kept.count(node(n).output) > 0 ? last_time() : s);
        }
        if (!request_.backward || !wanted(node(n).output)) continue;
        for (const ValueId input : saved_values(node(n))) use_value(input, shared_read(s));
      }
      const int64_t stats = stats_per_row(graph_, step.step);
      if (stats == 0 || !request_.backward) {
        if (stats > 0) add_stats(s, stats, s);
      } else {
        add_stats(s, stats, backward_time(s));
      }
    }
  }
  void use_value(ValueId id, int time) {
    Item& item = values_[static_cast<size_t>(id)];
    item.end = std::max(item.end, time);
  }
  void add_stats(int step, int64_t per_row, int end) {
    const Node& last = node(plan_.steps[static_cast<size_t>(step)].step.nodes.back());
    stats_.push_back({step, {floats(graph_.shape(last.output), per_row), step, end, no_buffer}});
  }

  void list_gradients() {
    for (int s = head_; s >= 0; --s) {
      StepPlan& step = plan_.steps[static_cast<size_t>(s)];
      const std::vector<int>& members = step.step.nodes;
      const int time = backward_time(s);
      if (!wanted(node(members.back()).output)) continue;
      const bool by_others = step.step.kind == Step::Kind::single;
      if (s != head_) read_gradient(node(members.back()).output, by_others ? shared_read(s) : time);
      switch (step.step.kind) {
        case Step::Kind::head:
          write_inputs(step, node(step.step, 0), time, 1);
          break;
        case Step::Kind::single:
          write_inputs(step, node(step.step, 0), time, node(step.step, 0).inputs.size());
          break;
        case Step::Kind::add_norm: {
          const ValueId sum = node(step.step, 0).output;
          write_gradient(step, sum, time);
          read_gradient(sum, time);
          write_inputs(step, node(step.step, 0), time, 2);
          break;
        }
        case Step::Kind::linear_activation:
          write_inner(step, 0, s, time);
          write_inputs(step, node(step.step, 0), time, 1);
          break;
        case Step::Kind::gated:
          write_inner(step, 0, s, time);
          write_inner(step, 1, s, time);
          write_inputs(step, node(step.step, 0), time, 1);
          write_inputs(step, node(step.step, 1), time, 1);
          break;
      }
    }
    for (const ValueId id : request_.kept) {
      if (in_arena(id) && !accesses_[static_cast<size_t>(id)].empty())
        read_gradient(id, last_time());
    }
  }
  // The gradient of a linear map inside a group: written by the group, read by it and other threads.
  void write_inner(StepPlan& step, size_t member, int s, int time) {
    const ValueId id = node(step.step, member).output;
    write_gradient(step, id, time);
    read_gradient(id, shared_read(s));
  }
  void write_inputs(StepPlan& step, const Node& of, int time, size_t count) {
    if (std::holds_alternative<nodes::Detach>(of.op)) return;
    for (size_t i = 0; i < count; ++i) {
      if (in_arena(of.inputs[i]) && wanted(of.inputs[i])) write_gradient(step, of.inputs[i], time);
    }
  }
  void write_gradient(StepPlan& step, ValueId id, int time) {
    auto& list = accesses_[static_cast<size_t>(id)];
    step.gradient_inputs.push_back(id);
    step.accumulate.push_back(!list.empty());
    step.aliased.push_back(false);
    list.push_back({time, true});
  }
  void read_gradient(ValueId id, int time) {
    accesses_[static_cast<size_t>(id)].push_back({time, false});
  }

  // A sum passes its gradient on unchanged to addends with coefficient 1: they share its buffer
  // where no later write to one of them is seen by another.
  void share_gradients() {
    for (int s = head_ - 1; s >= 0; --s) {
      StepPlan& step = plan_.steps[static_cast<size_t>(s)];
      const Step::Kind kind = step.step.kind;
      if (kind == Step::Kind::head) continue;
      const Node& first = node(step.step, 0);
      const int time = backward_time(s);
      for (size_t i = 0; i < step.gradient_inputs.size(); ++i) {
        const ValueId input = step.gradient_inputs[i];
        if (step.accumulate[i]) continue;
        ValueId source = -1;
        if (const auto* sum = std::get_if<nodes::Sum>(&first.op);
            sum != nullptr && input != first.output && shares_weight(*sum, first, input)) {
          source = first.output;
        } else if (kind == Step::Kind::linear_activation && input == first.output) {
          source = node(step.step, 1).output;
        } else if (kind == Step::Kind::gated && input == node(step.step, 1).output) {
          source = node(step.step, 3).output;
        }
        const bool in_place =
            source >= 0 && kind != Step::Kind::single && kind != Step::Kind::add_norm;
        if (source < 0 || (in_place && read_after(source, time))) continue;
        if (!may_share(source, input, time)) continue;
        join(source, input);
        step.aliased[i] = true;
      }
    }
  }
  // A slope times the gradient takes its place: what stood there must not be wanted later.
  bool read_after(ValueId source, int time) const {
    for (size_t v = 0; v < group_.size(); ++v) {
      if (group_[v] != root(source)) continue;
      for (const Access& access : accesses_[v]) {
        if (access.time > time) return true;
      }
    }
    return false;
  }
  bool shares_weight(const nodes::Sum& sum, const Node& of, ValueId input) const {
    int count = 0;
    bool one = false;
    for (size_t i = 0; i < of.inputs.size(); ++i) {
      if (of.inputs[i] != input) continue;
      ++count;
      one = sum.weights[i] == Scalar{1};
    }
    return count == 1 && one && graph_.shape(input) == graph_.shape(of.output);
  }
  bool may_share(ValueId source, ValueId input, int time) const {
    std::vector<ValueId> members;
    for (size_t v = 0; v < group_.size(); ++v) {
      if (group_[v] == root(source) || group_[v] == root(input))
        members.push_back(static_cast<ValueId>(v));
    }
    for (const ValueId writer : members) {
      int first_write = never;
      for (const Access& access : accesses_[static_cast<size_t>(writer)]) {
        // The write at `time` is the one that sharing saves.
        const bool saved = access.time == time && writer == input;
        if (access.write && access.time >= time && !saved)
          first_write = std::min(first_write, access.time);
      }
      // The sum inside add_norm is finished at `time`, before its addends are.
      if (writer == source && first_write == time) first_write = never;
      for (const ValueId other : members) {
        if (other == writer) continue;
        for (const Access& access : accesses_[static_cast<size_t>(other)]) {
          if (access.time >= first_write) return false;
        }
      }
    }
    return true;
  }
  int root(ValueId id) const { return group_[static_cast<size_t>(id)]; }
  void join(ValueId a, ValueId b) {
    const int from = root(b), to = root(a);
    for (int& group : group_) {
      if (group == from) group = to;
    }
  }

  void place_all() {
    std::map<int, Item> gradients;
    for (size_t v = 0; v < graph_.values.size(); ++v) {
      if (accesses_[v].empty()) continue;
      Item& item = gradients[group_[v]];
      item.floats = floats(graph_.values[v].shape, graph_.values[v].shape.cols);
      for (const Access& access : accesses_[v]) {
        item.start = std::min(item.start, access.time);
        item.end = std::max(item.end, access.time);
      }
    }
    std::vector<Item*> items;
    for (size_t v = 0; v < values_.size(); ++v) {
      if (values_[v].floats > 0) items.push_back(&values_[v]);
    }
    for (auto& [group, item] : gradients) items.push_back(&item);
    for (auto& [step, item] : stats_) items.push_back(&item);
    place(items);
    for (size_t v = 0; v < values_.size(); ++v) plan_.value[v] = values_[v].offset;
    for (size_t v = 0; v < values_.size(); ++v) {
      if (!accesses_[v].empty()) plan_.gradient[v] = gradients[group_[v]].offset;
    }
    for (const auto& [step, item] : stats_)
      plan_.steps[static_cast<size_t>(step)].stats = item.offset;
  }

  // Largest first, each at the lowest place that is free during its whole life.
  void place(std::vector<Item*>& items) {
    std::stable_sort(items.begin(), items.end(),
                     [](const Item* a, const Item* b) { return a->floats > b->floats; });
    std::vector<const Item*> placed;  // by offset
    for (Item* item : items) {
      int64_t at = 0;
      for (const Item* other : placed) {
        if (other->end < item->start || item->end < other->start) continue;
        if (other->offset >= at + item->floats) break;
        at = std::max(at, other->offset + other->floats);
      }
      item->offset = at;
      const auto spot =
          std::upper_bound(placed.begin(), placed.end(), item,
                           [](const Item* a, const Item* b) { return a->offset < b->offset; });
      placed.insert(spot, item);
      plan_.floats = std::max(plan_.floats, at + item->floats);
    }
  }

  const Graph& graph_;
  const PlanRequest& request_;
  const std::vector<bool> wanted_;
  Plan plan_;
  int head_ = 0;
  std::vector<Item> values_;
  std::vector<std::pair<int, Item>> stats_;
  std::vector<std::vector<Access>> accesses_;  // per gradient, in order of time
  std::vector<int> group_;                     // gradients that share a buffer
};

}  // namespace

int64_t stats_per_row(const Graph& graph, const Step& step) {
  const Node& last = graph.nodes[static_cast<size_t>(step.nodes.back())];
  if (const auto* norm = std::get_if<nodes::Norm>(&last.op)) {
    return 2 * graph.shape(last.output).cols / norm->width;
  }
  if (const auto* attention = std::get_if<nodes::Attention>(&last.op)) return attention->heads;
  return 0;
}

Plan make_plan(const Graph& graph, const PlanRequest& request) {
  return Planner(graph, request).run();
}

}  // namespace addnorm::graph
