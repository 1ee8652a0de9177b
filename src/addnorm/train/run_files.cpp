#include "addnorm/train/run_files.h"

#include <fmt/format.h>

#include <algorithm>
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
    Json json = Json::parse(text);
    if (json.is_object() && json.value("sessions", Json::array()).is_array()) return json;
  } catch (const Json::exception& error) {
    fail_input(file, fmt::format("expected JSON, got {}", error.what()));
  }
  fail_input(file,
             "expected a JSON object as a run writes it, got something else; put it back from a "
             "copy");
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

Json texts_json(const Texts& texts) {
  Json json = Json::array();
  for (const data::TextRecord& text : texts) {
    json.push_back({{"file", text.file}, {"bytes", text.bytes}, {"sha256", text.sha256}});
  }
  return json;
}

std::string described(const data::TextRecord& text) {
  return fmt::format("{} bytes with SHA-256 {}..", text.bytes, text.sha256.substr(0, 16));
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

std::string environment_json(const Environment& environment, const Plan& plan, const Texts& texts,
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
  json["texts"] = texts_json(texts);
  if (!weights.file.empty()) {
    json["weights"] = {{"file", weights.file.string()}, {"sha256", weights.sha256}};
  }
  json["sessions"] = Json::array({session(0, environment, {})});
  return json.dump(2) + "\n";
}

std::string with_session(const std::string& env_json, int64_t from_step,
                         const Environment& environment, const Texts& texts,
                         const std::vector<std::string>& changes) {
  Json json = parse(env_json, "env.json");
  json["threads"] = environment.threads;
  json["threads_source"] = environment.threads_source;
  json["seed"] = environment.seed;
  json["instruction_set"] = environment.instruction_set;
  json["texts"] = texts_json(texts);
  json["sessions"].push_back(session(from_step, environment, changes));
  return json.dump(2) + "\n";
}

StartWeights start_weights(const std::string& env_json) {
  const Json json = parse(env_json, "env.json");
  const auto found = json.find("weights");
  if (found == json.end()) return {};
  return {found->value("file", ""), found->value("sha256", "")};
}

std::optional<Texts> recorded_texts(const std::string& env_json) {
  const Json json = parse(env_json, "env.json");
  const auto found = json.find("texts");
  if (found == json.end()) return std::nullopt;
  try {
    Texts texts;
    for (const Json& one : *found) {
      texts.push_back({one.at("file").get<std::string>(), one.at("bytes").get<uint64_t>(),
                       one.at("sha256").get<std::string>()});
    }
    return texts;
  } catch (const Json::exception& error) {
    fail_input("env.json", fmt::format("expected the texts of a run, got {}", error.what()));
  }
}

Finding text_difference(const Texts& recorded, const Texts& now) {
  const size_t common = std::min(recorded.size(), now.size());
  size_t at = 0;
  while (at < common && recorded[at].bytes == now[at].bytes &&
         recorded[at].sha256 == now[at].sha256) {
    ++at;
  }
  if (at == recorded.size() && at == now.size()) return {};
  std::string was = "which had no such file", is = "no such file";
  std::string file;
  if (at < recorded.size()) {
    was = described(recorded[at]);
    file = recorded[at].file;
  }
  if (at < now.size()) {
    is = described(now[at]);
    if (!file.empty() && file != now[at].file) was = file + ", " + was;
    file = now[at].file;
  }
  return {Level::warning, file,
          fmt::format("expected the text that the run was trained on, {}, got {}", was, is)};
}

std::string read_run_file(const std::filesystem::path& run, const std::string& name) {
  const std::filesystem::path file = run / name;
  if (std::filesystem::exists(file)) return read_file(file, json_limit);
  fail_input(file.string(),
             "expected this file of the run, got none; put it back from a copy" +
                 std::string(name == "env.json" ? ", or write {} into it to go on without what it "
                                                  "recorded: machine, text, starting weights"
                                                : ""));
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
