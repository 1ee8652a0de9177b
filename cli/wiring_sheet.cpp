#include "wiring_sheet.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "addnorm/base/text.h"
#include "addnorm/formula/diagram.h"
#include "addnorm/model/init.h"
#include "addnorm/model/static_checks.h"
#include "output.h"

namespace addnorm::cli {
namespace {

using formula::Stack;

constexpr const char* decoder_suffix = "/decoder";
constexpr const char* encoder_suffix = "/encoder";

// Which stack a wiring is for: its name says so, or its cross-attention.
Stack stack_of(const formula::Wiring& wiring) {
  if (wiring.name.ends_with(encoder_suffix)) return Stack::pair_encoder;
  if (wiring.name.ends_with(decoder_suffix)) return Stack::pair_decoder;
  bool crosses = false;
  const auto look = [&](const formula::Expr& e) {
    crosses |= e.name == "cross" && e.kind == formula::Expr::Kind::call;
    crosses |= e.name == "memory" && e.kind == formula::Expr::Kind::name;
  };
  for (const formula::Block& block : wiring.program.blocks) {
    for (const formula::Statement& statement : block.body) {
      for (const formula::ExprPtr& value : statement.values) visit(*value, look);
    }
  }
  return crosses ? Stack::pair_decoder : Stack::decoder;
}

model::Specification specification_for(const std::string& given, const formula::Wiring& wiring,
                                       Stack stack, const formula::Catalogue& catalogue,
                                       const model::Overrides& overrides) {
  model::Overrides keys;
  const bool pair = stack != Stack::decoder;
  const std::string base = wiring.name.substr(0, wiring.name.rfind('/'));
  if (!pair) {
    keys = {{"model.kind", "decoder"}, {"model.layers", "6"}, {"model.wiring", given}};
  } else {
    // The other stack of a formula with cross-attention: a plain one.
    const bool named = catalogue.find(base) != nullptr;
    const std::string other = named ? base : "x = x + f(norm(x));  out = norm(x)";
    keys = {{"model.kind", "encoder-decoder"},
            {"model.encoder_layers", "6"},
            {"model.decoder_layers", "6"},
            {"model.encoder_wiring", stack == Stack::pair_encoder ? given : other},
            {"model.decoder_wiring", stack == Stack::pair_decoder ? given : other}};
  }
  keys.insert(keys.end(), {{"model.width", "256"},
                           {"model.heads", "4"},
                           {"model.vocab", "256"},
                           {"model.context", "256"}});
  // Later ones win, and a key is refused when it is given twice.
  for (const auto& [key, value] : overrides) {
    std::erase_if(keys, [&k = key](const auto& known) { return known.first == k; });
    keys.emplace_back(key, value);
  }
  return model::parse("", "the model of `wirings show`", keys, model::Needs::model, catalogue);
}

// "decoder.blocks.3.attn.q.weight" -> "attn"; "begin.norm.1.weight" -> "norm".
std::string part_of(const graph::Parameter& parameter) {
  std::string name = parameter.name;
  for (const std::string prefix :
       {"encoder.", "decoder.", "blocks.", "begin.", "end.", "shared."}) {
    if (!name.starts_with(prefix)) continue;
    name = name.substr(prefix.size());
    if (prefix == "blocks.") name = name.substr(name.find('.') + 1);
  }
  return name.substr(0, name.find('.'));
}

void add_parameters(const graph::Graph& graph, graph::StackSide side, WiringSheet& sheet) {
  std::map<int, std::map<std::string, int64_t>> by_layer;
  std::map<std::string, int64_t> outside;
  for (const graph::Parameter& parameter : graph.parameters) {
    if (parameter.side != side) continue;
    if (parameter.layer >= 0) {
      by_layer[parameter.layer][part_of(parameter)] += parameter.size();
    } else if (parameter.role != graph::Role::embed && parameter.role != graph::Role::positions &&
               parameter.role != graph::Role::head) {
      outside[part_of(parameter)] += parameter.size();
    }
  }
  int first = 0;
  for (auto at = by_layer.begin(); at != by_layer.end(); ++at) {
    const auto next = std::next(at);
    if (next != by_layer.end() && next->second == at->second) continue;
    LayerParameters group;
    group.layers = first == at->first ? std::to_string(first + 1)
                                      : fmt::format("{}-{}", first + 1, at->first + 1);
    for (const auto& [part, count] : at->second) {
      group.parts.emplace_back(part, count);
      group.total += count;
    }
    sheet.layers.push_back(group);
    first = at->first + 1;
  }
  sheet.outside.assign(outside.begin(), outside.end());
}

// One row for all roles with one rule, in the order of their weights.
void add_init(const std::vector<model::InitRule>& rules, const graph::Graph& graph,
              graph::StackSide side, WiringSheet& sheet) {
  std::vector<graph::Role> seen;
  for (size_t i = 0; i < graph.parameters.size(); ++i) {
    const graph::Parameter& parameter = graph.parameters[i];
    if (!parameter.matrix || (parameter.side != side && parameter.role != graph::Role::head))
      continue;
    if (std::find(seen.begin(), seen.end(), parameter.role) != seen.end()) continue;
    seen.push_back(parameter.role);
    const double std = rules[i].target_std();
    const auto same = std::find_if(sheet.init.begin(), sheet.init.end(), [&](const InitRow& row) {
      return row.rule == rules[i].text && row.std == std;
    });
    if (same == sheet.init.end()) {
      sheet.init.push_back({graph::role_name(parameter.role), rules[i].text, std});
    } else {
      same->roles += std::string(" ") + graph::role_name(parameter.role);
    }
  }
}

void section(std::string& text, const std::string& title, const std::string& body) {
  if (body.empty()) return;
  text += "\n" + title + "\n";
  for (const std::string& row : split(body, '\n')) text += (row.empty() ? "" : "  ") + row + "\n";
}

std::string parameter_table(const WiringSheet& sheet) {
  std::vector<std::string> header = {"layers"};
  for (const LayerParameters& group : sheet.layers) {
    for (const auto& [part, count] : group.parts) {
      if (std::find(header.begin(), header.end(), part) == header.end()) header.push_back(part);
    }
  }
  header.push_back("total");
  std::vector<std::vector<std::string>> rows;
  for (const LayerParameters& group : sheet.layers) {
    std::vector<std::string> row(header.size(), "0");
    row.front() = group.layers;
    row.back() = std::to_string(group.total);
    for (const auto& [part, count] : group.parts) {
      const auto at = std::find(header.begin(), header.end(), part) - header.begin();
      row[static_cast<size_t>(at)] = std::to_string(count);
    }
    rows.push_back(row);
  }
  std::string text = table(header, rows);
  for (const auto& [part, count] : sheet.outside) {
    text += fmt::format("outside the layers: {} {}\n", part, count);
  }
  if (!text.empty()) text.pop_back();
  return text;
}

std::string init_table(const WiringSheet& sheet) {
  std::vector<std::vector<std::string>> rows;
  for (const InitRow& row : sheet.init)
    rows.push_back({row.roles, row.rule, fmt::format("{:.6g}", row.std)});
  std::string text = table({"role", "rule", "std in layer 1"}, rows);
  text.pop_back();
  return text;
}

std::string words_of(Stack stack) {
  return stack == Stack::pair_encoder   ? "encoder of a pair"
         : stack == Stack::pair_decoder ? "decoder of a pair"
                                        : "one stack";
}

}  // namespace

WiringSheet wiring_sheet(const std::string& name_or_formula, const formula::Catalogue& catalogue,
                         const model::Overrides& overrides) {
  WiringSheet sheet;
  sheet.wiring = formula::resolve(name_or_formula, Stack::decoder, catalogue);
  sheet.stack = stack_of(sheet.wiring);
  sheet.drawing = formula::diagram(sheet.wiring.program, sheet.stack);

  const model::Specification spec =
      specification_for(name_or_formula, sheet.wiring, sheet.stack, catalogue, overrides);
  Findings findings = spec.findings;
  const graph::ModelShape shape = model::shape(spec, catalogue, &findings);
  const graph::Graph graph = model::build(spec, shape, &findings);
  for (const Finding& finding : findings) {
    const auto same = [&](const Finding& said) { return said.text() == finding.text(); };
    if (std::none_of(sheet.findings.begin(), sheet.findings.end(), same)) {
      sheet.findings.push_back(finding);
    }
  }
  const graph::StackSide side = sheet.stack == Stack::pair_encoder   ? graph::StackSide::encoder
                                : sheet.stack == Stack::pair_decoder ? graph::StackSide::decoder
                                                                     : graph::StackSide::single;
  for (const graph::Stack& stack : graph.stacks) {
    if (stack.side != side) continue;
    sheet.model = fmt::format("{} layers of width {}, {} heads, ffn {}, {}, norm {}", stack.layers,
                              spec.model.width, spec.model.heads, shape.ffn, spec.model.activation,
                              spec.model.norm);
  }
  add_parameters(graph, side, sheet);
  add_init(model::init_rules(spec, shape, graph), graph, side, sheet);
  sheet.published_init = sheet.wiring.entry != nullptr && !sheet.wiring.entry->init.empty();
  return sheet;
}

Json entry_json(const formula::Entry& entry) {
  const auto rules = [](const std::vector<formula::InitRule>& all) {
    Json list = Json::array();
    for (const formula::InitRule& rule : all)
      list.push_back({{"role", rule.role}, {"rule", rule.rule}});
    return list;
  };
  return {{"name", entry.name},        {"aliases", entry.aliases},
          {"year", entry.year},        {"title", entry.title},
          {"paper", entry.paper},      {"formula", entry.formula},
          {"init", rules(entry.init)}, {"pair_init", rules(entry.pair_init)},
          {"users", entry.users},      {"needs_warmup", entry.needs_warmup},
          {"adds", entry.adds},        {"closed_forms", entry.closed_forms},
          {"tests", entry.tests},      {"notes", entry.notes},
          {"traps", entry.traps},      {"evidence", entry.evidence},
          {"where", entry.where}};
}

Json sheet_json(const WiringSheet& sheet) {
  Json json = sheet.wiring.entry == nullptr ? Json{{"name", ""}, {"formula", sheet.wiring.text}}
                                            : entry_json(*sheet.wiring.entry);
  json["program"] = formula::print(sheet.wiring.program);
  json["let"] = Json::object();
  for (const auto& [name, value] : sheet.wiring.let_overrides) json["let"][name] = value;
  json["stack"] = words_of(sheet.stack);
  json["drawing"] = sheet.drawing;
  json["model"] = sheet.model;
  json["rules"] = Json::array();
  for (const InitRow& row : sheet.init) {
    json["rules"].push_back({{"roles", row.roles}, {"rule", row.rule}, {"std", row.std}});
  }
  json["parameters_per_layer"] = Json::array();
  for (const LayerParameters& group : sheet.layers) {
    Json parts = Json::object();
    for (const auto& [part, count] : group.parts) parts[part] = count;
    json["parameters_per_layer"].push_back(
        {{"layers", group.layers}, {"parts", parts}, {"total", group.total}});
  }
  json["parameters_outside_layers"] = Json::object();
  for (const auto& [part, count] : sheet.outside) json["parameters_outside_layers"][part] = count;
  json["findings"] = Json::array();
  for (const Finding& finding : sheet.findings) {
    const char* level = finding.level == Level::error     ? "error"
                        : finding.level == Level::warning ? "warning"
                                                          : "information";
    json["findings"].push_back(
        {{"level", level}, {"where", finding.where}, {"message", finding.message}});
  }
  return json;
}

std::string sheet_text(const WiringSheet& sheet) {
  const formula::Entry* entry = sheet.wiring.entry;
  std::string text;
  if (entry != nullptr) {
    text += entry->name;
    if (!entry->aliases.empty()) text += " (" + join(entry->aliases, ", ") + ")";
    if (entry->year != 0) text += fmt::format(" · {}", entry->year);
    text += "\n";
    for (const std::string& row : {entry->title, entry->paper}) {
      if (!row.empty()) text += row + "\n";
    }
  } else {
    text += "a formula of your own\n";
  }
  std::string values;
  for (const auto& [name, value] : sheet.wiring.let_overrides) {
    values += "\nwith " + name + " = " + shortest(value);
  }
  section(text, "Formula", trim(sheet.wiring.text) + values);
  section(text, "Drawing, " + words_of(sheet.stack),
          sheet.drawing.substr(0, sheet.drawing.find_last_not_of('\n') + 1));
  section(text,
          sheet.published_init ? "Initialization, as published" : "Initialization, the default",
          init_table(sheet));
  section(text, "Parameters per layer: " + sheet.model, parameter_table(sheet));
  if (entry != nullptr) {
    section(text, "Adds", wrapped(entry->adds, 96));
    section(text, "Closed forms", join(entry->closed_forms, "\n"));
    section(text, "To test against", join(entry->tests, "\n"));
    section(text, "Used by", wrapped(entry->users, 96));
    section(text, "Warmup", entry->needs_warmup ? "needed" : "");
    section(text, "Notes", wrapped(entry->notes, 96));
    section(text, "Traps", wrapped(entry->traps, 96));
    section(text, "Evidence", wrapped(entry->evidence, 96));
  }
  std::vector<std::string> findings;
  for (const Finding& finding : sheet.findings) findings.push_back(finding.text());
  section(text, "Findings", findings.empty() ? "none" : join(findings, "\n"));
  text.pop_back();
  return text;
}

}  // namespace addnorm::cli
