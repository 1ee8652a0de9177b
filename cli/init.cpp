// addnorm init: draws the weights of a specification, and proves them tensor by tensor.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <memory>

#include "addnorm/base/text.h"
#include "addnorm/checkpoint/safetensors.h"
#include "addnorm/model/estimate.h"
#include "addnorm/model/init_report.h"
#include "nlohmann/json.hpp"
#include "output.h"
#include "specification.h"

namespace addnorm::cli {
namespace {

struct Options {
  std::string spec, out, catalogue;
  std::optional<int64_t> seed;
  bool report = false;
};

std::string shown(double value) {
  return std::isfinite(value) ? fmt::format("{:.6g}", value) : shortest(value);
}

void print_table(const model::InitReport& report) {
  std::vector<std::vector<std::string>> rows;
  rows.reserve(report.rows.size());
  for (const model::InitRow& row : report.rows) {
    rows.push_back(
        {row.name, row.rule.text, shown(row.target), shown(row.measured), std::to_string(row.count),
         fmt::format("{:+.2f}", row.z),
         row.rule.formula +
             (row.count < row.size ? fmt::format("  (sampled rows of {})", row.size) : "")});
  }
  print(table({"tensor", "rule", "target std", "measured", "n", "z", "formula"}, rows));
}

nlohmann::json as_json(const model::InitReport& report) {
  nlohmann::json rows = nlohmann::json::array();
  for (const model::InitRow& row : report.rows) {
    rows.push_back(
        {{"tensor", row.name},
         {"role", graph::role_name(row.role)},
         {"rule", row.rule.text},
         {"formula", row.rule.formula},
         {"target_std", row.target},
         {"measured_std", row.measured},
         {"n", row.count},
         {"size", row.size},
         {"z", std::isfinite(row.z) ? nlohmann::json(row.z) : nlohmann::json(shortest(row.z))}});
  }
  nlohmann::json notes = nlohmann::json::array();
  for (const Finding& note : report.notes) notes.push_back(note.text());
  return {{"tensors", rows}, {"notes", notes}, {"passed", report.passed()}};
}

// A model that the disk cannot hold is refused before the first byte.
void require_space(const Model& model, const fs::path& path) {
  const model::Estimate e = model::estimate(model.graph, model.shape, model.specification.train);
  const fs::path folder = path.has_parent_path() ? path.parent_path() : fs::path(".");
  std::error_code failed;
  const fs::space_info space = fs::space(folder, failed);
  if (failed || e.weight_bytes <= static_cast<double>(space.available)) return;
  fail_input(
      path.string(),
      fmt::format("expected weights that fit into {:.4g} GiB of free space, got {:.4g} GiB: {}; "
                  "try a smaller width or fewer layers",
                  static_cast<double>(space.available) / 0x1p30, e.weight_bytes / 0x1p30,
                  model::describe(e)));
}

// Streams every tensor in pieces: the model is never in memory.
void write_weights(const Model& model, uint64_t seed, const std::string& path) {
  const auto rules = model::init_rules(model.specification, model.shape, model.graph);
  std::vector<checkpoint::TensorOut> tensors;
  for (size_t i = 0; i < rules.size(); ++i) {
    const graph::Parameter& parameter = model.graph.parameters[i];
    checkpoint::TensorOut tensor;
    tensor.name = parameter.name;
    tensor.shape = parameter.dims;
    tensor.write = [&parameter, &rule = rules[i], seed](const Emit& emit) {
      constexpr int64_t piece = 1 << 16;
      std::vector<float> values;
      for (int64_t at = 0; at < parameter.size(); at += piece) {
        values.resize(static_cast<size_t>(std::min(piece, parameter.size() - at)));
        model::fill(rule, seed, parameter.name, values, static_cast<uint64_t>(at));
        emit(std::as_bytes(std::span<const float>(values)));
      }
    };
    tensors.push_back(std::move(tensor));
  }
  checkpoint::write_safetensors(path, tensors);
}

int run(const Options& options, const Invocation& invocation) {
  const Model model = load_model(options.spec, options.catalogue, invocation);
  const uint64_t seed =
      options.seed ? static_cast<uint64_t>(*options.seed) : model.specification.train.seed;
  if (!options.out.empty()) require_space(model, options.out);
  int code = 0;
  if (options.report || options.out.empty()) {
    const auto report = model::init_report(model.specification, model.shape, model.graph, seed);
    if (invocation.json) {
      print_line(as_json(report).dump(2));
    } else {
      print_table(report);
    }
    log_findings(report.notes, true);
    if (!report.passed()) {
      log("a measured standard deviation is more than 5 standard errors off its target");
      code = static_cast<int>(Failure::check);
    }
  }
  if (!options.out.empty()) write_weights(model, seed, options.out);
  return code;
}

const Register verb(
    {.name = "init",
     .summary = "draw the weights of a specification; per tensor rule, target and measured spread",
     .example = "addnorm init spec.toml --report\n"
                "addnorm init spec.toml --out weights.safetensors --seed 3",
     .order = 30,
     .takes_overrides = true,
     .takes_json = true,
     .setup = [](Arguments& arguments) -> Action {
       auto options = std::make_shared<Options>();
       arguments.positional("SPEC", options->spec, "specification file");
       arguments.flag("--report", options->report,
                      "the table also beside --out; exit code 1 where |z| > 5");
       arguments.option("--out", options->out, "write the weights here (safetensors)", "FILE");
       arguments.option("--seed", options->seed, "seed of the draws (default: train.seed)");
       arguments.catalogue(options->catalogue);
       return [options](const Invocation& invocation) { return run(*options, invocation); };
     }});

}  // namespace
}  // namespace addnorm::cli
