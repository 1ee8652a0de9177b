// What the page shows, gathered from the folders of a run or a sweep.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <set>

#include "addnorm/base/files.h"
#include "addnorm/base/text.h"
#include "addnorm/lab/record.h"
#include "addnorm/lab/run.h"
#include "addnorm/lab/words.h"
#include "addnorm/report/drawing.h"
#include "addnorm/report/report.h"

namespace addnorm::report {
namespace {

using lab::Outcome;
using nlohmann::ordered_json;

constexpr size_t most_points = 2000;  // of a curve; longer runs are drawn with every n-th update

ordered_json number(double value) {
  return std::isfinite(value) ? ordered_json(value) : ordered_json();
}
ordered_json number(const std::optional<double>& value) {
  return number(value.value_or(lab::missing));
}

std::string loss_text(const lab::Spread& spread) {
  if (spread.count == 0) return "–";
  return spread.count == 1 ? fmt::format("{:.3f}", spread.mean)
                           : fmt::format("{:.3f} ± {:.3f}", spread.mean, spread.sd);
}

ordered_json diag_json(const lab::DiagRecord& diag) {
  ordered_json layers = ordered_json::array();
  for (const lab::DiagLayer& layer : diag.layers) {
    layers.push_back({{"stack", layer.stack},
                      {"layer", layer.layer},
                      {"ms", number(layer.stream_ms)},
                      {"g", number(layer.stream_grad_norm)},
                      {"w", number(layer.grad_norm)},
                      {"u", number(layer.update_ratio)},
                      {"r", number(layer.correlation)}});
  }
  return {{"step", diag.step}, {"layers", layers}};
}

class Page {
 public:
  Page(const fs::path& folder, const formula::Catalogue& catalogue)
      : folder_(folder), catalogue_(catalogue) {}

  void sweep(const lab::SweepResult& result) {
    data_["question"] = lab::question(result);
    data_["answer"] = lab::answer(result);
    if (result.unigram_entropy) unigram_ = result.unigram_entropy;
    if (!result.complete()) {
      size_t done = 0;
      for (const auto& cell : result.cells) done += cell.seeds.size();
      warn(fmt::format(
          "This sweep has not ended: {} of {} runs are finished.", done,
          result.cells.size() * static_cast<size_t>(std::max(result.planned_seeds, 1))));
    }
    columns_ = lab::varied_keys(result);
    std::vector<std::string> shared;
    if (!result.cells.empty()) {
      for (const auto& [key, value] : result.cells.front().keys) {
        const bool same =
            std::all_of(result.cells.begin(), result.cells.end(), [&](const auto& cell) {
              return cell.find(key) != nullptr && *cell.find(key) == value;
            });
        if (same && key != "wiring") shared.push_back(key + " " + lab::value_text(value));
      }
    }
    data_["shared"] = join(shared, ", ");
    for (size_t i = 0; i < result.cells.size(); ++i) {
      const lab::CellResult& cell = result.cells[i];
      add_cell(cell, lab::cell_label(result, i), result.planned_seeds,
               lab::extras_text(result, cell), lab::advise(result, i));
      for (const lab::SeedResult& seed : cell.seeds) {
        if (lab::is_run(folder_ / seed.run))
          add_run(folder_ / seed.run, i, seed.seed, cells_.back()["label"]);
      }
    }
  }

