#include "model_sheet.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <utility>

#include "addnorm/base/text.h"
#include "addnorm/graph/survey.h"
#include "output.h"

namespace addnorm::cli {
namespace {

std::string stack_name(graph::StackSide side, const model::ModelSection& m) {
  return side == graph::StackSide::encoder   ? "encoder"
         : side == graph::StackSide::decoder ? "decoder"
                                             : m.kind;
}

double size_of(const graph::Parameter& parameter) {
  double size = 1;
  for (const int64_t dim : parameter.dims) size *= static_cast<double>(dim);
  return size;
}

const char* level_name(Level level) {
  return level == Level::error ? "error" : level == Level::warning ? "warning" : "information";
}

struct RoleTotal {
  int tensors = 0;
  double elements = 0;
};

std::vector<std::pair<graph::Role, RoleTotal>> by_role(const graph::Graph& graph) {
  std::map<graph::Role, RoleTotal> totals;
  for (const graph::Parameter& parameter : graph.parameters) {
    RoleTotal& total = totals[parameter.role];
    ++total.tensors;
    total.elements += size_of(parameter);
  }
  return {totals.begin(), totals.end()};
}

// Formulas by stack: one line for both stacks of a pair where they are the same text.
std::vector<std::pair<std::string, std::string>> formulas(const model::ModelSection& m) {
  const auto named = [](const std::string& key, const std::string& name) {
    return name.empty() ? key : key + " (" + name + ")";
  };
  if (m.encoder_wiring.empty() && m.decoder_wiring.empty()) {
    return {{named("wiring", m.wiring_name), m.wiring}};
  }
  return {{named("encoder_wiring", m.encoder_wiring_name), m.encoder_wiring},
          {named("decoder_wiring", m.decoder_wiring_name), m.decoder_wiring}};
}

// Layers whose branches read the same, together: the layer's number in names becomes {l}, that of
// the layer before {l-1}.
struct ReadingRow {
  std::string branch, reads, name, memory;
  int first = 0, last = 0;
};

std::string without_layer(std::string name, int layer) {
  for (const auto& [number, text] :
       {std::pair(layer, "blocks.{l}."), std::pair(layer - 1, "blocks.{l-1}.")}) {
    const std::string part = "blocks." + std::to_string(number) + ".";
    if (const size_t at = name.find(part); at != std::string::npos) {
      return name.replace(at, part.size(), text);
    }
  }
  return name;
}

std::vector<ReadingRow> reading_rows(const std::vector<graph::Reading>& readings) {
  std::vector<ReadingRow> rows;
  for (const graph::Reading& reading : readings) {
    ReadingRow row{without_layer(reading.branch, reading.layer),
                   reading.from,
                   without_layer(reading.name, reading.layer),
                   reading.memory,
                   reading.layer,
                   reading.layer};
    const auto same = std::find_if(rows.begin(), rows.end(), [&](const ReadingRow& known) {
      return known.branch == row.branch && known.reads == row.reads && known.name == row.name &&
             known.last == row.first - 1;
    });
    if (same == rows.end()) {
      rows.push_back(std::move(row));
    } else {
      same->last = row.first;
    }
  }
  return rows;
}

std::string reading_text(const std::string& kind_of, const std::string& from,
                         const std::string& memory) {
  if (!memory.empty()) return "query: " + from + ", memory: " + memory;
  return (kind_of == "attn" ? "query, key, value: " : "input: ") + from;
}

std::string norms_text(const graph::NormCount& count) {
  return fmt::format("{} = {} begin + {} blocks + {} end", count.placed(), count.begin,
                     count.blocks, count.end);
}

Json sizes_json(const model::ModelSection& m) {
  Json json = {{"kind", m.kind}};
  if (m.kind == "encoder-decoder") {
    json["encoder_layers"] = m.encoder_layers;
    json["decoder_layers"] = m.decoder_layers;
  } else {
    json["layers"] = m.layers;
  }
  json["width"] = m.width;
  json["heads"] = m.heads;
  json["kv_heads"] = m.kv_heads;
  json["head_dim"] = m.head_dim;
  json["ffn"] = m.ffn;
  json["activation"] = m.activation;
  json["positions"] = m.positions;
  json["norm"] = m.norm;
  if (m.norm_eps) json["norm_eps"] = *m.norm_eps;
  json["vocab"] = m.vocab;
  json["context"] = m.context;
  json["dropout"] = m.dropout;
  json["tie_embeddings"] = m.tie_embeddings;
  return json;
}

}  // namespace

std::string with_separators(double count) {
  if (count >= 1e15) return fmt::format("{:.3g}", count);
  std::string digits = fmt::format("{:.0f}", count);
  for (auto at = static_cast<std::ptrdiff_t>(digits.size()) - 3; at > 0; at -= 3) {
    digits.insert(static_cast<size_t>(at), ",");
  }
  return digits;
}

ModelSheet model_sheet(const model::Specification& specification, const graph::Graph& graph,
                       const Findings& findings) {
  ModelSheet sheet;
  const model::ModelSection& m = specification.model;
  Json& json = sheet.json;
  std::string& text = sheet.text;

  json["model"] = sizes_json(m);
  std::vector<std::string> sizes;
  for (const auto& [key, value] : json["model"].items()) {
    sizes.push_back(key + " " + (value.is_string() ? value.get<std::string>() : value.dump()));
  }
  text += wrapped(join(sizes, "; "), 100) + "\n";

  json["formulas"] = Json::object();
  for (const auto& [key, formula] : formulas(m)) {
    json["formulas"][key] = formula;
    text += "\n" + key + "\n";
    for (const std::string& line : split(formula, '\n')) text += "  " + trim(line) + "\n";
  }

  double total = 0;
  json["parameters"]["by_role"] = Json::object();
  std::vector<std::vector<std::string>> rows;
  for (const auto& [role, sum] : by_role(graph)) {
    total += sum.elements;
    json["parameters"]["by_role"][graph::role_name(role)] = {{"tensors", sum.tensors},
                                                             {"elements", sum.elements}};
    rows.push_back({"  " + std::string(graph::role_name(role)), std::to_string(sum.tensors),
                    with_separators(sum.elements)});
  }
  json["parameters"]["total"] = total;
  rows.push_back({"  total", std::to_string(graph.parameters.size()), with_separators(total)});
  text += "\nParameters\n" + table({"  role", "tensors", "numbers"}, rows);

  json["norms"] = Json::array();
  text += "\nNorms\n";
  int placed = 0, inside = 0;
  for (const graph::NormCount& count : graph::count_norms(graph)) {
    json["norms"].push_back({{"stack", stack_name(count.side, m)},
                             {"total", count.placed()},
                             {"begin", count.begin},
                             {"blocks", count.blocks},
                             {"end", count.end},
                             {"qk", count.qk},
                             {"value", count.value},
                             {"inner", count.inner}});
    text += fmt::format("  {}: {}\n", stack_name(count.side, m), norms_text(count));
    text += fmt::format("  {}, in branches: {} qk, {} value, {} inner\n", stack_name(count.side, m),
                        count.qk, count.value, count.inner);
    placed += count.placed();
    inside += count.in_branches();
  }
  if (graph.stacks.size() > 1) text += fmt::format("  both: {}, in branches {}\n", placed, inside);

  json["branches"] = Json::array();
  const auto readings = graph::branch_readings(graph);
  for (const graph::Reading& reading : readings) {
    Json branch = {{"branch", reading.branch}, {"reads", reading.from}, {"name", reading.name}};
    if (!reading.memory.empty()) branch["memory"] = reading.memory;
    json["branches"].push_back(branch);
  }
  rows.clear();
  for (const ReadingRow& row : reading_rows(readings)) {
    const bool attn = row.branch.find(".attn") != std::string::npos;
    rows.push_back({"  " + row.branch,
                    row.first == row.last ? std::to_string(row.first)
                                          : fmt::format("{}..{}", row.first, row.last),
                    reading_text(attn ? "attn" : "ffn", row.reads, row.memory), row.name});
  }
  text += "\nWhat the branches read\n" + table({"  branch", "l", "from", "value"}, rows);

  json["findings"] = Json::array();
  text += "\nFindings\n";
  for (const Finding& finding : findings) {
    json["findings"].push_back({{"level", level_name(finding.level)},
                                {"where", finding.where},
                                {"message", finding.message}});
    text += "  " + finding.text() + "\n";
  }
  if (findings.empty()) text += "  none\n";
  return sheet;
}

}  // namespace addnorm::cli
