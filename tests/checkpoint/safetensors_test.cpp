// The reader against the malformed corpus (case F2 of the case list), round trips, truncation at every
// byte, and random mutations, which a second, lenient reader judges as well.
#include "addnorm/checkpoint/safetensors.h"

#include "addnorm/base/error.h"
#include "addnorm/base/random.h"
#include "support/temporary.h"

#include <gtest/gtest.h>
#include <sys/resource.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <nlohmann/json.hpp>

namespace addnorm::checkpoint {
namespace {

using test::failure_of;
using test::TemporaryFolder;

const fs::path corpus = fs::path(ADDNORM_TEST_DATA) / "malformed-safetensors";

SafetensorsFile parse(std::string_view bytes) {
  return SafetensorsFile::parse("memory", std::as_bytes(std::span(bytes.data(), bytes.size())));
}

std::string file_of(const std::string& header, const std::string& data) {
  const uint64_t length = header.size();
  return std::string(reinterpret_cast<const char*>(&length), 8) + header + data;
}

struct Malformed {
  const char* name;
  int rule;  // 0: loads
  int first_byte;
  int last_byte;  // of the broken part
  const char* tensor;
};
constexpr Malformed malformed[] = {
    {"empty_ok", 0, 0, 0, ""},        {"nan_payload_ok", 0, 0, 0, ""},
    {"zero_bytes", 1, 0, 0, ""},      {"seven_bytes", 1, 7, 7, ""},
    {"len_max", 2, 0, 0, ""},         {"neg_len", 2, 0, 0, ""},
    {"bad_utf8_name", 3, 11, 11, ""}, {"not_object", 4, 8, 8, ""},
    {"dup", 5, 62, 62, "a"},          {"dtype_empty", 6, 35, 35, "lm_head.weight"},
    {"one_offset", 7, 55, 55, "a"},   {"reversed", 7, 55, 55, "a"},
    {"past_end", 8, 55, 55, "a"},     {"shape_span", 9, 36, 36, "a"},
    {"overflow", 9, 36, 36, "a"},     {"overlap", 10, 108, 108, "b"},
    {"hole", 10, 108, 108, "b"}};

TEST(Safetensors, MalformedCorpus) {
  size_t files = 0;
  for (const auto& entry : fs::directory_iterator(corpus)) {
    files += entry.path().extension() == ".safetensors";
  }
  EXPECT_EQ(files, std::size(malformed));
  for (const Malformed& expected : malformed) {
    SCOPED_TRACE(expected.name);
    const fs::path path = corpus / (std::string(expected.name) + ".safetensors");
    const auto [failure, message] = failure_of([&] { SafetensorsFile::open(path); });
    if (expected.rule == 0) {
      EXPECT_FALSE(failure.has_value()) << message;
      continue;
    }
    EXPECT_EQ(failure, Failure::input);
    EXPECT_EQ(std::count(message.begin(), message.end(), '\n'), 0) << message;
    EXPECT_NE(message.find(path.string()), std::string::npos) << message;
    EXPECT_NE(message.find("rule " + std::to_string(expected.rule) + " ("), std::string::npos)
        << message;
    const auto at = message.find("byte ");
    ASSERT_NE(at, std::string::npos) << message;
    const int byte = std::stoi(message.substr(at + 5));
    EXPECT_GE(byte, expected.first_byte) << message;
    EXPECT_LE(byte, expected.last_byte) << message;
    if (*expected.tensor != '\0') {
      EXPECT_NE(message.find("tensor \"" + std::string(expected.tensor) + "\""), std::string::npos)
          << message;
    }
  }
}

TEST(Safetensors, NonFinitePayloadIsCounted) {
  EXPECT_EQ(SafetensorsFile::open(corpus / "empty_ok.safetensors").tensors().size(), 0u);
  const auto file = SafetensorsFile::open(corpus / "nan_payload_ok.safetensors");
  ASSERT_EQ(file.tensors().size(), 1u);
  EXPECT_EQ(file.count_nonfinite(file.at("a")), 1);
  EXPECT_TRUE(std::isnan(file.read_double(file.at("a"))[0]));
}

struct Refused {
  std::string header;
  std::string data;
  int rule;
};

TEST(Safetensors, FurtherBrokenHeaders) {
  const std::string a = R"("a":{"dtype":"U8","shape":[2],"data_offsets":[0,2]})";
  const std::vector<Refused> cases = {
      {"", "", 4},
      {"   ", "", 4},
      {"{", "", 4},
      {"{}x", "", 4},
      {std::string("{}\0", 3), "", 4},
      {"\xEF\xBB\xBF{}", "", 4},
      {"{" + a + ",}", "xx", 4},
      {"{,}", "", 4},
      {"{" + a + " " + a + "}", "xx", 4},
      {R"({"a":1})", "", 4},
      {R"({"a":{}})", "", 4},
      {R"({"a":{"dtype":"U8","shape":[0]}})", "", 4},
      {R"({"a":{"dtype":"U8","data_offsets":[0,0]}})", "", 4},
      {R"({"a":{"dtype":"U8","shape":[0],"data_offsets":[0,0],"x":1}})", "", 4},
      {R"({"a":{"dtype":"U8","shape":[0],"shape":[0],"data_offsets":[0,0]}})", "", 5},
      {R"({"a":{"dtype":"U8","shape":[-1],"data_offsets":[0,0]}})", "", 4},
      {R"({"a":{"dtype":"U8","shape":[1.0],"data_offsets":[0,1]}})", "x", 4},
      {R"({"a":{"dtype":"U8","shape":[1e0],"data_offsets":[0,1]}})", "x", 4},
      {R"({"a":{"dtype":"U8","shape":[01],"data_offsets":[0,1]}})", "x", 4},
      {R"({"a":{"dtype":"U8","shape":["1"],"data_offsets":[0,1]}})", "x", 4},
      {R"({"a":{"dtype":"U8","shape":[[1]],"data_offsets":[0,1]}})", "x", 4},
      {R"({"a":{"dtype":"U8","shape":1,"data_offsets":[0,1]}})", "x", 4},
      {R"({"a":{"dtype":1,"shape":[1],"data_offsets":[0,1]}})", "x", 4},
      {R"({"a":{"dtype":"F8_E4M3","shape":[1],"data_offsets":[0,1]}})", "x", 6},
      {R"({"a":{"dtype":"u8","shape":[1],"data_offsets":[0,1]}})", "x", 6},
      {R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[]}})", "x", 7},
      {R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1,1]}})", "x", 7},
      {R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[0.0,1]}})", "x", 7},
      {R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[-0,1]}})", "x", 7},
      {R"({"a":{"dtype":"U8","shape":[1],"data_offsets":["0",1]}})", "x", 7},
      {R"({"a":{"dtype":"U8","shape":[1],"data_offsets":null}})", "x", 7},
      {R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[0,99999999999999999999]}})", "x", 8},
      {R"({"a":{"dtype":"U8","shape":[0,99999999999999999999],"data_offsets":[0,0]}})", "", 9},
      {R"({"a":{"dtype":"F64","shape":[2305843009213693952],"data_offsets":[0,0]}})", "", 9},
      {R"({"a":{"dtype":"U8","shape":[],"data_offsets":[0,0]}})", "", 9},
      {"{" + a + "}", "xxx", 10},
      {"{}", "x", 10},
      {R"({"e":{"dtype":"U8","shape":[0],"data_offsets":[1,1]},)" + a + "}", "xx", 10},
      {R"({"__metadata__":[]})", "", 4},
      {R"({"__metadata__":{"a":1}})", "", 4},
      {R"({"__metadata__":{"a":"1","\u0061":"2"}})", "", 5},
      {R"({"__metadata__":{},"__metadata__":{}})", "", 5},
      {"{" + a + R"(,"\u0061":{"dtype":"U8","shape":[0],"data_offsets":[2,2]}})", "xx", 5},
      {R"({"\ud800":{"dtype":"U8","shape":[0],"data_offsets":[0,0]}})", "", 4},
      {R"({"\x":{"dtype":"U8","shape":[0],"data_offsets":[0,0]}})", "", 4},
      {"{\"a\n\":{\"dtype\":\"U8\",\"shape\":[0],\"data_offsets\":[0,0]}}", "", 4},
      {R"({"a)", "", 4},
      {R"({"a\)", "", 4},
      {R"({"a\u12)", "", 4},
      {"{\"\xED\xA0\x80\":1}", "", 3},
  };
  for (const Refused& one : cases) {
    const auto [failure, message] = failure_of([&] { parse(file_of(one.header, one.data)); });
    EXPECT_EQ(failure, Failure::input) << one.header;
    EXPECT_NE(message.find("rule " + std::to_string(one.rule) + " ("), std::string::npos)
        << one.header << "\n"
        << message;
  }
}

