// What the tests of the checker share: contexts and expectations.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "addnorm/formula/check.h"

namespace addnorm::formula {

inline Context stack(int layers = 4) {
  Context context;
  context.layers = context.encoder_layers = context.decoder_layers = layers;
  return context;
}

inline Context pair(Stack which, int layers = 4) {
  Context context = stack(layers);
  context.stack = which;
  return context;
}

inline std::string findings(const std::string& program, const Context& context = stack()) {
  return lines_of(check(parse(program), context));
}

// The program has exactly these findings (whole texts, or their beginnings).
inline void expect_findings(const std::string& program, const std::vector<std::string>& beginnings,
                            const Context& context = stack()) {
  const Findings found = check(parse(program), context);
  std::string all = lines_of(found);
  ASSERT_EQ(found.size(), beginnings.size()) << program << "\n" << all;
  for (size_t i = 0; i < found.size(); ++i) {
    EXPECT_TRUE(found[i].text().starts_with(beginnings[i]))
        << program << "\n got      " << found[i].text() << "\n expected " << beginnings[i];
  }
}

inline void expect_fine(const std::string& program, const Context& context = stack()) {
  EXPECT_EQ(findings(program, context), "") << program;
}

}  // namespace addnorm::formula
