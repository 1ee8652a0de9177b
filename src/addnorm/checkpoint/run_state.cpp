#include "addnorm/checkpoint/run_state.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <nlohmann/json.hpp>

#include "addnorm/base/error.h"
#include "addnorm/base/sha256.h"
#include "addnorm/base/text.h"

namespace addnorm::checkpoint {
namespace {

using Json = nlohmann::ordered_json;

constexpr const char* tensor_files[] = {"model.safetensors", "optimizer.safetensors"};

std::string reason() { return std::strerror(errno); }

fs::path checkpoint_folder(const fs::path& run, int64_t step) {
  return run / "checkpoints" / fmt::format("{:06}", step);
}

bool is_number(const std::string& name) {
  return !name.empty() && name.find_first_not_of("0123456789") == std::string::npos;
}

// base/files.h names its temporary files ".NAME.tmp-...".
bool is_temporary(const std::string& name) {
  return name.starts_with(".") && name.find(".tmp-") != std::string::npos;
}

void make_folder(const fs::path& folder) {
  std::error_code code;
  fs::create_directories(folder, code);
  if (code) {
    fail_system(folder.string(), "creating the folder failed: " + code.message() + "; " +
                                     remedy(code.value(), "try another folder"));
  }
}

std::vector<TensorOut> to_file(const std::vector<Tensor>& tensors) {
  std::vector<TensorOut> out;
  for (const Tensor& tensor : tensors) {
    TensorOut one;
    one.name = tensor.name;
    one.type = ElementType::f32;
    one.shape = tensor.shape;
    one.data = tensor.values.data();
    out.push_back(std::move(one));
  }
  return out;
}

std::vector<Wanted> wanted(const std::vector<Tensor>& tensors) {
  std::vector<Wanted> all;
  for (const Tensor& tensor : tensors)
    all.push_back({tensor.name, tensor.shape, tensor.values, {}});
  return all;
}

Json state_json(const TrainState& state) {
  Json json;
  json["step"] = state.step;
  json["updates"] = state.updates;
  json["skipped_steps"] = state.skipped_steps;
  json["nonfinite_steps"] = state.nonfinite_steps;
  json["skipped_in_row"] = state.skipped_in_row;
  json["tokens"] = state.tokens;
  json["seconds"] = state.seconds;
  json["clip_window"] = state.clip_window;
  json["seed"] = state.seed;
  json["threads"] = state.threads;
  json["instruction_set"] = state.instruction_set;
  json["program"] = state.program;
  return json;
}

TrainState state_from(const Json& json) {
  TrainState state;
  json.at("step").get_to(state.step);
  json.at("updates").get_to(state.updates);
  json.at("skipped_steps").get_to(state.skipped_steps);
  json.at("nonfinite_steps").get_to(state.nonfinite_steps);
  json.at("skipped_in_row").get_to(state.skipped_in_row);
  json.at("tokens").get_to(state.tokens);
  json.at("seconds").get_to(state.seconds);
  json.at("clip_window").get_to(state.clip_window);
  json.at("seed").get_to(state.seed);
  json.at("threads").get_to(state.threads);
  json.at("instruction_set").get_to(state.instruction_set);
  json.at("program").get_to(state.program);
  return state;
}

[[noreturn]] void fail_damaged(const fs::path& file, const std::string& what) {
  fail_input(file.string(),
             what + "; the checkpoint is damaged: put the file back, or remove the folder " +
                 file.parent_path().string() +
                 " to go on from the checkpoint before it, or from the start where there is none");
}

void require(const fs::path& file) {
  if (!fs::exists(file)) fail_damaged(file, "expected this file of the checkpoint, got none");
}

// state.json, judged against DONE.
Json read_state(const fs::path& checkpoint) {
  const fs::path file = checkpoint / "state.json";
  require(file);
  const std::string text = read_file(file, uint64_t{1} << 24);
  if (trim(read_file(checkpoint / "DONE", 4096)) != sha256(text)) {
    fail_damaged(file, "expected the checksum that DONE holds, got another");
  }
  try {
    return Json::parse(text);
  } catch (const Json::exception& error) {
    fail_damaged(file, fmt::format("expected JSON, got {}", error.what()));
  }
}

void verify(const fs::path& checkpoint, const Json& json, const char* name) {
  const fs::path file = checkpoint / name;
  require(file);
  const std::string expected = json.at("sha256").at(name);
  const std::string got = sha256_file(file);
  if (got != expected) {
    fail_damaged(file, fmt::format("expected sha256 {}, got {}", expected, got));
  }
}

void remove_leftovers(const fs::path& run) {
  std::error_code code;  // what cannot be removed stays ignored, as it is
  for (const fs::path& path : leftovers(run)) fs::remove_all(path, code);
}

void write_checkpoint(const fs::path& folder, const TrainState& state,
                      const std::vector<Tensor>& model, const std::vector<Tensor>& optimizer) {
  make_folder(folder);
  write_safetensors(folder / tensor_files[0], to_file(model));
  write_safetensors(folder / tensor_files[1], to_file(optimizer));
  Json json = state_json(state);
  for (const char* name : tensor_files) json["sha256"][name] = sha256_file(folder / name);
  const std::string text = json.dump(2) + "\n";
  write_file_atomic(folder / "state.json", text);
  write_file_atomic(folder / "DONE", sha256(text) + "\n");
  sync_folder(folder.parent_path());
}

void append(const fs::path& file, const std::string& text) {
  const std::string before = fs::exists(file) ? read_file(file) : "";
  write_file_atomic(file, before + text);
}

// The step of a complete metrics line; nothing where it is not a JSON object with one.
std::optional<int64_t> step_of(std::string_view line) {
  const Json json = Json::parse(line, nullptr, false);
  if (!json.is_object()) return std::nullopt;
  const auto found = json.find("step");
  if (found == json.end() || !found->is_number_integer()) return std::nullopt;
  return found->get<int64_t>();
}

[[noreturn]] void refuse_existing(const fs::path& folder) {
  const bool run = fs::exists(folder / "spec.toml");
  fail_input("--run",
             fmt::format("expected a new folder, got {}, which exists; try {}another name",
                         folder.string(),
                         run ? fmt::format("`addnorm resume {}` or ", folder.string()) : ""));
}

// `temporary` to `folder` unless that exists. rename() itself replaces an empty folder.
bool rename_new(const fs::path& temporary, const fs::path& folder) {
  if (::renameat2(AT_FDCWD, temporary.c_str(), AT_FDCWD, folder.c_str(), RENAME_NOREPLACE) == 0) {
    return true;
  }
  if (errno == EEXIST || errno == ENOTEMPTY) return false;
  if (errno != EINVAL && errno != ENOSYS) {
    fail_system(folder.string(), "creating the run failed: " + reason());
  }
  // A file system without the flag.
  if (fs::exists(folder)) return false;
  if (::rename(temporary.c_str(), folder.c_str()) == 0) return true;
  if (errno == EEXIST || errno == ENOTEMPTY || errno == ENOTDIR) return false;
  fail_system(folder.string(), "creating the run failed: " + reason());
}

}  // namespace

void require_new(const fs::path& folder) {
  std::error_code code;
  if (fs::symlink_status(folder, code).type() != fs::file_type::not_found) refuse_existing(folder);
}

fs::path create_run(const fs::path& folder, const std::string& name,
                    const std::map<std::string, std::string>& files) {
  std::error_code code;
  const bool named = !folder.empty();
  fs::path target = named ? fs::absolute(folder).lexically_normal() : fs::path("runs");
  if (named && !target.has_filename()) target = target.parent_path();  // "runs/a/"
  if (named) require_new(target);
  const fs::path parent = named ? target.parent_path() : target;
  make_folder(parent);

  const fs::path temporary =
      parent / fmt::format(".{}.tmp-{}", named ? target.filename().string() : name, ::getpid());
  fs::remove_all(temporary, code);
  make_folder(temporary);
  try {
    for (const auto& [file, content] : files) write_file_atomic(temporary / file, content);
    if (named) {
      if (!rename_new(temporary, target)) refuse_existing(folder);
      sync_folder(parent);
      return folder;
    }
    for (int number = 1;; ++number) {
      const fs::path numbered = parent / fmt::format("{}-{}", name, number);
      if (!rename_new(temporary, numbered)) continue;
      sync_folder(parent);
      return numbered;
    }
  } catch (...) {
    fs::remove_all(temporary, code);
    throw;
  }
}

RunLock::RunLock(const fs::path& run) {
  folder_ = ::open(run.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (folder_ < 0) {
    fail_input(run.string(), "expected the folder of a run, got: " + reason() +
                                 "; try the path that `addnorm train` printed");
  }
  if (::flock(folder_, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK) {
    ::close(folder_);
    fail_input(run.string(),
               "expected a run that no other process writes, got one in use; wait for "
               "that process or end it");
  }
}

RunLock::~RunLock() { ::close(folder_); }

int64_t discard_metrics_after(const fs::path& run, int64_t step) {
  const fs::path file = run / "metrics.jsonl";
  if (!fs::exists(file)) return 0;
  const std::string text = read_file(file);
  std::string kept;
  std::string discarded;
  int64_t moved = 0;
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = text.find('\n', begin);
    const bool torn = end == std::string::npos;
    std::string line = text.substr(begin, torn ? end : end + 1 - begin);
    begin = torn ? text.size() : end + 1;
    const auto line_step = torn ? std::nullopt : step_of(line);
    if (line_step && *line_step <= step) {
      kept += line;
      continue;
    }
    discarded += line;
    if (torn) discarded += '\n';
    ++moved;
  }
  if (moved == 0) return 0;
  append(run / "metrics.discarded.jsonl", discarded);
  write_file_atomic(file, kept);
  return moved;
}

fs::path save_checkpoint(const fs::path& run, const TrainState& state,
                         const std::vector<Tensor>& model, const std::vector<Tensor>& optimizer) {
  const fs::path folder = checkpoint_folder(run, state.step);
  remove_leftovers(run);
  if (fs::exists(folder / "DONE")) return folder;
  try {
    write_checkpoint(folder, state, model, optimizer);
  } catch (...) {
    std::error_code code;
    fs::remove_all(folder, code);
    throw;
  }
  return folder;
}

std::vector<fs::path> checkpoints(const fs::path& run) {
  std::vector<std::pair<long long, fs::path>> found;
  std::error_code code;
  for (const auto& entry : fs::directory_iterator(run / "checkpoints", code)) {
    const std::string name = entry.path().filename().string();
    if (is_number(name) && name.size() < 19 && fs::exists(entry.path() / "DONE")) {
      found.emplace_back(std::stoll(name), entry.path());
    }
  }
  std::sort(found.begin(), found.end());
  std::vector<fs::path> paths;
  for (auto& [step, path] : found) paths.push_back(std::move(path));
  return paths;
}

std::optional<fs::path> newest_checkpoint(const fs::path& run) {
  const auto all = checkpoints(run);
  return all.empty() ? std::nullopt : std::optional(all.back());
}

std::vector<fs::path> leftovers(const fs::path& run) {
  std::vector<fs::path> found;
  std::error_code code;
  const auto temporaries = [&](const fs::path& folder) {
    for (const auto& entry : fs::directory_iterator(folder, code)) {
      if (is_temporary(entry.path().filename().string())) found.push_back(entry.path());
    }
  };
  // At the top only those of files that this process writes: a report in the making is not ours.
  for (const auto& entry : fs::directory_iterator(run, code)) {
    const std::string name = entry.path().filename().string();
    for (const char* own : {".metrics.", ".spec.toml", ".env.json", ".extensions.json"}) {
      if (is_temporary(name) && name.starts_with(own)) found.push_back(entry.path());
    }
  }
  temporaries(run / "checkpoints");
  for (const auto& entry : fs::directory_iterator(run / "checkpoints", code)) {
    if (!is_number(entry.path().filename().string())) continue;
    if (fs::exists(entry.path() / "DONE")) {
      temporaries(entry.path());
    } else {
      found.push_back(entry.path());
    }
  }
  std::sort(found.begin(), found.end());
  return found;
}

TrainState load_state(const fs::path& checkpoint) {
  const Json json = read_state(checkpoint);
  try {
    return state_from(json);
  } catch (const Json::exception& error) {
    fail_damaged(checkpoint / "state.json", fmt::format("expected its keys, got {}", error.what()));
  }
}

TrainState verify_checkpoint(const fs::path& checkpoint) {
  const Json json = read_state(checkpoint);
  for (const char* name : tensor_files) verify(checkpoint, json, name);
  return load_state(checkpoint);
}

TrainState load_checkpoint(const fs::path& checkpoint, const std::vector<Tensor>& model,
                           const std::vector<Tensor>* optimizer) {
  const Json json = read_state(checkpoint);
  const TrainState state = load_state(checkpoint);
  verify(checkpoint, json, tensor_files[0]);
  read_tensors(SafetensorsFile::open(checkpoint / tensor_files[0]), wanted(model));
  if (optimizer != nullptr) {
    verify(checkpoint, json, tensor_files[1]);
    read_tensors(SafetensorsFile::open(checkpoint / tensor_files[1]), wanted(*optimizer));
  }
  return state;
}

}  // namespace addnorm::checkpoint
