// Case F2 of cases.md and the bad input of files, through `inspect` and `grad`: every refusal has its exit
// code and its place, nothing hangs, nothing is half-written.
#include <sys/stat.h>

#include <chrono>

#include "cases/support.h"

namespace addnorm::cases {
namespace {

const fs::path malformed = ADDNORM_TEST_DATA "/malformed-safetensors";

// The rule and byte that the folder's README gives for each file that must be refused.
struct Malformed {
  const char *name, *rule, *tensor;
};
const std::vector<Malformed>& refused() {
  static const std::vector<Malformed> all = {
      {"zero_bytes", "prefix", ""},   {"seven_bytes", "prefix", ""},
      {"len_max", "length", ""},      {"neg_len", "length", ""},
      {"bad_utf8_name", "text", ""},  {"not_object", "object", ""},
      {"dup", "unique", "a"},         {"dtype_empty", "dtype", "lm_head.weight"},
      {"one_offset", "offsets", "a"}, {"reversed", "offsets", "a"},
      {"past_end", "inside", "a"},    {"shape_span", "size", "a"},
      {"overflow", "size", "a"},      {"overlap", "tiling", ""},
      {"hole", "tiling", ""}};
  return all;
}
std::string file_of(const std::string& name) {
  return (malformed / (name + ".safetensors")).string();
}

void expect_refused(const Ran& ran, const Malformed& file) {
  EXPECT_EQ(ran.code, 2) << file.name << ran.err;
  EXPECT_EQ(occurrences(ran.err, "\n"), 1U) << file.name << ": " << ran.err;
  EXPECT_TRUE(ran.out.empty()) << ran.out;
  EXPECT_TRUE(ran.says(file_of(file.name))) << ran.err;
  EXPECT_TRUE(ran.says("byte")) << ran.err;
  EXPECT_TRUE(ran.says(file.rule)) << file.rule << ": " << ran.err;
  EXPECT_TRUE(ran.says(file.tensor)) << ran.err;
}

TEST(F2, InspectRefusesEveryMalformedFileInOneLine) {
  const Bench bench;
  for (const Malformed& file : refused())
    expect_refused(bench.run({"inspect", file_of(file.name)}), file);
  EXPECT_EQ(refused().size(), 15U);
}

TEST(F2, InspectLoadsTheTwoGoodFiles) {
  const Bench bench;
  const Ran empty = bench.run({"inspect", file_of("empty_ok")});
  EXPECT_EQ(empty.code, 0) << empty.err;
  EXPECT_TRUE(empty.prints("0 tensors")) << empty.out;
  const Ran nan = bench.run({"inspect", file_of("nan_payload_ok")});
  EXPECT_EQ(nan.code, 0) << nan.err;
  EXPECT_TRUE(nan.prints("1 tensor,") && nan.prints("1 non-finite value")) << nan.out;
}

class GradFiles : public testing::Test {
 protected:
  GradFiles() {
    graph_ = lowered(zero_toml());
    spec_ = bench_.write("spec.toml", zero_toml());
    weights_ = bench_.weights("w.safetensors", graph_, zero_weights(graph_));
    batch_ = bench_.batch("b.safetensors", tokens({{97}}, {{97}}));
  }
  Bench bench_;
  graph::Graph graph_;
  std::string spec_, weights_, batch_;
};
using F2Grad = GradFiles;
using BadInput = GradFiles;

TEST_F(F2Grad, MalformedWeightsAndBatchesAreRefused) {
  for (const Malformed& file : refused()) {
    for (const bool as_weights : {true, false}) {
      const Graded graded = bench_.grad(spec_, as_weights ? file_of(file.name) : weights_,
                                        as_weights ? batch_ : file_of(file.name));
      expect_refused(graded.ran, file);
      EXPECT_FALSE(graded.written);
    }
  }
}

TEST_F(F2Grad, GoodFilesAreNoModelAndNoBatch) {
  const Graded empty = bench_.grad(spec_, file_of("empty_ok"), batch_);
  EXPECT_EQ(empty.ran.code, 2);
  for (const graph::Parameter& parameter : graph_.parameters) {
    EXPECT_TRUE(empty.ran.says(parameter.name)) << parameter.name;  // all missing ones at once
  }
  EXPECT_EQ(bench_.grad(spec_, weights_, file_of("empty_ok")).ran.code, 2);
  // A model whose only other tensors are right: the values are what is wrong.
  Tensors values = zero_weights(graph_);
  values.at("head.weight")[5] = NAN;
  const Graded nan = bench_.grad(spec_, bench_.weights("nan.safetensors", graph_, values), batch_);
  EXPECT_EQ(nan.ran.code, 3);
  EXPECT_TRUE(nan.ran.says("head.weight") && nan.ran.says("index 5")) << nan.ran.err;
  EXPECT_FALSE(nan.written);
}

TEST_F(F2Grad, TheOutputPassesTheSameRulesAndIsTheSameBytesAgain) {
  EXPECT_EQ(bench_.grad(spec_, weights_, batch_).ran.code, 0);
  const std::string first = read_file(bench_.path("out.safetensors"));
  EXPECT_EQ(bench_.run({"inspect", bench_.path("out.safetensors").string()}).code, 0);
  EXPECT_EQ(bench_.grad(spec_, weights_, batch_).ran.code, 0);
  EXPECT_EQ(read_file(bench_.path("out.safetensors")), first);
}

// The least address space, in KiB, in which `inspect` of a file ends as it should.
int64_t least_memory(const Bench& bench, const std::string& file, int code) {
  int64_t low = 0, high = int64_t{1} << 22;
  const auto fits = [&](int64_t kib) {
    const Ran ran = bench.run({"inspect", file}, "ulimit -v " + std::to_string(kib) + "; exec ");
    return ran.code == code;
  };
  if (!fits(high)) return INT64_MAX;
  while (high - low > 1024) {
    const int64_t middle = (low + high) / 2;
    (fits(middle) ? high : low) = middle;
  }
  return high;
}

TEST(F2MemoryLimit, MemoryFollowsTheFileNotItsHeader) {
  const Bench bench;
  const int64_t baseline = least_memory(bench, file_of("empty_ok"), 0);
  ASSERT_LT(baseline, int64_t{1} << 22);
  const auto within = [&](const std::string& path, int code, const Arguments& more = {}) {
    const auto size = static_cast<int64_t>(fs::file_size(path));
    const int64_t limit = baseline + 16 * 1024 + 8 * size / 1024;
    Arguments arguments = {"inspect", path};
    arguments.insert(arguments.end(), more.begin(), more.end());
    const Ran ran = bench.run(arguments, "ulimit -v " + std::to_string(limit) + "; exec ");
    EXPECT_EQ(ran.code, code) << path << ": " << ran.err;
  };
  for (const Malformed& file : refused()) within(file_of(file.name), 2);
  within(file_of("nan_payload_ok"), 0);
  // Headers of 4 MB: claims of length, depth, one long name, and a great many tensors.
  const auto with_header = [&](const std::string& name, const std::string& header, uint64_t claim) {
    std::string bytes(8, '\0');
    for (int i = 0; i < 8; ++i)
      bytes[static_cast<size_t>(i)] = static_cast<char>(claim >> (8 * i) & 0xFF);
    return bench.write(name + ".safetensors", bytes + header);
  };
  constexpr size_t large = 4'000'000;
  within(with_header("claim", std::string(100, ' '), 99'999'999), 2);
  within(with_header("deep", std::string(large, '['), large), 2);
  const std::string nested = "{\"a\":" + std::string(large, '{');
  within(with_header("nested", nested, nested.size()), 2);
  const std::string name =
      "{\"" + std::string(large, 'n') + "\":{\"dtype\":\"X\",\"shape\":[],\"data_offsets\":[0,0]}}";
  within(with_header("name", name, name.size()), 2);
  // A great many tensors: what is kept of each and printed for it is bounded too.
  for (const size_t length : {large, 6 * large}) {
    std::string many = "{";
    for (int i = 0; many.size() < length; ++i) {
      many += (i == 0 ? "\"" : ",\"") + std::to_string(i) +
              "\":{\"dtype\":\"U8\",\"shape\":[0],\"data_offsets\":[0,0]}";
    }
    many += "}";
    const std::string path = with_header("many", many, many.size());
    within(path, 0);
    within(path, 0, {"--json"});
  }
}

// A file of a great many tensors taken for a batch: not one line for each.
TEST_F(F2Grad, ABatchOfManyTensorsIsRefusedInFewLines) {
  std::vector<checkpoint::TensorOut> tensors;
  tensors.reserve(30000);
  const float value = 1;
  for (int i = 0; i < 30000; ++i) {
    tensors.push_back({"w" + std::to_string(i), checkpoint::ElementType::f32, {1}, &value, {}});
  }
  const std::string path = bench_.path("many.safetensors").string();
  checkpoint::write_safetensors(path, tensors);
  const Graded graded = bench_.grad(spec_, weights_, path);
  EXPECT_EQ(graded.ran.code, 2);
  EXPECT_TRUE(graded.ran.says("29980 further tensors")) << graded.ran.err.substr(0, 5000);
  EXPECT_LT(occurrences(graded.ran.err, "\n"), 30U);
}

// ---- what is not a file, or not a file of this kind

double seconds_of(const std::function<void()>& act) {
  const auto begin = std::chrono::steady_clock::now();
  act();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

TEST_F(BadInput, PlacesThatAreNoFilesAreRefusedAtOnce) {
  const std::string directory = bench_.path("folder.safetensors").string();
  fs::create_directory(directory);
  const std::string fifo = bench_.path("fifo.safetensors").string();
  ASSERT_EQ(::mkfifo(fifo.c_str(), 0600), 0);
  const std::string empty = bench_.write("empty.safetensors", "");
  const std::string missing = bench_.path("missing.safetensors").string();
  for (const std::string& path : {directory, fifo, empty, missing}) {
    const double taken = seconds_of([&] {
      EXPECT_EQ(bench_.run({"inspect", path}).code, 2) << path;
      const Ran spec = bench_.run({"inspect", path + "/../" + fs::path(path).filename().string()});
      EXPECT_EQ(spec.code, 2) << path;
      for (const Graded& graded :
           {bench_.grad(path, weights_, batch_), bench_.grad(spec_, path, batch_),
            bench_.grad(spec_, weights_, path)}) {
        EXPECT_EQ(graded.ran.code, 2) << path << graded.ran.err;
        EXPECT_FALSE(graded.written);
        EXPECT_TRUE(graded.ran.says(path)) << graded.ran.err;
      }
    });
    EXPECT_LT(taken, 30) << path;
  }
  const Ran folder = bench_.run({"inspect", directory});
  EXPECT_TRUE(folder.says("spec.toml")) << folder.err;
}

TEST_F(BadInput, BinaryAndBrokenSpecificationsAreRefusedWithTheirPlace) {
  std::string binary;
  const Random random(1, "binary");
  for (uint64_t i = 0; i < 5000; ++i) binary += static_cast<char>(random.below(i, 256));
  for (const std::string& content :
       {binary, std::string("[model\nkind = 3"), std::string("[model]\nkind = \"dec\0der\"", 24),
        std::string(1 << 20, '['), std::string(1 << 20, '\xff'),
        std::string("[model]\nwidth = 99999999999999999999999\n"), std::string()}) {
    const std::string spec = bench_.write("bad.toml", content);
    for (const Ran& ran :
         {bench_.run({"inspect", spec}), bench_.grad(spec, weights_, batch_).ran}) {
      EXPECT_EQ(ran.code, 2) << content.substr(0, 20) << ran.err.substr(0, 300);
      EXPECT_TRUE(ran.says("bad.toml")) << ran.err.substr(0, 300);
      EXPECT_LT(ran.err.size(), 20'000U);
    }
  }
}

TEST_F(BadInput, AnOutputThatCannotBeWrittenLeavesNothing) {
  const Ran folder = bench_.run({"grad", spec_, "--weights", weights_, "--batch", batch_, "--out",
                                 bench_.path("no/such/place").string()});
  EXPECT_TRUE(folder.code == 2 || folder.code == 4) << folder.code;
  fs::create_directory(bench_.path("taken"));
  const Ran taken = bench_.run({"grad", spec_, "--weights", weights_, "--batch", batch_, "--out",
                                bench_.path("taken").string()});
  EXPECT_TRUE(taken.code == 2 || taken.code == 4) << taken.code;
  EXPECT_TRUE(fs::is_empty(bench_.path("taken")));
  const Ran full = bench_.run({"inspect", weights_}, "exec >/dev/full; ");
  EXPECT_EQ(full.code, 0);  // redirected again by the harness: the control of the next line
  const std::string command = std::string("exec ") + shell_word(ADDNORM_PROGRAM) + " inspect " +
                              shell_word(weights_) + " >/dev/full 2>" +
                              shell_word(bench_.path("full").string());
  EXPECT_EQ(WEXITSTATUS(std::system(command.c_str())), 4);
  EXPECT_NE(read_file(bench_.path("full")).find("standard output"), std::string::npos);
}

TEST_F(BadInput, ThirtyThousandParenthesesInAFormula) {
  constexpr size_t depth = 30'000;
  const std::string deep = "x = " + std::string(depth, '(') + "x" + std::string(depth, ')');
  const std::string open = "x = " + std::string(depth, '(');
  const std::string calls = [] {
    std::string text = "x = x + f(";
    for (size_t i = 0; i < depth / 5; ++i) text += "norm(";
    return text + "x" + std::string(depth / 5, ')') + ")";
  }();
  const std::string signs = "x = x + " + std::string(depth, '-') + "f(x)";
  std::string powers = "x = x + 2";
  for (size_t i = 0; i < depth; ++i) powers += "^2";
  powers += "*f(x)";
  for (const std::string& formula : {deep, open, calls, signs, powers}) {
    const double taken = seconds_of([&] {
      const Ran flag = bench_.run({"inspect", spec_, "--model.wiring", formula});
      EXPECT_EQ(flag.code, 2) << formula.substr(0, 40);
      EXPECT_TRUE(flag.says("model.wiring") && flag.says("1:")) << flag.err.substr(0, 300);
      EXPECT_LT(flag.err.size(), 10'000U) << flag.err.substr(0, 300);
      std::string file = zero_toml();
      file.replace(file.find("\"pre-ln\""), 8, "\"" + formula + "\"");
      const std::string spec = bench_.write("deep.toml", file);
      EXPECT_EQ(bench_.run({"inspect", spec}).code, 2);
      EXPECT_EQ(bench_.grad(spec, weights_, batch_).ran.code, 2);
    });
    EXPECT_LT(taken, 30) << formula.substr(0, 40);
  }
}

TEST_F(BadInput, ImpossibleSizesAreRefusedBeforeAllocation) {
  const double taken = seconds_of([&] {
    const Ran heads = bench_.run({"inspect", spec_, "--model.width", "6", "--model.heads", "4"});
    EXPECT_EQ(heads.code, 2);
    EXPECT_TRUE(heads.says("6") && heads.says("4") && heads.says("heads")) << heads.err;
    // 10^12 parameters: a table of 10^6 tokens at width 10^6.
    const Arguments huge = {"--model.width", "1000000", "--model.vocab", "1000000"};
    Arguments inspect = {"inspect", spec_};
    inspect.insert(inspect.end(), huge.begin(), huge.end());
    const Ran seen = bench_.run(inspect);
    EXPECT_EQ(seen.code, 0) << seen.err;  // it only counts
    const Graded graded = bench_.grad(spec_, weights_, batch_, huge);
    EXPECT_EQ(graded.ran.code, 2) << graded.ran.err;
    EXPECT_TRUE(graded.ran.says("parameters") && graded.ran.says("memory")) << graded.ran.err;
    EXPECT_FALSE(graded.written);
    for (const char* key :
         {"--model.layers", "--model.width", "--model.ffn", "--model.vocab", "--model.context"}) {
      for (const char* value : {"0", "-1", "9223372036854775807", "9223372036854775808"}) {
        const Graded bad = bench_.grad(spec_, weights_, batch_, {key, value});
        EXPECT_EQ(bad.ran.code, 2) << key << " " << value << ": " << bad.ran.err.substr(0, 300);
      }
    }
  });
  EXPECT_LT(taken, 60);
}

}  // namespace
}  // namespace addnorm::cases