TEST(Safetensors, LegalOddities) {
  const std::string bytes = file_of(
      " \t\r\n{ \"b\\u00e9\\ud83d\\ude00\" : "
      "{\"data_offsets\":[1,1],\"shape\":[0,9223372036854775807],"
      "\"dtype\":\"F64\"}, \"e\":{\"dtype\":\"F32\",\"shape\":[0],\"data_offsets\":[0,0]},"
      "\"\":{\"dtype\":\"BOOL\",\"shape\":[],\"data_offsets\":[0,1]},\"odd\":{\"dtype\":\"F32\","
      "\"shape\":[1,1,1],\"data_offsets\":[1,5]},\"__metadata__\":{\"k\\n\":\"v\\\"\",\"l\":\"\"}} "
      "\n ",
      std::string("\x01\x00\x00\x80\x3f", 5));
  const auto file = parse(bytes);
  ASSERT_EQ(file.tensors().size(), 4u);
  EXPECT_EQ(file.tensors()[0].name, "b\xC3\xA9\xF0\x9F\x98\x80");
  EXPECT_EQ(file.at("").count, 1);
  EXPECT_EQ(file.read_int64(file.at("")), std::vector<int64_t>{1});
  EXPECT_EQ(file.read_double(file.at("odd")), std::vector<double>{1.0});
  const std::map<std::string, std::string> metadata = {{"k\n", "v\""}, {"l", ""}};
  EXPECT_EQ(file.metadata(), metadata);
  EXPECT_EQ(file.find("none"), nullptr);
  const auto [failure, message] = failure_of([&] { file.at("od"); });
  EXPECT_EQ(failure, Failure::input);
  EXPECT_NE(message.find("\"odd\""), std::string::npos) << message;
}

