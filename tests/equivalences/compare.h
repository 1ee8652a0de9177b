// Two programs on the same weights, compared in loss, logits and every gradient (catalogue.md,
// "Equivalences to test").
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>
#include <map>
#include <string>
#include <vector>

#include "addnorm/base/random.h"
#include "addnorm/engine/engine.h"
#include "addnorm/formula/catalogue.h"
#include "addnorm/graph/lower.h"
#include "engine/models.h"

namespace addnorm::equivalences {

using Values = std::vector<double>;
using Weights = std::map<std::string, Values>;

inline constexpr double infinity = std::numeric_limits<double>::infinity();

inline std::string catalogue_formula(const std::string& name) {
  return formula::resolve(name, formula::Stack::decoder, formula::Catalogue::builtin()).text;
}

// `text` with every `from` replaced; one that does not occur is a mistake of the test.
inline std::string replaced(std::string text, const std::string& from, const std::string& to) {
  size_t at = text.find(from);
  EXPECT_NE(at, std::string::npos) << "no `" << from << "` in " << text;
  for (; at != std::string::npos; at = text.find(from, at + to.size())) {
    text.replace(at, from.size(), to);
  }
  return text;
}

// A decoder of three layers with layernorm at eps 0; `wiring` is a name or a formula.
inline graph::ModelShape model(const std::string& wiring, int layers = 3) {
  const auto resolved =
      formula::resolve(wiring, formula::Stack::decoder, formula::Catalogue::builtin());
  graph::ModelShape shape =
      testing_models::small_shape(graph::ModelKind::decoder, resolved.text, layers);
  shape.decoder.let_overrides = resolved.let_overrides;
  shape.norm_eps = 0;
  return shape;
}

inline size_t elements(const graph::Parameter& parameter) {
  return static_cast<size_t>(parameter.size());
}

// Matrices N(0, 0.3^2) by name, the rest at their start values moved by N(0, 0.1^2), so that no gain
// is 1 and no bias 0 by chance; `param`s stay at their start.
inline Weights draw(const graph::ModelShape& shape, uint64_t seed = 5) {
  Weights weights;
  for (const graph::Parameter& parameter : graph::lower(shape).parameters) {
    const Random random(seed, parameter.name);
    Values& values = weights[parameter.name];
    for (size_t i = 0; i < elements(parameter); ++i) {
      const double noise = random.normal(i);
      values.push_back(parameter.matrix                       ? 0.3 * noise
                       : parameter.role == graph::Role::param ? parameter.start
                                                              : parameter.start + 0.1 * noise);
    }
  }
  return weights;
}

struct Outcome {
  double loss = 0;
  Values logits;
  Weights gradients;
  std::map<std::string, Values> points, point_gradients;
};

inline Outcome compute(const graph::ModelShape& shape, const Weights& weights, double t = infinity,
                       bool training = false) {
  const graph::Graph graph = graph::lower(shape);
  auto engine = engine::make_reference<double>(graph);
  for (size_t i = 0; i < graph.parameters.size(); ++i) {
    const auto found = weights.find(graph.parameters[i].name);
    if (found == weights.end() || found->second.size() != engine->parameter(i).size()) {
      ADD_FAILURE() << "no weights for " << graph.parameters[i].name;
      return {};
    }
    std::copy(found->second.begin(), found->second.end(), engine->parameter(i).begin());
  }
  engine::Request request;
  request.t = t;
  request.training = training;
  request.dropout_seed = 3;
  request.keep_logits = true;
  for (const auto& [name, id] : graph.points) request.points.push_back(id);
  Outcome outcome;
  outcome.loss = engine->run(testing_models::make_batch(shape, 2, 5, true), request);
  const auto copy = [](auto span) { return Values(span.begin(), span.end()); };
  outcome.logits = copy(engine->logits());
  for (size_t i = 0; i < graph.parameters.size(); ++i) {
    outcome.gradients[graph.parameters[i].name] = copy(engine->gradient(i));
  }
  for (const auto& [name, id] : graph.points) {
    outcome.points[name] = copy(engine->point(id));
    outcome.point_gradients[name] = copy(engine->point_gradient(id));
  }
  return outcome;
}

inline double largest(const Values& values) {
  double most = 0;
  for (const double value : values) most = std::max(most, std::abs(value));
  return most;
}
inline double largest(const Weights& weights) {
  double most = 0;
  for (const auto& [name, values] : weights) most = std::max(most, largest(values));
  return most;
}
inline double distance(const Values& a, const Values& b) {
  if (a.size() != b.size()) return infinity;
  double most = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    const double off = std::abs(a[i] - b[i]);
    most = off <= most ? most : off;  // a NaN stays
  }
  return most;
}

constexpr double tolerance = 1e-9;

inline void expect_same_function(const Outcome& a, const Outcome& b) {
  EXPECT_NEAR(a.loss, b.loss, tolerance);
  EXPECT_LE(distance(a.logits, b.logits), tolerance * largest(a.logits));
}

// Gradients of `a` under their names in `b`; those for which the function gives "" have no partner.
// They are compared on the scale of the largest one, which is not 0.
using Renamed = std::function<std::string(const std::string&)>;
inline std::string same_name(const std::string& name) { return name; }
inline void expect_same(const Outcome& a, const Outcome& b, const Renamed& renamed = same_name) {
  expect_same_function(a, b);
  const double scale = largest(a.gradients);
  EXPECT_GT(scale, 1e-3);
  for (const auto& [name, gradient] : a.gradients) {
    const std::string other = renamed(name);
    if (other.empty()) continue;
    const auto found = b.gradients.find(other);
    ASSERT_NE(found, b.gradients.end()) << other;
    EXPECT_LE(distance(gradient, found->second), tolerance * scale) << name;
  }
}

// The weights that model `b` gets from those of `a`; parameters without a partner keep `rest`.
inline Weights carried(const Weights& a, Weights rest, const Renamed& renamed = same_name) {
  for (const auto& [name, values] : a) {
    const std::string other = renamed(name);
    if (!other.empty()) rest[other] = values;
  }
  return rest;
}

// "blocks.2.norm.1" and "weight" of "blocks.2.norm.1.weight".
inline std::pair<std::string, std::string> split_last(const std::string& name) {
  const size_t dot = name.rfind('.');
  return {name.substr(0, dot), name.substr(dot + 1)};
}

// Renames whole parts ("blocks.0.norm.1") and keeps what is not in the table.
inline Renamed by_part(std::map<std::string, std::string> table) {
  return [table = std::move(table)](const std::string& name) {
    const auto [part, last] = split_last(name);
    const auto found = table.find(part);
    if (found == table.end()) return name;
    return found->second.empty() ? std::string() : found->second + "." + last;
  };
}

inline std::string norm_name(int layer, int number) {
  return "blocks." + std::to_string(layer) + ".norm." + std::to_string(number);
}

}  // namespace addnorm::equivalences
