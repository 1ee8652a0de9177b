// What the cases of cases.md share: the program as a user runs it, the zero model, and files for it.
#pragma once

#include <gtest/gtest.h>
#include <sys/wait.h>

#include <cmath>
#include <cstdlib>
#include <fstream>
#include <map>
#include <string>
#include <vector>

#include "addnorm/base/files.h"
#include "addnorm/base/random.h"
#include "addnorm/checkpoint/batch_file.h"
#include "addnorm/checkpoint/safetensors.h"
#include "addnorm/graph/lower.h"
#include "addnorm/model/specification.h"
#include "support/temporary.h"

namespace addnorm::cases {

using Values = std::vector<double>;
using Tensors = std::map<std::string, Values>;
using Arguments = std::vector<std::string>;

inline std::string shell_word(const std::string& text) {
  std::string result = "'";
  for (const char c : text) result += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return result + "'";
}

struct Ran {
  int code = -1;  // 128 + signal where one ended it
  std::string out, err;

  bool says(const std::string& text) const { return err.find(text) != std::string::npos; }
  bool prints(const std::string& text) const { return out.find(text) != std::string::npos; }
};

inline size_t occurrences(const std::string& text, const std::string& part) {
  size_t count = 0;
  for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++count;
  return count;
}

struct Graded {
  Ran ran;
  Tensors tensors;  // empty where no file was written
  bool written = false;

  const Values& operator[](const std::string& name) const {
    const auto found = tensors.find(name);
    if (found != tensors.end()) return found->second;
    ADD_FAILURE() << "no tensor " << name << "\n" << ran.err;
    static const Values none;
    return none;
  }
};

// A folder with files of one case.
class Bench {
 public:
  fs::path path(const std::string& name) const { return folder_.path() / name; }
  std::string write(const std::string& name, const std::string& content) const {
    std::ofstream(path(name), std::ios::binary) << content;
    return path(name).string();
  }

  // `before` is put in front of the program, e.g. "ulimit -v 100000; exec ".
  Ran run(const Arguments& arguments, const std::string& before = "exec ") const {
    std::string command = before + shell_word(ADDNORM_PROGRAM);
    for (const std::string& argument : arguments) command += " " + shell_word(argument);
    command += " >" + shell_word(path("stdout").string()) + " 2>" +
               shell_word(path("stderr").string()) + " </dev/null";
    const int status = std::system(command.c_str());
    Ran ran;
    ran.code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    ran.out = read_file(path("stdout"));
    ran.err = read_file(path("stderr"));
    return ran;
  }

  std::string weights(const std::string& name, const graph::Graph& graph,
                      const Tensors& values) const {
    std::vector<checkpoint::TensorOut> tensors;
    for (const graph::Parameter& parameter : graph.parameters) {
      tensors.push_back({parameter.name,
                         checkpoint::ElementType::f64,
                         parameter.dims,
                         values.at(parameter.name).data(),
                         {}});
    }
    checkpoint::write_safetensors(path(name), tensors);
    return path(name).string();
  }
  std::string batch(const std::string& name, const nodes::Batch& batch) const {
    checkpoint::write_batch(path(name), batch);
    return path(name).string();
  }

