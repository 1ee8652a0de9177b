#include "addnorm/train/session.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

#include "addnorm/base/files.h"
#include "addnorm/base/text.h"
#include "addnorm/model/init.h"
#include "addnorm/model/keys.h"
#include "addnorm/train/data_source.h"
#include "addnorm/train/metrics.h"
#include "addnorm/train/run_files.h"

namespace addnorm::train {
namespace {

namespace fs = std::filesystem;

// Engine, optimizer and what they work with, of one session.
struct Machine {
  Machine(const Plan& plan, const Environment& environment)
      : engine(engine::make_cpu(plan.graph, environment.threads)),
        optimizer(plan.specification.train, plan.graph,
                  parameter_factors(plan.specification.train, plan.shape, plan.graph)),
        pieces(plan.graph, environment.threads),
        source(plan.dataset, plan.task, plan.specification.data, plan.specification.train) {
    if (!factors_change(plan.specification.train)) return;
    optimizer.follow([&plan](int64_t t) {  // the plan lives as long as the session
      return parameter_factors(plan.specification.train, plan.shape, plan.graph, t);
    });
  }

  std::unique_ptr<engine::Engine<float>> engine;
  Optimizer optimizer;
  Pieces pieces;
  DataSource source;
};

std::function<std::span<float>(size_t)> parameters_of(engine::Engine<float>& engine) {
  return [&engine](size_t index) { return engine.parameter(index); };
}

// The step-0 note that carries what counting alone reaches, for reports and sweeps.
void note_entropies(const fs::path& run, const Plan& plan) {
  const data::Entropies& entropies = plan.dataset.entropies;
  Line line("note");
  line.integer("step", 0)
      .text("text", fmt::format("entropy of the training targets by their counts: {:.4f} nat",
                                entropies.unigram))
      .number("unigram_entropy", entropies.unigram)
      .number("bigram_entropy", entropies.bigram)
      .number("unigram_validation", entropies.unigram_validation)
      .number("bigram_validation", entropies.bigram_validation);
  MetricsFile(run / "metrics.jsonl").write(line);
}

void note_resume(const fs::path& run, int64_t step, const std::string& text) {
  Line line("note");
  line.integer("step", step).text("text", text);
  MetricsFile(run / "metrics.jsonl").write(line);
}

Outcome go(const Plan& plan, Machine& machine, const Extensions& extensions,
           const Environment& environment, const fs::path& run, checkpoint::TrainState state,
           const Watcher& watcher) {
  state.seed = environment.seed;
  state.threads = environment.threads;
  state.instruction_set = environment.instruction_set;
  state.program = environment.program;
  model::TrainSection base = plan.specification.train;
  base.steps = extensions.base_steps;
  const Rates rates(base, extensions.list);
  Outcome outcome;
  outcome.end = train({*machine.engine, machine.optimizer, machine.pieces, machine.source, rates,
                       plan.specification.train, run, watcher.reporter, watcher.interrupted},
                      state);
  outcome.run = run;
  outcome.step = state.step;
  outcome.steps = plan.specification.train.steps;
  return outcome;
}

// Weights of a run without a checkpoint: as at its start.
void start_over(const Plan& plan, engine::Engine<float>& engine, const StartWeights& weights) {
  if (weights.file.empty()) return initialize(plan, engine);
  if (sha256_file(weights.file) != weights.sha256) {
    fail_input(weights.file.string(),
               "expected the weights that the run was started from, got others; "
               "put the file back or start a new run");
  }
  checkpoint::load_weights(weights.file, plan.graph, parameters_of(engine));
}

// "train.lr: 0.002 (was 0.001)", one per key whose value differs.
std::vector<std::string> changed_keys(const model::Specification& before,
                                      const model::Specification& now) {
  std::vector<std::string> changes;
  const auto add = [&](const std::string& key, const std::string& old_value,
                       const std::string& new_value) {
    const auto shown = [](const std::string& value) { return value.empty() ? "not set" : value; };
    if (old_value == new_value) return;
    changes.push_back(fmt::format("{}: {} (was {})", key, shown(new_value), shown(old_value)));
  };
  const auto add_tables = [&](const std::string& section,
                              const std::map<std::string, std::string>& old_table,
                              const std::map<std::string, std::string>& new_table) {
    std::set<std::string> names;
    for (const auto* table : {&old_table, &new_table}) {
      for (const auto& [name, value] : *table) names.insert(name);
    }
    const auto value_of = [](const std::map<std::string, std::string>& table,
                             const std::string& name) {
      const auto found = table.find(name);
      return found == table.end() ? std::string() : found->second;
    };
    for (const std::string& name : names) {
      add(section + "." + name, value_of(old_table, name), value_of(new_table, name));
    }
  };
  for (const model::Key& key : model::keys()) {
    const std::string section = key.section();
    if (section != "model" && section != "data" && section != "train") continue;  // tables: below
    add(key.path, key.read(before), key.read(now));
  }
  add_tables("init", before.init, now.init);
  add_tables("train.lr_scale", before.train.lr_scale, now.train.lr_scale);
  add_tables("train.decay", before.train.decay, now.train.decay);
  return changes;
}

[[noreturn]] void refuse_finished(const fs::path& run, int64_t done) {
  fail_input(
      run.string(),
      fmt::format("expected a run with steps to go, got one that has made all its {} steps; try "
                  "--steps {} to see how it can go on",
                  done, 2 * done));
}

[[noreturn]] void refuse_without_choice(const ResumeOptions& options, const Extensions& extensions,
                                        const model::TrainSection& base, int64_t after,
                                        int64_t added, int64_t steps) {
  const auto choices = extend_choices(base, extensions.list, after, added);
  throw Error(
      Failure::input,
      fmt::format("error [--extend] expected a choice of how the learning rate goes on to step {}, "
                  "got none:\n{}try addnorm resume {} --steps {} --extend {}",
                  steps, extend_table(choices), options.run.string(), steps,
                  at_lowest_rate(base, choices[0].first_rate) ? "stretch" : "keep"));
}

// What a run goes on with: its extensions, and one more where it is asked for.
Extensions extended(const ResumeOptions& options, const model::TrainSection& now,
                    const Extensions& before, const checkpoint::TrainState& state, int64_t wanted) {
  Extensions extensions = before;
  model::TrainSection base = now;
  base.steps = before.base_steps;
  const bool finished = state.step >= before.steps;
  if (wanted == before.steps) {
    if (finished) refuse_finished(options.run, state.step);
    if (!options.extend.empty()) {
      fail_input("--extend", "expected --steps N with it, more than the " +
                                 std::to_string(before.steps) + " planned, got none");
    }
    return extensions;
  }
  if (wanted < before.steps) {
    fail_input("--steps", fmt::format("expected more than the {} steps planned, got {}",
                                      before.steps, wanted));
  }
  const double most = model::find_key("train.steps")->high;
  if (static_cast<double>(wanted) > most) {
    fail_input("--steps", fmt::format("expected at most {:g}, got {}", most, wanted));
  }
  const int64_t after = state.updates + (before.steps - state.step);  // updates at the planned end
  const int64_t added = wanted - before.steps;
  if (options.extend.empty()) {
    refuse_without_choice(options, before, base, after, added, wanted);
  }
  extensions.list.push_back({after, added, parse_extend(options.extend)});
  extensions.steps = wanted;
  return extensions;
}

// The text may differ by a choice: --new-text, or a key that names another text.
Findings compare_texts(const std::optional<Texts>& recorded, const Texts& now,
                       const ResumeOptions& options, const std::vector<std::string>& changes) {
  if (!recorded) {
    return {{Level::warning, (options.run / "env.json").string(),
             "the run has no record of its text, so a changed one would not be noticed; it is "
             "recorded from here on"}};
  }
  const Finding difference = text_difference(*recorded, now);
  if (difference.where.empty()) return {};
  bool chosen = options.new_text;
  for (const std::string& change : changes) {
    for (const char* key : {"data.source:", "data.target:", "data.validation:", "data.encoding:"}) {
      chosen = chosen || change.starts_with(key);
    }
  }
  if (chosen) return {difference};
  std::string command = "addnorm resume " + options.run.string() + " --new-text";
  if (options.steps) command += fmt::format(" --steps {}", *options.steps);
  if (!options.extend.empty()) command += " --extend " + options.extend;
  fail_input(
      difference.where,
      difference.message + "; put the text back, or go on with the new one on purpose: " + command);
}

Finding missing_metrics(const fs::path& run, const checkpoint::TrainState& state) {
  return {Level::warning, (run / "metrics.jsonl").string(),
          fmt::format("the file is gone, and with it the record of steps 0 to {}; reports will "
                      "begin there unless it is put back before this run goes on",
                      state.step)};
}

// An extension that trains at the lowest rate of a schedule that has reached its end.
Findings judge_extension(const model::TrainSection& now, const Extensions& extensions) {
  model::TrainSection base = now;
  base.steps = extensions.base_steps;
  const Extension& added = extensions.list.back();
  const double rate = Rates(base, extensions.list).rate(added.after + 1);
  if (added.how != Extend::keep || !at_lowest_rate(base, rate)) return {};
  return {
      {Level::warning, "--extend",
       fmt::format("keep trains all {} added updates at the rate {}, where the schedule ended{}; "
                   "rewarm and stretch give it a rate to learn with",
                   added.added, shortest(rate), rate == 0 ? ": nothing will change" : "")}};
}

// Same seed, thread count and instruction set give the same bytes; anything else is said.
Findings compare_environments(const checkpoint::TrainState& state, const Environment& now) {
  Findings findings;
  if (state.threads != now.threads) {
    findings.push_back(
        {Level::warning, "train.threads",
         fmt::format(
             "the run used {} threads, this session uses {}: results will differ in their last "
             "bits from an uninterrupted run",
             state.threads, now.threads)});
  }
  if (state.instruction_set != now.instruction_set) {
    findings.push_back(
        {Level::warning, "processor",
         fmt::format("the run used {} instructions, this session uses {}: results will "
                     "differ in their last bits",
                     state.instruction_set, now.instruction_set)});
  }
  return findings;
}

}  // namespace

void initialize(const Plan& plan, engine::Engine<float>& engine) {
  const auto rules = model::init_rules(plan.specification, plan.shape, plan.graph);
  for (size_t i = 0; i < rules.size(); ++i) {
    model::fill(rules[i], plan.specification.train.seed, plan.graph.parameters[i].name,
                engine.parameter(i));
  }
}

model::Specification run_specification(const fs::path& run, const model::Overrides& overrides,
                                       const formula::Catalogue& catalogue) {
  if (!fs::exists(run / "spec.toml")) {
    fail_input(run.string(),
               "expected the folder of a run, with its spec.toml, got none; try the path "
               "that `addnorm train` printed");
  }
  return model::load_resolved(run / "spec.toml", overrides, model::Needs::training, catalogue);
}

std::shared_ptr<const text::Tokenizer> run_tokenizer(const fs::path& run) {
  return text::tokenizer_from_json(read_run_file(run, "tokenizer.json"),
                                   (run / "tokenizer.json").string());
}

Outcome start(Plan plan, const StartOptions& options, const Watcher& watcher) {
  const Environment here = environment(plan.specification.train, options.program);
  Machine machine(plan, here);
  StartWeights weights;
  if (options.weights.empty()) {
    initialize(plan, *machine.engine);
  } else {
    checkpoint::load_weights(options.weights, plan.graph, parameters_of(*machine.engine));
    weights = {fs::absolute(options.weights), sha256_file(options.weights)};
  }
  const Texts texts = data::record_texts(plan.specification.data);
  const fs::path run =
      checkpoint::create_run(options.run, options.name,
                             {{"spec.toml", model::resolved_toml(plan.specification)},
                              {"env.json", environment_json(here, plan, texts, weights)},
                              {"tokenizer.json", plan.dataset.tokenizer->to_json()}});
  const checkpoint::RunLock lock(run);
  watcher.reporter.started(run);
  note_entropies(run, plan);
  const int64_t steps = plan.specification.train.steps;
  return go(plan, machine, {steps, steps, {}}, here, run, {}, watcher);
}

Outcome resume(const ResumeOptions& options, const formula::Catalogue& catalogue,
               const Watcher& watcher, const std::function<void(const Findings&)>& report) {
  const fs::path& run = options.run;
  const model::Specification before = run_specification(run, {}, catalogue);
  const checkpoint::RunLock lock(run);
  model::Specification now = run_specification(run, options.overrides, catalogue);
  const auto newest = checkpoint::newest_checkpoint(run);
  checkpoint::TrainState state =
      newest ? checkpoint::load_state(*newest) : checkpoint::TrainState{};

  const Extensions planned = read_extensions(run, before.train.steps);
  const int64_t wanted = options.steps                           ? *options.steps
                         : now.train.steps != before.train.steps ? now.train.steps
                                                                 : planned.steps;
  const Extensions extensions = extended(options, now.train, planned, state, wanted);
  now.train.steps = extensions.steps;

  const std::string recorded = read_run_file(run, "env.json");
  const std::vector<std::string> changes = changed_keys(before, now);
  const Texts texts = data::record_texts(now.data);
  Findings findings = compare_texts(recorded_texts(recorded), texts, options, changes);
  Findings elsewhere = findings;  // what the metrics keep as notes
  const Plan plan = make_plan(now, catalogue, run_tokenizer(run));
  const auto add = [&](const Findings& more) {
    findings.insert(findings.end(), more.begin(), more.end());
  };
  add(plan.findings);
  const Environment here = environment(now.train, options.program);
  for (const std::string& change : changes) findings.push_back({Level::warning, "changed", change});
  if (newest) {
    const Findings machine = compare_environments(state, here);
    add(machine);
    elsewhere.insert(elsewhere.end(), machine.begin(), machine.end());
  }
  if (extensions.list.size() > planned.list.size()) add(judge_extension(now.train, extensions));
  const bool no_metrics = newest && !fs::exists(run / "metrics.jsonl");
  if (no_metrics) add({missing_metrics(run, state)});
  report(findings);

  Machine machine(plan, here);
  if (newest) {
    const auto moments = moment_tensors(machine.optimizer, plan.graph);
    state = checkpoint::load_checkpoint(*newest, weight_tensors(*machine.engine), &moments);
  } else {
    watcher.reporter.note("there is no checkpoint yet: the run starts over");
    start_over(plan, *machine.engine, start_weights(recorded));
  }

  // From here on the run changes.
  checkpoint::discard_metrics_after(run, newest ? state.step : -1);
  if (extensions.list.size() > planned.list.size()) write_extensions(run, extensions);
  if (!changes.empty())
    write_file_atomic(run / "spec.toml", model::resolved_toml(plan.specification));
  write_file_atomic(run / "env.json", with_session(recorded, state.step, here, texts, changes));
  if (!newest || no_metrics) note_entropies(run, plan);
  for (const std::string& change : changes) note_resume(run, state.step, "resumed with " + change);
  for (const Finding& finding : elsewhere)
    note_resume(run, state.step, "resumed: " + finding.message);
  watcher.reporter.started(run);
  return go(plan, machine, extensions, here, run, state, watcher);
}

}  // namespace addnorm::train
