// Keys with very many parts: an error, not a deep recursion of the TOML parser.
#include <gtest/gtest.h>

#include <string>

#include "addnorm/model/specification.h"

namespace addnorm {
namespace {

TEST(DeepKeys, AreRefused) {
  std::string key = "a";
  for (int i = 0; i < 50000; ++i) key += ".a";
  for (const std::string& text : {key + " = 1\n", "\n[" + key + "]\n"}) {
    try {
      model::parse(text, "deep.toml", {}, model::Needs::model, formula::Catalogue::builtin());
      FAIL() << "accepted";
    } catch (const Error& error) {
      EXPECT_EQ(error.failure(), Failure::input);
      EXPECT_NE(std::string(error.what()).find("deep.toml:"), std::string::npos) << error.what();
    }
  }
}

}  // namespace
}  // namespace addnorm