TEST(Safetensors, ConvertsEveryType) {
  // F16: 1, -2, largest, smallest subnormal, infinity, NaN, -0.
  const uint16_t half[] = {0x3c00, 0xc000, 0x7bff, 0x0001, 0x7c00, 0x7e00, 0x8000};
  const uint16_t brain[] = {0x3f80, 0xc000, 0x7f80, 0x7fc0, 0x0001};
  const double f64[] = {1e-300, -1.5, std::numeric_limits<double>::infinity()};
  const float f32[] = {1e-40f, 3.0f, std::numeric_limits<float>::quiet_NaN()};
  const int8_t i8[] = {-128, 127};
  const uint64_t u64[] = {UINT64_MAX, 5};
  const int64_t i64[] = {INT64_MIN, INT64_MAX};
  const uint8_t truth[] = {0, 1, 7};
  const uint16_t u16[] = {65535};
  const int16_t i16[] = {-32768};
  const uint32_t u32[] = {4294967295u};
  const int32_t i32[] = {-2147483647 - 1};
  const uint8_t u8[] = {255};
  TemporaryFolder folder;
  const fs::path path = folder.path() / "a.safetensors";
  write_safetensors(path, {{"half", ElementType::f16, {7}, half, {}},
                           {"brain", ElementType::bf16, {5}, brain, {}},
                           {"f64", ElementType::f64, {3}, f64, {}},
                           {"f32", ElementType::f32, {3}, f32, {}},
                           {"i8", ElementType::i8, {2}, i8, {}},
                           {"u64", ElementType::u64, {2}, u64, {}},
                           {"i64", ElementType::i64, {2}, i64, {}},
                           {"bool", ElementType::boolean, {3}, truth, {}},
                           {"u16", ElementType::u16, {}, u16, {}},
                           {"i16", ElementType::i16, {}, i16, {}},
                           {"u32", ElementType::u32, {}, u32, {}},
                           {"i32", ElementType::i32, {}, i32, {}},
                           {"u8", ElementType::u8, {1, 1}, u8, {}}});
  const auto file = SafetensorsFile::open(path);
  const auto doubles = [&](const char* name) { return file.read_double(file.at(name)); };
  const auto h = doubles("half");
  EXPECT_EQ(h[0], 1);
  EXPECT_EQ(h[1], -2);
  EXPECT_EQ(h[2], 65504);
  EXPECT_EQ(h[3], 0x1p-24);
  EXPECT_TRUE(std::isinf(h[4]) && std::isnan(h[5]) && std::signbit(h[6]) && h[6] == 0);
  EXPECT_EQ(file.count_nonfinite(file.at("half")), 2);
  const auto b = doubles("brain");
  EXPECT_EQ(b[0], 1);
  EXPECT_EQ(b[1], -2);
  EXPECT_EQ(b[4], 0x1p-133);
  EXPECT_EQ(file.count_nonfinite(file.at("brain")), 2);
  EXPECT_EQ(doubles("f64")[0], 1e-300);
  EXPECT_EQ(file.count_nonfinite(file.at("f64")), 1);
  EXPECT_EQ(file.count_nonfinite(file.at("f32")), 1);
  EXPECT_EQ(file.count_nonfinite(file.at("i64")), 0);
  std::vector<float> floats(3);
  file.read_float(file.at("f32"), floats);
  EXPECT_EQ(floats[0], 1e-40f);  // denormal numbers stay
  file.read_float(file.at("f64"), floats);
  EXPECT_EQ(floats[1], -1.5f);
  EXPECT_EQ(floats[0], 0.0f);
  EXPECT_TRUE(std::isinf(floats[2]));
  EXPECT_EQ(file.read_int64(file.at("i8")), (std::vector<int64_t>{-128, 127}));
  EXPECT_EQ(file.read_int64(file.at("i64")), (std::vector<int64_t>{INT64_MIN, INT64_MAX}));
  EXPECT_EQ(file.read_int64(file.at("bool")), (std::vector<int64_t>{0, 1, 1}));
  EXPECT_EQ(file.read_int64(file.at("u16"))[0], 65535);
  EXPECT_EQ(file.read_int64(file.at("i16"))[0], -32768);
  EXPECT_EQ(file.read_int64(file.at("u32"))[0], 4294967295);
  EXPECT_EQ(file.read_int64(file.at("i32"))[0], INT32_MIN);
  EXPECT_EQ(file.read_int64(file.at("u8"))[0], 255);
  EXPECT_EQ(doubles("u64")[1], 5);
  EXPECT_EQ(failure_of([&] { file.read_int64(file.at("u64")); }).first, Failure::input);
  EXPECT_EQ(failure_of([&] { file.read_int64(file.at("f32")); }).first, Failure::input);
}

