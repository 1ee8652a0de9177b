// The verbs `spec` and `init` as a user runs them.
#include <gtest/gtest.h>
#include <sys/wait.h>

#include <array>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "addnorm/base/files.h"
#include "addnorm/checkpoint/safetensors.h"
#include "addnorm/model/init.h"
#include "support.h"

namespace addnorm::test {
namespace {

struct Ran {
  int code = -1;
  std::string output;  // standard output, or both where the command says so
};

Ran run(const std::string& command) {
  Ran ran;
  FILE* pipe = ::popen(command.c_str(), "r");
  std::array<char, 4096> buffer;
  for (size_t n = 0; (n = std::fread(buffer.data(), 1, buffer.size(), pipe)) > 0;) {
    ran.output.append(buffer.data(), n);
  }
  const int status = ::pclose(pipe);
  ran.code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  return ran;
}

std::string program(const std::string& arguments) { return ADDNORM_PROGRAM " " + arguments; }

TEST(SpecVerb, PrintsASpecificationThatLoads) {
  const Ran ran = run(program("spec"));
  EXPECT_EQ(ran.code, 0);
  EXPECT_EQ(ran.output, model::commented_default());
  EXPECT_EQ(run(program("spec --docs")).output, model::documentation());
}

TEST(InitVerb, TableWeightsAndProblems) {
  const TemporaryFolder folder;
  const fs::path spec = folder.path() / "spec.toml", weights = folder.path() / "w.safetensors";
  write_file_atomic(spec, small("", "deepnorm"));
  Ran ran = run(program("init " + spec.string() + " --report --json --out " + weights.string() +
                        " --seed 3 --model.layers 3"));
  EXPECT_EQ(ran.code, 0);
  const auto json = nlohmann::json::parse(ran.output);
  EXPECT_EQ(json.at("passed"), true);

  const auto loaded = parsed(small("", "deepnorm"), {{"model.layers", "3"}});
  const auto shape = shape_of(loaded);
  const auto graph = graph::lower(shape);
  const auto rules = model::init_rules(loaded, shape, graph);
  ASSERT_EQ(json.at("tensors").size(), rules.size());
  const auto file = checkpoint::SafetensorsFile::open(weights);
  ASSERT_EQ(file.tensors().size(), rules.size());
  for (size_t i = 0; i < rules.size(); ++i) {
    const auto& parameter = graph.parameters[i];
    EXPECT_EQ(json.at("tensors")[i].at("tensor"), parameter.name);
    const auto& tensor = file.at(parameter.name);
    EXPECT_EQ(tensor.shape, parameter.dims);
    std::vector<float> got(static_cast<size_t>(tensor.count)), want(got.size());
    file.read_float(tensor, got);
    model::fill(rules[i], 3, parameter.name, std::span<float>(want));
    EXPECT_EQ(got, want) << parameter.name;
  }
  ran = run(program("init " + spec.string()));
  EXPECT_TRUE(contains(ran.output, "blocks.0.attn.v.weight")) << ran.output;
  EXPECT_TRUE(contains(ran.output, "xavier_normal((8*L)^(-1/4))")) << ran.output;

  ran = run(program("init " + spec.string() + " --model.widht 3 --model.heads 3 2>&1"));
  EXPECT_EQ(ran.code, 2);
  EXPECT_TRUE(contains(ran.output, "[--model.widht]")) << ran.output;
  EXPECT_TRUE(contains(ran.output, "[--model.heads] expected a divisor of width 16")) << ran.output;
  ran = run(program("init " + spec.string() + " --model.wiring 'x = x + f(norm(x))' 2>&1"));
  EXPECT_EQ(ran.code, 0);
  EXPECT_TRUE(contains(ran.output, "no final norm")) << ran.output;
}

// Case D7: the block weights alone are 18.4 GiB.
TEST(InitMemoryLimit, SampledRowsOfAModelThatDoesNotFit) {
  const TemporaryFolder folder;
  const fs::path spec = folder.path() / "wide.toml";
  write_file_atomic(spec,
                    "[model]\nkind = \"decoder\"\nlayers = 2\nwidth = 14336\nheads = 112\n"
                    "ffn = 57344\nvocab = 256\ncontext = 64\nwiring = \"pre-ln\"\n"
                    "[init]\ndefault = \"normal(0.02)\"\n");
  const Ran ran = run("ulimit -v 2097152; " + program("init " + spec.string() + " --report 2>&1"));
  EXPECT_EQ(ran.code, 0) << ran.output;
  EXPECT_TRUE(contains(ran.output, "4.148 times 1/sqrt(3*d) = 0.004822")) << ran.output;
  EXPECT_TRUE(contains(ran.output, "3.786 times sqrt(2/(5*d)) = 0.0052822")) << ran.output;
  EXPECT_TRUE(contains(ran.output, "sampled rows of 822083584")) << ran.output;
}

}  // namespace
}  // namespace addnorm::test
