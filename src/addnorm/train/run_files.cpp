#include "addnorm/train/run_files.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "addnorm/base/error.h"
#include "addnorm/base/files.h"
#include "addnorm/base/threads.h"
#include "addnorm/kernels/kernels.h"

namespace addnorm::train {
namespace {

using Json = nlohmann::ordered_json;

constexpr uint64_t json_limit = uint64_t{1} << 24;

Json parse(const std::string& text, const std::string& file) {
  try {
    return Json::parse(text);
  } catch (const Json::exception& error) {
    fail_input(file, fmt::format("expected JSON, got {}", error.what()));
  }
}

Json session(int64_t from_step, const Environment& environment,
             const std::vector<std::string>& changes) {
  Json json;
  json["from_step"] = from_step;
  json["program"] = environment.program;
  json["threads"] = environment.threads;
  json["instruction_set"] = environment.instruction_set;
  if (!changes.empty()) json["changes"] = changes;
  return json;
}

}  // namespace

Environment environment(const model::TrainSection& train, const std::string& program) {
  Environment result;
  result.program = program;
  if (train.threads > 0) {
    result.threads = train.threads;
    result.threads_source = "train.threads";
  } else {
    const CoreCount cores = allowed_cores();
    result.threads = cores.cores;
    result.threads_source = cores.source;
  }
  result.seed = train.seed;
  result.instruction_set = kernels::instruction_set();
  result.compiler = __VERSION__;
  return result;
}

std::string environment_json(const Environment& environment, const Plan& plan,
                             const StartWeights& weights) {
  Json json;
  json["program"] = environment.program;
  json["threads"] = environment.threads;
  json["threads_source"] = environment.threads_source;
  json["seed"] = environment.seed;
  json["instruction_set"] = environment.instruction_set;
  json["compiler"] = environment.compiler;
  json["warmup_steps"] = model::warmup_steps(plan.specification.train);
  json["parameters"] = plan.graph.parameter_count();
  if (!weights.file.empty()) {
    json["weights"] = {{"file", weights.file.string()}, {"sha256", weights.sha256}};
  }
  json["sessions"] = Json::array({session(0, environment, {})});
  return json.dump(2) + "\n";
}

std::string with_session(const std::string& env_json, int64_t from_step,
                         const Environment& environment, const std::vector<std::string>& changes) {
  Json json = parse(env_json, "env.json");
  json["threads"] = environment.threads;
  json["threads_source"] = environment.threads_source;
  json["seed"] = environment.seed;
  json["instruction_set"] = environment.instruction_set;
  json["sessions"].push_back(session(from_step, environment, changes));
  return json.dump(2) + "\n";
}

StartWeights start_weights(const std::string& env_json) {
  const Json json = parse(env_json, "env.json");
  const auto found = json.find("weights");
  if (found == json.end()) return {};
  return {found->value("file", ""), found->value("sha256", "")};
}

Extensions read_extensions(const std::filesystem::path& run, int64_t steps) {
  const std::filesystem::path file = run / "extensions.json";
  if (!std::filesystem::exists(file)) return {steps, steps, {}};
  const Json json = parse(read_file(file, json_limit), file.string());
  try {
    Extensions extensions{json.at("base_steps"), json.at("steps"), {}};
    for (const Json& one : json.at("extensions")) {
      extensions.list.push_back(
          {one.at("after"), one.at("added"), parse_extend(one.at("how").get<std::string>())});
    }
    return extensions;
  } catch (const Json::exception& error) {
    fail_input(file.string(),
               fmt::format("expected the extensions of a run, got {}", error.what()));
  }
}

void write_extensions(const std::filesystem::path& run, const Extensions& extensions) {
  Json json;
  json["base_steps"] = extensions.base_steps;
  json["steps"] = extensions.steps;
  json["extensions"] = Json::array();
  for (const Extension& one : extensions.list) {
    json["extensions"].push_back(
        {{"after", one.after}, {"added", one.added}, {"how", extend_name(one.how)}});
  }
  write_file_atomic(run / "extensions.json", json.dump(2) + "\n");
}

}  // namespace addnorm::train