std::string example_file(const fs::path& folder) {
  const std::vector<float> weights = {1, 2, 3, 4, 5, 6};
  const int64_t ids[] = {7, 8, 9};
  const uint8_t mask[] = {1, 0, 1};
  write_safetensors(folder / "w",
                    {{"mask", ElementType::u8, {3}, mask, {}},
                     {"w\"\\\n\xC3\xA9", ElementType::f32, {2, 3}, weights.data(), {}},
                     {"ids", ElementType::i64, {1, 3}, ids, {}},
                     {"none", ElementType::f32, {0, 5}, nullptr, {}},
                     {"one", ElementType::f32, {}, weights.data(), {}}},
                    {{"format", "test"}, {"b", "\t"}});
  return read_file(folder / "w");
}

TEST(Safetensors, RoundTripIsTheSameBytes) {
  TemporaryFolder folder;
  const std::string bytes = example_file(folder.path());
  EXPECT_EQ(example_file(folder.path()), bytes);
  const auto file = SafetensorsFile::open(folder.path() / "w");
  EXPECT_EQ((bytes.size() - file.data_bytes()) % 8, 0u);
  std::vector<TensorOut> again;
  for (const TensorInfo& tensor : file.tensors()) {
    EXPECT_EQ(tensor.begin % size(tensor.type), 0u) << tensor.name;
    // By pieces of one element, to try the other way of giving data.
    again.push_back({tensor.name, tensor.type, tensor.shape, nullptr, [&](const Emit& emit) {
                       const auto data = file.bytes(tensor);
                       const size_t step = size(tensor.type);
                       for (size_t at = 0; at < data.size(); at += step)
                         emit(data.subspan(at, step));
                     }});
  }
  write_safetensors(folder.path() / "again", again, file.metadata());
  EXPECT_EQ(read_file(folder.path() / "again"), bytes);
  EXPECT_EQ(file.tensors()[0].name, "ids");  // the widest elements come first
  EXPECT_EQ(file.at("ids").shape, (std::vector<int64_t>{1, 3}));
  EXPECT_EQ(file.read_double(file.at("w\"\\\n\xC3\xA9")), (std::vector<double>{1, 2, 3, 4, 5, 6}));
}