  void run() {
    const lab::RunRecord record = lab::read_run(folder_, catalogue_);
    data_["question"] = lab::run_question(record);
    data_["answer"] = lab::run_answer(record);
    data_["shared"] = "";
    lab::CellResult cell;
    const auto& model = record.specification.model;
    const auto& train = record.specification.train;
    cell.keys = {{"wiring", lab::wiring_text(model)},
                 {"layers", lab::value_of(lab::layers_text(model))},
                 {"lr", train.lr},
                 {"warmup", lab::value_of(train.warmup)}};
    for (const auto& [key, value] : cell.keys) columns_.push_back(key);
    lab::SeedResult seed;
    seed.seed = static_cast<int64_t>(train.seed);
    seed.outcome = record.outcome();
    seed.steps = record.metrics.last_step();
    seed.train_loss = lab::mean_loss(record.metrics.steps, seed.steps);
    if (!record.metrics.evals.empty()) seed.val_loss = record.metrics.evals.back().val_loss;
    if (!record.metrics.steps.empty()) seed.seconds = record.metrics.steps.back().seconds;
    seed.run = folder_.filename().string();
    cell.seeds.push_back(seed);
    add_cell(cell, lab::wiring_text(model), 1, "", {});
    add_run(folder_, 0, seed.seed, cells_.back()["label"]);
    if (!record.ended() && !record.metrics.absent) {
      warn(fmt::format("This run did not end: it stopped at update {} of {}.", seed.steps,
                       record.planned_steps()));
    }
    if (record.metrics.torn) warn("The last line of metrics.jsonl is torn and was left out.");
  }

  std::string json(const std::string& kind, const std::string& version) {
    data_["kind"] = kind;
    data_["version"] = version;
    data_["name"] = folder_.filename().string();
    data_["warnings"] = warnings_;
    data_["unigram"] = number(unigram_);
    data_["bigram"] = number(bigram_);
    data_["thinned"] = thinned_;
    data_["columns"] = columns_;
    data_["cells"] = cells_;
    data_["runs"] = runs_;
    data_["wirings"] = wirings_;
    data_["specifications"] = specifications_;
    return data_.dump(-1, ' ', false, ordered_json::error_handler_t::replace);
  }

 private:
  void warn(const std::string& text) { warnings_.push_back(text); }

  void add_cell(const lab::CellResult& cell, const std::string& label, int planned,
                const std::string& extras, const lab::Advice& advice) {
    ordered_json object{
        {"label", label},
        {"planned", std::max<size_t>(static_cast<size_t>(planned), cell.seeds.size())}};
    std::vector<std::string> values;
    for (const std::string& key : columns_) {
      const lab::Value* value = cell.find(key);
      values.push_back(value == nullptr ? "" : lab::value_text(*value));
    }
    object["values"] = values;
    object["extras"] = extras;
    const auto counts = cell.counts();
    for (int i = 0; i < lab::outcome_count; ++i) {
      object["counts"][lab::outcome_name(static_cast<Outcome>(i))] =
          counts.at(static_cast<size_t>(i));
    }
    object["train"] = loss_text(lab::training_spread(cell));
    object["val"] = loss_text(lab::validation_spread(cell));
    if (!advice.text.empty())
      object["advice"] = {{"text", advice.text}, {"command", advice.command}};
    object["seeds"] = ordered_json::array();
    for (const lab::SeedResult& seed : cell.seeds) {
      object["seeds"].push_back({{"seed", seed.seed},
                                 {"outcome", lab::outcome_name(seed.outcome)},
                                 {"train", number(seed.train_loss)},
                                 {"val", number(seed.val_loss)},
                                 {"steps", seed.steps},
                                 {"seconds", number(seed.seconds)},
                                 {"run", seed.run}});
    }
    cells_.push_back(object);
  }

