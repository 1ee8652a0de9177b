// addnorm inspect: what a specification, a run's folder or a file of tensors holds, without computing
// anything with it.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <filesystem>
#include <memory>
#include <system_error>

#include "addnorm/base/files.h"
#include "addnorm/base/text.h"
#include "addnorm/checkpoint/run_state.h"
#include "addnorm/checkpoint/safetensors.h"
#include "addnorm/lab/metrics.h"
#include "addnorm/model/static_checks.h"
#include "model_sheet.h"
#include "output.h"
#include "specification.h"
#include "verb.h"

namespace addnorm::cli {
namespace {

struct Options {
  std::string target, catalogue;
};

struct Sheet {
  Json json;
  std::string text;
};

Json number(double value) { return std::isfinite(value) ? Json(value) : Json(shortest(value)); }

// ---- a file of tensors

// Printed tensor by tensor: a file may hold millions, and nothing is kept of them but what the reader
// keeps and the counts of bad values.
struct TensorFile {
  checkpoint::SafetensorsFile file;
  std::vector<int64_t> nonfinite;
  double elements = 0;
  int64_t bad = 0;

  explicit TensorFile(const fs::path& path) : file(checkpoint::SafetensorsFile::open(path)) {
    nonfinite.reserve(file.tensors().size());
    for (const checkpoint::TensorInfo& tensor : file.tensors()) {
      nonfinite.push_back(file.count_nonfinite(tensor));
      elements += static_cast<double>(tensor.count);
      bad += nonfinite.back();
    }
  }
};

void print_json(const TensorFile& all) {
  print("{\n  \"tensors\": [");
  const auto& tensors = all.file.tensors();
  for (size_t i = 0; i < tensors.size(); ++i) {
    const Json one = {{"name", tensors[i].name},
                      {"dtype", checkpoint::name(tensors[i].type)},
                      {"shape", tensors[i].shape},
                      {"bytes", tensors[i].end - tensors[i].begin},
                      {"nonfinite", all.nonfinite[i]}};
    print(i == 0 ? "\n    " : ",\n    ");
    print(join(split(to_text(one), '\n'), "\n    "));
  }
  print(tensors.empty() ? "]," : "\n  ],");
  Json rest;
  rest["elements"] = all.elements;
  rest["bytes"] = all.file.data_bytes();
  rest["nonfinite"] = all.bad;
  rest["metadata"] = all.file.metadata();
  print_line(std::string_view(to_text(rest)).substr(1));
}

void print_text(const TensorFile& all) {
  constexpr size_t columns_count = 5;
  using Row = std::array<std::string, columns_count>;
  const auto& tensors = all.file.tensors();
  const auto row_of = [&](size_t i) {
    const checkpoint::TensorInfo& tensor = tensors[i];
    return Row{tensor.name, checkpoint::name(tensor.type), checkpoint::shape_text(tensor.shape),
               with_separators(static_cast<double>(tensor.end - tensor.begin)),
               std::to_string(all.nonfinite[i])};
  };
  const Row header = {"tensor", "dtype", "shape", "bytes", "not finite"};
  std::array<size_t, columns_count> widths = {};
  const auto widen = [&](const Row& row) {
    for (size_t c = 0; c < columns_count; ++c) widths[c] = std::max(widths[c], columns(row[c]));
  };
  const auto print_row = [&](const Row& row) {
    for (size_t c = 0; c + 1 < columns_count; ++c) {
      print(row[c]);
      print(std::string(widths[c] - columns(row[c]) + 2, ' '));
    }
    print_line(row.back());
  };
  if (!tensors.empty()) {
    widen(header);
    for (size_t i = 0; i < tensors.size(); ++i) widen(row_of(i));
    print_row(header);
    for (size_t i = 0; i < tensors.size(); ++i) print_row(row_of(i));
    print("\n");
  }
  print_line(fmt::format("{} tensor{}, {} numbers, {} bytes; {} non-finite value{}", tensors.size(),
                         tensors.size() == 1 ? "" : "s", with_separators(all.elements),
                         with_separators(static_cast<double>(all.file.data_bytes())), all.bad,
                         all.bad == 1 ? "" : "s"));
  for (const auto& [key, value] : all.file.metadata()) print_line(key + ": " + value);
}

// ---- a specification

ModelSheet specification_sheet(const fs::path& path, const Options& options,
                               const Invocation& invocation, bool is_run) {
  const formula::Catalogue catalogue = chosen_catalogue(options.catalogue);
  const auto specification =
      is_run ? model::load_resolved(path, invocation.overrides, model::Needs::model, catalogue)
             : model::load(path, invocation.overrides, model::Needs::model, catalogue);
  Findings findings = specification.findings;
  const graph::ModelShape shape = model::shape(specification, catalogue);
  const graph::Graph graph = model::build(specification, shape, &findings);
  // Warnings are never silent, also where the result goes to a program.
  if (invocation.json) log_findings(findings, invocation.verbose);
  return model_sheet(specification, graph, findings);
}

// ---- a run

uint64_t bytes_below(const fs::path& folder) {
  uint64_t bytes = 0;
  std::error_code code;
  for (const auto& entry : fs::recursive_directory_iterator(folder, code)) {
    if (entry.is_regular_file(code)) bytes += entry.file_size(code);
  }
  return bytes;
}

void add_checkpoints(const fs::path& run, Sheet& sheet) {
  sheet.json["checkpoints"] = Json::array();
  sheet.text += "\nCheckpoints\n";
  for (const fs::path& folder : checkpoint::checkpoints(run)) {
    const std::string name = folder.filename().string();
    const uint64_t bytes = bytes_below(folder);
    try {
      const checkpoint::TrainState state = checkpoint::verify_checkpoint(folder);
      sheet.json["checkpoints"].push_back(
          {{"folder", name}, {"step", state.step}, {"updates", state.updates}, {"bytes", bytes}});
      sheet.text += fmt::format("  {}: complete; step {}, {} updates, {} bytes\n", name, state.step,
                                state.updates, with_separators(static_cast<double>(bytes)));
    } catch (const Error& error) {  // shown, not an end: the rest of the run is still of interest
      sheet.json["checkpoints"].push_back(
          {{"folder", name}, {"damaged", error.what()}, {"bytes", bytes}});
      sheet.text += fmt::format("  {}: damaged; {}\n", name, error.what());
    }
  }
  sheet.json["leftovers"] = Json::array();
  for (const fs::path& left : checkpoint::leftovers(run)) {
    const bool folder = fs::is_directory(left);
    sheet.json["leftovers"].push_back({{"path", fs::relative(left, run).string()},
                                       {"what", folder ? "without DONE" : "temporary"}});
    sheet.text += fmt::format("  {}: {}\n", fs::relative(left, run).string(),
                              folder ? "without DONE: does not count as a checkpoint"
                                     : "temporary file of an interrupted write");
  }
  if (sheet.json["checkpoints"].empty() && sheet.json["leftovers"].empty()) {
    sheet.text += "  none\n";
  }
}

void add_metrics(const fs::path& run, Sheet& sheet) {
  const lab::Metrics metrics = lab::read_metrics(run / "metrics.jsonl");
  Json& json = sheet.json["metrics"];
  json = {{"steps", metrics.last_step()},
          {"records", metrics.steps.size()},
          {"evaluations", metrics.evals.size()},
          {"torn", metrics.torn}};
  sheet.text += "\nMetrics\n";
  if (metrics.absent) {
    json["absent"] = true;
    sheet.text += "  metrics.jsonl is missing; put it back from a copy\n";
    return;
  }
  if (metrics.steps.empty()) {
    sheet.text += "  no steps\n";
    return;
  }
  const lab::StepRecord& first = metrics.steps.front();
  const lab::StepRecord& last = metrics.steps.back();
  json["first_loss"] = number(first.loss);
  json["last_loss"] = number(last.loss);
  json["tokens"] = last.tokens;
  json["seconds"] = number(last.seconds);
  json["nonfinite_steps"] = last.nonfinite_steps;
  json["clipped"] = number(last.clipped);
  sheet.text += fmt::format("  steps {}..{}: loss {:.6g} -> {:.6g}\n", first.step, last.step,
                            first.loss, last.loss);
  sheet.text += fmt::format(
      "  {} tokens in {:.1f} s; {:.0f} % of the last updates clipped; {} "
      "non-finite steps\n",
      with_separators(static_cast<double>(last.tokens)), last.seconds, 100 * last.clipped,
      last.nonfinite_steps);
  if (last.grad_norm) {
    json["grad_norm"] = number(*last.grad_norm);
    sheet.text += fmt::format("  gradient norm of step {} before clipping: {:.6g}\n", last.step,
                              *last.grad_norm);
  }
  if (!metrics.evals.empty()) {
    const auto best =
        std::min_element(metrics.evals.begin(), metrics.evals.end(),
                         [](const auto& a, const auto& b) { return a.val_loss < b.val_loss; });
    json["best_val_loss"] = number(best->val_loss);
    json["last_val_loss"] = number(metrics.evals.back().val_loss);
    sheet.text += fmt::format("  validation loss {:.6g} at step {}, best {:.6g} at step {}\n",
                              metrics.evals.back().val_loss, metrics.evals.back().step,
                              best->val_loss, best->step);
  }
  for (const lab::Note& note : metrics.notes) {
    json["notes"].push_back({{"step", note.step}, {"text", note.text}});
    sheet.text += fmt::format("  note at step {}: {}\n", note.step, note.text);
  }
  if (metrics.torn) sheet.text += "  the last line is not complete (a killed run)\n";
}

Sheet run_sheet(const fs::path& run, const Options& options, const Invocation& invocation) {
  refuse_sweep(run.string(), "inspect");
  if (!fs::exists(run / "spec.toml")) {
    fail_input(run.string(),
               "expected a specification, a run's folder or a .safetensors file, got a "
               "folder without spec.toml");
  }
  const ModelSheet model = specification_sheet(run / "spec.toml", options, invocation, true);
  Sheet sheet;
  sheet.json["specification"] = read_file(run / "spec.toml");
  sheet.text = "Specification as resolved\n\n" + read_file(run / "spec.toml") + "\nModel\n\n";
  sheet.json.update(model.json);
  sheet.text += model.text;
  for (const char* name : {"env.json", "tokenizer.json"}) {
    if (fs::exists(run / name)) continue;
    sheet.json["missing"].push_back(name);
    sheet.text += fmt::format("\n{} is missing; `resume` says what to do\n", name);
  }
  add_checkpoints(run, sheet);
  add_metrics(run, sheet);
  return sheet;
}

int run(const Options& options, const Invocation& invocation) {
  const fs::path target = options.target;
  std::error_code code;
  Sheet sheet;
  if (fs::is_directory(target, code)) {
    sheet = run_sheet(target, options, invocation);
  } else if (target.extension() == ".safetensors") {
    const TensorFile tensors(target);
    if (invocation.json) {
      print_json(tensors);
    } else {
      print_text(tensors);
    }
    return 0;
  } else {
    ModelSheet model = specification_sheet(target, options, invocation, false);
    sheet = {std::move(model.json), std::move(model.text)};
  }
  print(invocation.json ? to_text(sheet.json) + "\n" : sheet.text);
  return 0;
}

const Register verb(
    {.name = "inspect",
     .summary = "what a specification, a run or a file of tensors holds",
     .example = "addnorm inspect spec.toml\n"
                "addnorm inspect spec.toml --model.wiring \"x = norm(x + f(x))\" --json\n"
                "addnorm inspect runs/demo\n"
                "addnorm inspect weights.safetensors",
     .order = 35,
     .takes_overrides = true,
     .takes_json = true,
     .setup = [](Arguments& arguments) -> Action {
       auto options = std::make_shared<Options>();
       arguments.positional("RUN|SPEC|FILE.safetensors", options->target,
                            "a run's folder, a specification, or tensors");
       arguments.catalogue(options->catalogue);
       return [options](const Invocation& invocation) { return run(*options, invocation); };
     }});

}  // namespace
}  // namespace addnorm::cli
