// Every registered key is read and changes what it says it changes.
#include "addnorm/model/keys.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <map>
#include <set>

#include "addnorm/model/init.h"
#include "support.h"

namespace addnorm::test {
namespace {

using model::Effect;
using model::Key;
using Values = std::map<std::string, std::string>;  // path -> TOML text

Values base() {
  return {{"model.kind", "\"decoder\""},  {"model.layers", "2"},
          {"model.width", "16"},          {"model.heads", "4"},
          {"model.vocab", "260"},         {"model.context", "16"},
          {"model.wiring", "\"pre-ln\""}, {"data.source", "\"a.txt\""},
          {"train.steps", "10"},          {"train.lr", "1e-3"}};
}

Values base_for(const Key& key) {
  Values values = base();
  for (const auto& [path, value] : key.with) values[path] = value;
  if (values["model.kind"] == "\"encoder-decoder\"") {
    values.erase("model.layers");
    values["model.encoder_layers"] = values["model.decoder_layers"] = "2";
  }
  const std::string name = key.name();
  // Values that leave room for the second one.
  if (name == "rotary_dim") values["model.head_dim"] = "16";
  if (name.ends_with("wiring_name"))
    values["model.wiring"] = "\"x = x + f(norm(x)); out = norm(x)\"";
  return values;
}

std::string toml(const Values& values) {
  std::map<std::string, std::string> sections;
  for (const auto& [path, value] : values) {
    const size_t dot = path.rfind('.');
    sections[path.substr(0, dot)] += path.substr(dot + 1) + " = " + value + "\n";
  }
  std::string text;
  for (const auto& [section, lines] : sections) text += "[" + section + "]\n" + lines;
  return text;
}

struct Dump {
  std::string text;
  void add(const nodes::Scalar& s) { text += fmt::format(" {}@{}", s.value, s.schedule); }
  void operator()(const nodes::Norm& n) {
    text += fmt::format("norm {} {} {} {} {} {}", static_cast<int>(n.kind), n.width, n.eps,
                        n.affine, n.bias, n.unit_offset);
  }
  void operator()(const nodes::Rotary& r) {
    text += fmt::format("rotary {} {} {} {}", r.head_dim, r.rotary_dim, r.base, r.interleaved);
  }
  void operator()(const nodes::Attention& a) {
    text += fmt::format("attention {} {} {} {} {} {} {} {}", a.heads, a.kv_heads, a.head_dim,
                        a.softcap, a.causal, a.alibi, a.buckets, a.distance);
    add(a.scale);
  }
  void operator()(const nodes::Sum& s) {
    text += "sum";
    add(s.constant);
    for (const auto& weight : s.weights) add(weight);
  }
  void operator()(const nodes::Unary& u) {
    text += fmt::format("unary {}", static_cast<int>(u.kind));
    add(u.low);
    add(u.high);
  }
  template <class Op>
  void operator()(const Op&) {
    text += Op::name;
  }
};

std::string parameters_of(const graph::Graph& graph) {
  std::string text;
  for (const auto& parameter : graph.parameters) {
    text += fmt::format("{} {}\n", parameter.name, fmt::join(parameter.dims, "x"));
  }
  return text;
}

std::string nodes_of(const graph::Graph& graph) {
  Dump dump;
  for (const auto& node : graph.nodes) {
    std::visit(dump, node.op);
    dump.text += fmt::format(" [{}]\n", fmt::join(node.inputs, " "));
  }
  for (const auto& parameter : graph.parameters) dump.text += fmt::format("{} ", parameter.start);
  return dump.text;
}

std::string rules_of(const model::Specification& spec, const graph::Graph& graph) {
  std::string text;
  for (const auto& rule : model::init_rules(spec, shape_of(spec), graph)) {
    text += fmt::format("{} {} {}\n", static_cast<int>(rule.kind), rule.value, rule.offset);
  }
  return text;
}

TEST(Keys, EachIsReadAndChangesWhatItSays) {
  std::map<Effect, int> proved;
  for (const Key& key : model::keys()) {
    SCOPED_TRACE(key.path);
    Values values = base_for(key);
    values.erase(key.path);
    // A required key keeps its base value where the second one replaces it.
    const Values all = base_for(key);
    if (all.contains(key.path)) values[key.path] = all.at(key.path);
    const auto first = parsed(toml(values), {}, model::Needs::training);
    values[key.path] = key.second;
    const auto second = parsed(toml(values), {}, model::Needs::training);
    ASSERT_NE(key.second, "");
    EXPECT_NE(key.read(first), key.read(second));
    EXPECT_EQ(second.sources.at(key.path), model::Source::file);
    // The same by a flag.
    values.erase(key.path);
    if (all.contains(key.path)) values[key.path] = all.at(key.path);
    const auto flagged = parsed(toml(values), {{key.path, key.second}}, model::Needs::training);
    EXPECT_EQ(key.read(flagged), key.read(second));
    EXPECT_EQ(flagged.sources.at(key.path), model::Source::flag);

    const auto before = graph_of(first), after = graph_of(second);
    ++proved[key.effect];
    switch (key.effect) {
      case Effect::parameters:
        EXPECT_NE(parameters_of(before), parameters_of(after));
        break;
      case Effect::graph:
        EXPECT_NE(nodes_of(before), nodes_of(after));
        break;
      case Effect::init:
        EXPECT_NE(rules_of(first, before), rules_of(second, after));
        break;
      // Of these the graph is the same; tests/data and tests/train prove what they do.
      case Effect::loading:
      case Effect::data:
      case Effect::training:
        EXPECT_EQ(parameters_of(before), parameters_of(after));
        EXPECT_EQ(nodes_of(before), nodes_of(after));
        break;
    }
  }
  EXPECT_EQ(proved[Effect::parameters] + proved[Effect::graph] + proved[Effect::loading], 38);
  EXPECT_EQ(proved[Effect::init], 18);
  EXPECT_EQ(proved[Effect::data], 8);
  EXPECT_EQ(proved[Effect::training], 24 + 2 * 18);
}

TEST(Keys, EachIsComplete) {
  std::set<std::string> paths;
  for (const Key& key : model::keys()) {
    SCOPED_TRACE(key.path);
    EXPECT_TRUE(paths.insert(key.path).second);
    EXPECT_NE(key.help, "");
    EXPECT_NE(key.default_text(), "");
    EXPECT_TRUE(model::is_section(key.section()));
    for (const std::string& text : {key.standard, key.listing, key.second}) {
      if (text.empty()) continue;
      const auto value = model::read_toml_value(text);
      ASSERT_TRUE(value) << text;
      EXPECT_EQ(key.judge(*value), "") << text;
    }
    EXPECT_NE(key.listing + key.standard, "");
  }
}

TEST(Keys, RangesHoldAtTheirEnds) {
  for (const Key& key : model::keys()) {
    if (key.type != model::KeyType::integer && key.type != model::KeyType::number) continue;
    SCOPED_TRACE(key.path);
    const auto judged = [&](double value) {
      model::TomlValue toml;
      toml.kind = key.type == model::KeyType::integer ? model::TomlValue::Kind::integer
                                                      : model::TomlValue::Kind::number;
      toml.number = value;
      toml.integer = static_cast<int64_t>(value);
      return key.judge(toml);
    };
    if (std::isfinite(key.low)) {
      EXPECT_EQ(judged(key.low).empty(), !key.low_open);
      EXPECT_NE(judged(key.low - 1), "");
    }
    if (std::isfinite(key.high)) {
      EXPECT_EQ(judged(key.high).empty(), !key.high_open);
      EXPECT_NE(judged(key.high * 2), "");
    }
    EXPECT_NE(judged(std::numeric_limits<double>::quiet_NaN()), "");
    EXPECT_NE(judged(std::numeric_limits<double>::infinity()), "");
  }
}

TEST(Keys, RolesOfOneStack) {
  const std::string pair =
      "[model]\nkind = \"encoder-decoder\"\nencoder_layers = 1\ndecoder_layers = 1\nwidth = 16\n"
      "heads = 4\nvocab = 256\ncontext = 16\nwiring = \"x = x + f(norm(x)); out = norm(x)\"\n";
  for (const char* init : {"encoder.q = \"normal(0.5)\"\n", "\"encoder.q\" = \"normal(0.5)\"\n"}) {
    const auto spec = parsed(pair + "[init]\nq = \"normal(0.25)\"\n" + init);
    const auto graph = graph_of(spec);
    const auto rules = model::init_rules(spec, shape_of(spec), graph);
    int seen = 0;
    for (size_t i = 0; i < rules.size(); ++i) {
      const std::string& name = graph.parameters[i].name;
      if (name == "encoder.blocks.0.attn.q.weight") seen += rules[i].value == 0.5;
      if (name == "decoder.blocks.0.attn.q.weight") seen += rules[i].value == 0.25;
      if (name == "decoder.blocks.0.cross.q.weight") seen += rules[i].value == 0.02;
    }
    EXPECT_EQ(seen, 3);
  }
  EXPECT_EQ(model::find_key("init.encoder.default"), nullptr);
  EXPECT_EQ(model::find_key("init.encoder.encoder.q"), nullptr);
}

}  // namespace
}  // namespace addnorm::test