  void add_run(const fs::path& folder, size_t cell, int64_t seed, const std::string& label) {
    lab::RunRecord record;
    try {
      record = lab::read_run(folder, catalogue_);
    } catch (const Error& problem) {  // one run that cannot be read does not cost the report
      warn(fmt::format("{}, seed {} is left out: {}", label, seed, problem.what()));
      return;
    }
    const lab::Metrics& metrics = record.metrics;
    if (metrics.absent) {
      warn(fmt::format("{}, seed {}: its metrics.jsonl is missing; put it back from a copy.", label,
                       seed));
    }
    if (!unigram_) unigram_ = metrics.unigram_entropy;
    if (!bigram_) bigram_ = metrics.bigram_entropy;
    const size_t every =
        std::max<size_t>(1, (metrics.steps.size() + most_points - 1) / most_points);
    thinned_ = std::max(thinned_, every);
    ordered_json run{{"cell", cell},
                     {"seed", seed},
                     {"label", fmt::format("{}, seed {}", label, seed)},
                     {"ended", record.ended()},
                     {"planned", record.planned_steps()},
                     {"last", metrics.last_step()}};
    ordered_json steps = ordered_json::array(), loss = steps, grad = steps, lr = steps,
                 evals = steps, diags = steps, notes = steps;
    for (size_t i = 0; i < metrics.steps.size(); ++i) {
      const lab::StepRecord& step = metrics.steps[i];
      const bool shown =
          i % every == 0 || i + 1 == metrics.steps.size() || !std::isfinite(step.loss);
      if (!shown) continue;
      steps.push_back(step.step);
      loss.push_back(number(step.loss));
      grad.push_back(number(step.grad_norm));
      lr.push_back(number(step.lr));
    }
    for (const lab::EvalRecord& eval : metrics.evals)
      evals.push_back({eval.step, number(eval.val_loss)});
    for (const lab::DiagRecord& diag : metrics.diags) diags.push_back(diag_json(diag));
    for (const lab::Note& note : metrics.notes)
      notes.push_back({{"step", note.step}, {"text", note.text}});
    run["steps"] = steps;
    run["loss"] = loss;
    run["grad"] = grad;
    run["lr"] = lr;
    run["evals"] = evals;
    run["diags"] = diags;
    run["notes"] = notes;
    runs_.push_back(run);
    if (described_.insert(cell).second) describe(record, label);
  }

  // Formula, drawing and specification, once per cell; a wiring that several cells share once.
  void describe(const lab::RunRecord& record, const std::string& label) {
    for (const std::string& line : lab::changed_wirings(record.specification)) {
      warn(label + ": " + line);
    }
    specifications_.push_back({{"title", label}, {"text", record.specification_text}});
    for (const Drawing& drawing : drawings_of(record.specification, catalogue_)) {
      if (!drawn_.insert(drawing.name + "\n" + drawing.formula).second) continue;
      wirings_.push_back(
          {{"name", drawing.name}, {"formula", drawing.formula}, {"drawing", drawing.picture}});
    }
  }

  fs::path folder_;
  const formula::Catalogue& catalogue_;
  ordered_json data_;
  std::vector<std::string> columns_, warnings_;
  ordered_json cells_ = ordered_json::array(), runs_ = cells_, wirings_ = cells_,
               specifications_ = cells_;
  std::optional<double> unigram_, bigram_;
  size_t thinned_ = 1;
  std::set<size_t> described_;
  std::set<std::string> drawn_;
};

fs::path named(const fs::path& folder) {
  const fs::path path = fs::absolute(folder).lexically_normal();
  return path.has_filename() ? path : path.parent_path();
}

}  // namespace

std::string report_data(const fs::path& folder, const formula::Catalogue& catalogue,
                        const std::string& version) {
  Page page(named(folder), catalogue);
  if (lab::is_sweep(folder)) {
    const fs::path file = folder / "sweep.json";
    page.sweep(lab::parse_sweep(read_file(file), file.string()));
    return page.json("sweep", version);
  }
  if (lab::is_run(folder)) {
    page.run();
    return page.json("run", version);
  }
  fail_input(folder.string(),
             "expected the folder of a run (with spec.toml) or of a sweep (with sweep.json), got " +
                 std::string(fs::is_directory(folder) ? "another folder" : "no folder"));
}

fs::path write_report(const fs::path& folder, const formula::Catalogue& catalogue,
                      const std::string& version) {
  const std::string json = report_data(folder, catalogue, version);
  const fs::path file = folder / "report.html";
  write_file_atomic(file, page("addnorm: " + named(folder).filename().string(), json));
  return file;
}

}  // namespace addnorm::report