TEST(Safetensors, WritesNothingAtAll) {
  TemporaryFolder folder;
  write_safetensors(folder.path() / "w", {});
  EXPECT_EQ(SafetensorsFile::open(folder.path() / "w").tensors().size(), 0u);
}

TEST(Safetensors, TruncationAtEveryByteIsRefused) {
  TemporaryFolder folder;
  const std::string bytes = example_file(folder.path());
  for (size_t size = 0; size < bytes.size(); ++size) {
    const std::string part = bytes.substr(0, size);
    EXPECT_EQ(failure_of([&] { parse(part); }).first, Failure::input) << size;
  }
  parse(bytes);
  EXPECT_EQ(failure_of([&] { parse(bytes + "x"); }).first, Failure::input);
}

// What the general reader says about the text alone: one JSON object.
bool is_json_object(std::string_view text) {
  const auto value = nlohmann::json::parse(text, nullptr, false);
  return value.is_object();
}

TEST(Safetensors, RandomMutations) {
  TemporaryFolder folder;
  std::vector<std::string> seeds = {example_file(folder.path())};
  for (const auto& entry : fs::directory_iterator(corpus)) {
    if (entry.path().extension() == ".safetensors") seeds.push_back(read_file(entry.path()));
  }
  std::sort(seeds.begin(), seeds.end());
  const std::string_view pieces[] = {"{",       "}",
                                     "[",       "]",
                                     ",",       ":",
                                     "\"",      "\\",
                                     "0",       "1",
                                     "-",       "1e9",
                                     "null",    " ",
                                     "\n",      "\xFF",
                                     "\xC3",    "\\u",
                                     "[0,4]",   "\"a\":",
                                     "\"F32\"", "99999999999999999999"};
  const Random random(1, "safetensors mutations");
  int accepted = 0;
  for (uint64_t round = 0; round < 20000; ++round) {
    uint64_t draw = round << 8;
    const std::string& seed = seeds[random.below(draw++, seeds.size())];
    std::string bytes = seed;
    const uint64_t changes = 1 + random.below(draw++, 4);
    for (uint64_t i = 0; i < changes; ++i) {
      const size_t at = random.below(draw++, bytes.size() + 1);
      switch (random.below(draw++, 5)) {
        case 0:
          if (at < bytes.size()) bytes[at] = static_cast<char>(random.below(draw++, 256));
          break;
        case 1:
          bytes.erase(at, 1 + random.below(draw++, 8));
          break;
        case 2:
          bytes.insert(at, pieces[random.below(draw++, std::size(pieces))]);
          break;
        case 3:
          bytes.insert(at, bytes.substr(random.below(draw++, bytes.size() + 1), 16));
          break;
        default:
          if (at < bytes.size())
            bytes[at] = static_cast<char>(bytes[at] ^ (1 << random.below(draw++, 8)));
      }
    }
    // Half of the time the length is repaired, so that the header is reached.
    size_t data = random.below(draw++, 16);
    if (seed.size() >= 8 && random.below(draw++, 2) == 0) {
      uint64_t length = 0;
      std::memcpy(&length, seed.data(), 8);
      if (length <= seed.size() - 8) data = seed.size() - 8 - length;
    }
    if (random.below(draw++, 2) == 0 && bytes.size() >= 8 + data) {
      const uint64_t length = bytes.size() - 8 - data;
      std::memcpy(bytes.data(), &length, 8);
    }
    try {
      const auto file = parse(bytes);
      ++accepted;
      double sum = 0;
      for (const TensorInfo& tensor : file.tensors()) {
        for (const double value : file.read_double(tensor)) sum += value;
        file.count_nonfinite(tensor);
        EXPECT_EQ(file.find(tensor.name), &tensor);
      }
      file.metadata();
      uint64_t length = 0;
      std::memcpy(&length, bytes.data(), 8);
      EXPECT_TRUE(is_json_object(std::string_view(bytes).substr(8, length)));
    } catch (const Error& error) {
      const std::string message = error.what();
      EXPECT_EQ(error.failure(), Failure::input);
      EXPECT_NE(message.find(": rule "), std::string::npos) << message;
      EXPECT_EQ(message.find('\n'), std::string::npos) << message;
      // Rule 4 is broken exactly where the text is no JSON or no table of tensors.
      if (message.find("rule 4 (") == std::string::npos &&
          message.find("rule 10 (") != std::string::npos) {
        uint64_t length = 0;
        std::memcpy(&length, bytes.data(), 8);
        EXPECT_TRUE(is_json_object(std::string_view(bytes).substr(8, length))) << message;
      }
    }
  }
  EXPECT_GT(accepted, 50);
}

