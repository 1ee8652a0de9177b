// Every golden case through `addnorm grad`, in double and in float, with the stated tolerances.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <set>

#include "addnorm/checkpoint/safetensors.h"

namespace {

namespace fs = std::filesystem;
using addnorm::checkpoint::SafetensorsFile;

std::vector<std::string> cases() {
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(ADDNORM_TEST_DATA "/golden")) {
    if (entry.is_directory()) names.push_back(entry.path().filename());
  }
  std::sort(names.begin(), names.end());
  return names;
}

struct Run {
  std::string name, precision;
};

class Golden : public testing::TestWithParam<Run> {};

std::set<std::string> names_of(const SafetensorsFile& file) {
  std::set<std::string> names;
  for (const auto& tensor : file.tensors()) names.insert(tensor.name);
  return names;
}

double largest(const std::vector<double>& values) {
  double most = 0;
  for (const double value : values) most = std::max(most, std::abs(value));
  return most;
}

TEST_P(Golden, Agrees) {
  const fs::path folder = fs::path(ADDNORM_TEST_DATA "/golden") / GetParam().name;
  const fs::path out =
      fs::path(testing::TempDir()) / ("golden-" + GetParam().name + GetParam().precision);
  const auto want = SafetensorsFile::open(folder / "expected.safetensors");
  std::set<std::string> wanted = names_of(want);
  const bool points = std::any_of(wanted.begin(), wanted.end(), [](const std::string& name) {
    return name.starts_with("point:");
  });
  const std::string command = std::string(ADDNORM_PROGRAM) + " grad " +
                              (folder / "spec.toml").string() + " --weights " +
                              (folder / "weights.safetensors").string() + " --batch " +
                              (folder / "batch.safetensors").string() + " --out " + out.string() +
                              " --precision " + GetParam().precision + (points ? " --points" : "") +
                              " > /dev/null 2>" + out.string() + ".log";
  ASSERT_EQ(std::system(command.c_str()), 0) << addnorm::read_file(out.string() + ".log");
  const auto got = SafetensorsFile::open(out);
  EXPECT_EQ(names_of(got), wanted);
  double largest_gradient = 0;
  for (const auto& tensor : want.tensors()) {
    if (tensor.name.starts_with("grad")) {
      largest_gradient = std::max(largest_gradient, largest(want.read_double(tensor)));
    }
  }
  const double tolerance = GetParam().precision == "double" ? 1e-9 : 1e-4;
  for (const auto& tensor : want.tensors()) {
    const auto* found = got.find(tensor.name);
    if (found == nullptr) continue;  // the names were compared above
    EXPECT_EQ(found->shape, tensor.shape) << tensor.name;
    const auto expected = want.read_double(tensor), actual = got.read_double(*found);
    ASSERT_EQ(expected.size(), actual.size()) << tensor.name;
    const double floor = tensor.name.starts_with("grad") ? 0.01 * largest_gradient : 0;
    const double scale = std::max(largest(expected), floor);
    double worst = 0;
    for (size_t i = 0; i < expected.size(); ++i)
      worst = std::max(worst, std::abs(expected[i] - actual[i]));
    EXPECT_LE(worst, tolerance * scale) << tensor.name;
  }
  fs::remove(out);
  fs::remove(out.string() + ".log");
}

std::vector<Run> runs() {
  std::vector<Run> all;
  for (const std::string& name : cases()) {
    all.push_back({name, "double"});
    all.push_back({name, "float"});
  }
  return all;
}

INSTANTIATE_TEST_SUITE_P(All, Golden, testing::ValuesIn(runs()), [](const auto& run) {
  std::string name = run.param.name + "_" + run.param.precision;
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
});

TEST(GoldenCases, AllThirtySevenAreThere) { EXPECT_EQ(cases().size(), 37U); }

}  // namespace
