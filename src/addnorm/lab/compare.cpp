#include "addnorm/lab/compare.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>

#include "addnorm/base/files.h"
#include "addnorm/base/text.h"
#include "addnorm/formula/scalar.h"
#include "addnorm/lab/run.h"
#include "addnorm/model/init.h"
#include "addnorm/model/init_rule.h"
#include "addnorm/model/keys.h"
#include "addnorm/model/shape.h"

namespace addnorm::lab {
namespace {

using Values = std::map<std::string, std::string>;

struct Side {
  model::Specification specification;
  std::optional<RunRecord> run;
  graph::ModelShape shape;
  graph::Graph graph;
};

Side read_side(const fs::path& path, const formula::Catalogue& catalogue) {
  Side side;
  if (fs::is_directory(path)) {
    if (!is_run(path)) {
      fail_input(path.string(),
                 "expected a specification (a TOML file) or the folder of a run, got a folder "
                 "without spec.toml");
    }
    side.run = read_run(path, catalogue);
    side.specification = side.run->specification;
  } else {
    side.specification = model::load(path, {}, model::Needs::model, catalogue);
  }
  side.shape = model::shape(side.specification, catalogue);
  side.graph = graph::lower(side.shape);
  return side;
}

// Every value by its key; an initialization rule by its role.
Values values_of(const model::Specification& specification) {
  Values values;
  for (const model::Key& key : model::keys()) {
    if (key.section() == "init") continue;
    if (const std::string text = key.read(specification); !text.empty()) values[key.path] = text;
  }
  for (const auto& [role, rule] : specification.init) values["init." + role] = rule;
  return values;
}

void differing(const Values& a, const Values& b, std::vector<Difference>* to) {
  std::set<std::string> names;
  for (const auto& [name, value] : a) names.insert(name);
  for (const auto& [name, value] : b) names.insert(name);
  for (const std::string& name : names) {
    const auto in_a = a.find(name), in_b = b.find(name);
    const std::string first = in_a == a.end() ? "-" : in_a->second;
    const std::string second = in_b == b.end() ? "-" : in_b->second;
    if (first != second) to->push_back({name, first, second});
  }
}

std::string number(double value) { return fmt::format("{:.6g}", value); }

std::string role_of(const graph::Parameter& parameter) {
  const std::string side = parameter.side == graph::StackSide::encoder   ? "encoder."
                           : parameter.side == graph::StackSide::decoder ? "decoder."
                                                                         : "";
  return side + graph::role_name(parameter.role);
}

struct RoleInit {
  std::string text;            // the rule
  double least = 0, most = 0;  // target standard deviation over its tensors
  std::string spread() const {
    return least == most ? number(least) : number(least) + ".." + number(most);
  }
};

std::map<std::string, RoleInit> inits_of(const Side& side) {
  std::map<std::string, RoleInit> roles;
  const auto rules = model::init_rules(side.specification, side.shape, side.graph);
  for (size_t i = 0; i < rules.size(); ++i) {
    const graph::Parameter& parameter = side.graph.parameters[i];
    if (!parameter.matrix) continue;
    const double std = rules[i].target_std();
    const auto [at, fresh] =
        roles.try_emplace(role_of(parameter), RoleInit{rules[i].text, std, std});
    if (fresh) continue;
    at->second.least = std::min(at->second.least, std);
    at->second.most = std::max(at->second.most, std);
  }
  return roles;
}

bool reads_depth(const formula::Expr& expression) {
  for (const char* name : {"L", "S", "N", "M", "l"}) {
    if (formula::reads(expression, name)) return true;
  }
  return false;
}

// Scalars of the formula that depend on depth: "(2*L)^(1/4)" -> 1.86.
Values factors_of(const graph::StackProgram& stack, const formula::Scalars& scalars,
                  const std::string& prefix) {
  Values factors;
  const auto look = [&](const formula::ExprPtr& expression) {
    formula::visit(*expression, [&](const formula::Expr& part) {
      if (part.kind == formula::Expr::Kind::name || part.kind == formula::Expr::Kind::number)
        return;
      if (!reads_depth(part)) return;
      const auto value = formula::evaluate(part, scalars);
      if (!value) return;
      const std::string text = formula::print(part);
      for (const auto& [known, ignored] : factors) {  // a part of one that is listed
        if (known.find(text) != std::string::npos) return;
      }
      factors[prefix + "formula: " + text] = number(*value);
    });
  };
  const auto look_all = [&](const std::vector<formula::Statement>& statements) {
    for (const formula::Statement& statement : statements) {
      for (const auto& value : statement.values) look(value);
    }
  };
  look_all(stack.program.let);
  look_all(stack.program.begin);
  for (const formula::Block& block : stack.program.blocks) look_all(block.body);
  look_all(stack.program.end);
  return factors;
}

Values followers_of(const Side& side) {
  Values values;
  values["parameters"] = std::to_string(side.graph.parameter_count());
  for (const graph::Stack& stack : side.graph.stacks) {
    const bool encoder = stack.side == graph::StackSide::encoder;
    const auto branches =
        std::count_if(side.graph.branches.begin(), side.graph.branches.end(),
                      [&](const graph::Branch& b) { return b.side == stack.side; });
    values[stack.prefix + "branches"] = std::to_string(branches);
    const Values factors = factors_of(encoder ? side.shape.encoder : side.shape.decoder,
                                      model::scalars(side.shape, stack.side), stack.prefix);
    values.insert(factors.begin(), factors.end());
  }
  for (const auto& [role, init] : inits_of(side)) values["init std of " + role] = init.spread();
  if (side.specification.train.steps > 0) {
    values["warmup updates"] = std::to_string(model::warmup_steps(side.specification.train));
  }
  return values;
}

// The rule with its argument divided by sqrt(2*L): the variance that 2*L branches add up to is then
// the same at every depth (theory.md, claim 11).
std::string depth_rule(const std::string& text) {
  const model::RuleText rule = model::parse_rule(text);
  return fmt::format("{}({}/sqrt(2*L))", rule.kind, formula::print(*rule.argument));
}

// What writes to the stream and has a rule without depth, where depth changed.
std::vector<std::string> fixed_roles(const Side& a, const Side& b) {
  std::vector<std::string> lines;
  const auto layers = [](const Side& side) { return layers_text(side.specification.model); };
  if (layers(a) == layers(b)) return lines;
  const auto before = inits_of(a), after = inits_of(b);
  for (const auto& [role, init] : after) {
    const std::string plain = role.substr(role.find('.') + 1);
    if (plain != "attn_out" && plain != "ffn_out" && plain != "cross_out") continue;
    const auto was = before.find(role);
    if (was == before.end() || was->second.spread() != init.spread()) continue;
    const model::RuleText rule = model::parse_rule(init.text);
    if (reads_depth(*rule.argument)) continue;
    lines.push_back(
        fmt::format("{} does not follow the depth: {} stays at std {}; {} would make it follow",
                    role, init.text, init.spread(), depth_rule(init.text)));
  }
  return lines;
}

void flatten(const nlohmann::json& value, const std::string& name, Values* to) {
  if (value.is_object()) {
    for (const auto& [key, inner] : value.items())
      flatten(inner, name.empty() ? key : name + "." + key, to);
  } else {
    (*to)[name] = value.is_string() ? value.get<std::string>() : value.dump();
  }
}

Values environment_of(const RunRecord& run) {
  Values values;
  const auto json = nlohmann::json::parse(run.environment, nullptr, false);
  if (json.is_object()) flatten(json, "", &values);
  return values;
}

void compare_curves(const RunRecord& a, const RunRecord& b, Comparison* to) {
  std::map<int64_t, double> in_b;
  for (const StepRecord& step : b.metrics.steps) in_b[step.step] = step.loss;
  std::vector<int64_t> common;
  std::optional<int64_t> parting;
  for (const StepRecord& step : a.metrics.steps) {
    const auto other = in_b.find(step.step);
    if (other == in_b.end()) continue;
    common.push_back(step.step);
    const bool same =
        step.loss == other->second || (std::isnan(step.loss) && std::isnan(other->second));
    if (!same && !parting) parting = step.step;
  }
  const auto mean = [](const RunRecord& run, int64_t step) {
    return step == 0 ? number(run.metrics.steps.front().loss)
                     : fmt::format("{:.4f}", mean_loss(run.metrics.steps, step));
  };
  for (int part = 0; part <= 4 && !common.empty(); ++part) {
    const int64_t step = common[(common.size() - 1) * static_cast<size_t>(part) / 4];
    to->curves.push_back({fmt::format("training loss to update {} (mean of at most 20)", step),
                          mean(a, step), mean(b, step)});
  }
  const auto val = [](const RunRecord& run) {
    return run.metrics.evals.empty() ? std::string("-")
                                     : fmt::format("{:.4f}", run.metrics.evals.back().val_loss);
  };
  to->curves.push_back({"last validation loss", val(a), val(b)});
  to->curves.push_back({"outcome", outcome_name(a.outcome()), outcome_name(b.outcome())});
  if (common.empty()) {
    to->remarks.emplace_back("the two runs have no update in common");
  } else if (!parting) {
    to->remarks.push_back(fmt::format(
        "the losses are the same in every digit over all {} common updates", common.size()));
  } else {
    to->remarks.push_back(fmt::format("the losses differ from update {} on", *parting));
  }
  for (const RunRecord* run : {&a, &b}) {
    if (run->ended()) continue;
    to->remarks.push_back(fmt::format("{} did not end: {} of {} updates", run->folder.string(),
                                      run->metrics.last_step(), run->planned_steps()));
  }
}

// Facts about the machine that decide the bytes (design.md section 6).
bool decides_bytes(const std::string& name) {
  return name == "threads" || name == "instruction_set";
}

}  // namespace

Comparison compare(const fs::path& a, const fs::path& b, const formula::Catalogue& catalogue) {
  const Side first = read_side(a, catalogue), second = read_side(b, catalogue);
  Comparison result;
  differing(values_of(first.specification), values_of(second.specification), &result.keys);
  differing(followers_of(first), followers_of(second), &result.follows);
  result.fixed = fixed_roles(first, second);
  for (const Side* side : {&first, &second}) {
    for (const std::string& line : changed_wirings(side->specification)) {
      result.remarks.push_back(side->specification.file + ": " + line);
    }
    if (side->run && side->run->metrics.absent) {
      result.remarks.push_back((side->run->folder / "metrics.jsonl").string() +
                               " is missing; put it back from a copy to compare losses");
    }
  }
  if (!first.run || !second.run) return result;
  differing(environment_of(*first.run), environment_of(*second.run), &result.machine);
  compare_curves(*first.run, *second.run, &result);
  for (const Difference& difference : result.machine) {
    if (!decides_bytes(difference.name)) continue;
    result.remarks.push_back(fmt::format(
        "{} differs ({} and {}): a reason for differing bytes, sums are taken in another order",
        difference.name, difference.a, difference.b));
  }
  return result;
}

}  // namespace addnorm::lab