  // `addnorm grad --points`, with what it wrote.
  Graded grad(const std::string& spec, const std::string& weights, const std::string& batch,
              const Arguments& more = {}) const {
    const fs::path out = path("out.safetensors");
    fs::remove(out);
    Arguments arguments = {"grad", spec,    "--weights",  weights,   "--batch",
                           batch,  "--out", out.string(), "--points"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    Graded graded;
    graded.ran = run(arguments);
    graded.written = fs::exists(out);
    if (graded.written) {
      const auto file = checkpoint::SafetensorsFile::open(out);
      for (const auto& tensor : file.tensors()) {
        graded.tensors[tensor.name] = file.read_double(tensor);
      }
    }
    return graded;
  }

 private:
  test::TemporaryFolder folder_;
};

inline graph::Graph lowered(const std::string& toml, const model::Overrides& overrides = {}) {
  const auto& catalogue = formula::Catalogue::builtin();
  const auto specification =
      model::parse(toml, "spec.toml", overrides, model::Needs::model, catalogue);
  return graph::lower(model::shape(specification, catalogue));
}

// cases.md, Conventions.
inline std::string zero_toml(const std::string& more = "") {
  return "[model]\nkind = \"decoder\"\nlayers = 1\nwidth = 4\nheads = 1\nffn = 4\n"
         "activation = \"relu\"\npositions = \"none\"\nnorm = \"layernorm\"\nnorm_eps = 1e-12\n"
         "tie_embeddings = false\nvocab = 256\ncontext = 128\nwiring = \"pre-ln\"\n" +
         more;
}
inline Tensors zero_weights(const graph::Graph& graph) {
  Tensors values;
  for (const graph::Parameter& parameter : graph.parameters) {
    values[parameter.name].assign(static_cast<size_t>(parameter.size()),
                                  parameter.matrix ? 0 : parameter.start);
  }
  const auto row = [](Values& table, size_t id, const Values& numbers) {
    std::copy(numbers.begin(), numbers.end(), table.begin() + static_cast<std::ptrdiff_t>(id * 4));
  };
  for (auto& [name, table] : values) {
    if (!name.ends_with("embed.tokens.weight")) continue;
    row(table, 97, {1, 2, 3, 4});
    row(table, 98, {1, 0, 0, 0});
    row(table, 99, {0, 1, 0, -1});
  }
  for (size_t i = 0; i < 4; ++i) values["head.weight"][(97 + i) * 4 + i] = 1;
  return values;
}

// N(0, 0.4^2) for matrices, start values moved by N(0, 0.1^2) for the rest.
inline Tensors random_weights(const graph::Graph& graph, uint64_t seed = 3) {
  Tensors values;
  for (const graph::Parameter& parameter : graph.parameters) {
    const Random random(seed, parameter.name);
    Values& to = values[parameter.name];
    for (int64_t i = 0; i < parameter.size(); ++i) {
      const double noise = random.normal(static_cast<uint64_t>(i));
      to.push_back(parameter.matrix ? 0.4 * noise : parameter.start + 0.1 * noise);
    }
  }
  return values;
}

inline nodes::Batch tokens(const std::vector<std::vector<int32_t>>& rows,
                           const std::vector<std::vector<int32_t>>& targets,
                           const std::vector<std::vector<uint8_t>>& mask = {}) {
  nodes::Batch batch;
  batch.sequences = static_cast<int64_t>(rows.size());
  batch.length = static_cast<int64_t>(rows.front().size());
  for (const auto& row : rows) batch.tokens.insert(batch.tokens.end(), row.begin(), row.end());
  for (const auto& row : targets) batch.targets.insert(batch.targets.end(), row.begin(), row.end());
  for (const auto& row : mask) batch.mask.insert(batch.mask.end(), row.begin(), row.end());
  return batch;
}

inline double largest(const Values& values) {
  double most = 0;
  for (const double value : values) most = std::max(most, std::abs(value));
  return most;
}
inline double distance(const Values& a, const Values& b) {
  if (a.size() != b.size()) return INFINITY;
  double most = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    const double off = std::abs(a[i] - b[i]);
    most = off <= most ? most : off;  // a NaN stays
  }
  return most;
}
inline Values rows_of(const Values& values, int64_t width, int64_t first, int64_t count) {
  return {values.begin() + first * width, values.begin() + (first + count) * width};
}
inline void expect_finite(const Tensors& tensors) {
  for (const auto& [name, values] : tensors) {
    for (const double value : values) ASSERT_TRUE(std::isfinite(value)) << name;
  }
}

// The ways to compute that a case must hold in, with the relative tolerance of closed forms.
struct Precision {
  const char* name;
  Arguments arguments;
  double tolerance;
  bool reference;
};
inline const std::vector<Precision>& precisions() {
  static const std::vector<Precision> all = {
      {"double", {"--precision", "double"}, 1e-9, true},
      {"float", {"--precision", "float"}, 1e-6, false},
      {"float reference", {"--precision", "float", "--engine", "reference"}, 1e-6, true}};
  return all;
}

}  // namespace addnorm::cases