// Sanitizers keep memory of their own, so there the bound means nothing.
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
size_t peak_kilobytes() {
  struct rusage usage = {};
  ::getrusage(RUSAGE_SELF, &usage);
  return static_cast<size_t>(usage.ru_maxrss);
}

// The most that a header can make the reader hold: many dimensions, many tensors, long names, many
// keys. The whole file is in memory here as well, so 9 times its size is the bound. Heaviest first:
// the peak of a process never falls.
TEST(Safetensors, MemoryIsBounded) {
  constexpr size_t size = 8'000'000;
  const auto many = [](const std::string& open, const std::string& close, const auto& item) {
    std::string text = open;
    for (size_t i = 0; text.size() < size; ++i) text += (i > 0 ? "," : "") + std::string(item(i));
    return text + close;
  };
  const std::string headers[] = {
      many(R"({"a":{"dtype":"U8","data_offsets":[0,1],"shape":[)", "]}}",
           [](size_t) { return "1"; }),
      many("{", "}",
           [](size_t i) {
             return "\"" + std::to_string(i) +
                    "\":{\"dtype\":\"U8\",\"shape\":[0],\"data_offsets\":[0,0]}";
           }),
      many(R"({"__metadata__":{)", "}}",
           [](size_t i) { return "\"" + std::to_string(i) + "\":\"\""; }),
      "{\"" + std::string(size, 'x') + R"(":{"dtype":"U8","shape":[0],"data_offsets":[0,0]}})",
      "{\"" + std::string(size, 'x'),
      many("{", "}", [](size_t) { return "\"a\""; })};
  for (const std::string& header : headers) {
    const std::string bytes = file_of(header, header.find("[0,1]") != std::string::npos ? "x" : "");
    const size_t before = peak_kilobytes();
    const auto [failure, message] = failure_of([&] { parse(bytes); });
    EXPECT_LT(message.size(), 1000u);
    EXPECT_LT(peak_kilobytes() - before, (7 * bytes.size() + (16 << 20)) / 1024)
        << header.substr(0, 60);
  }
}
#endif

}  // namespace
}  // namespace addnorm::checkpoint
