// Every program of the catalogue parses, prints and comes back, and has no finding in the
// stacks it is meant for.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "addnorm/formula/catalogue.h"
#include "addnorm/formula/check.h"

namespace addnorm::formula {
namespace {

Context context_of(Stack stack, int layers) {
  Context context;
  context.stack = stack;
  context.layers = context.encoder_layers = context.decoder_layers = layers;
  return context;
}

bool ends_with(const std::string& text, const std::string& end) {
  return text.size() >= end.size() && text.substr(text.size() - end.size()) == end;
}

std::vector<Stack> stacks_for(const std::string& name, const Program& program) {
  if (ends_with(name, "/decoder")) return {Stack::pair_decoder};
  if (ends_with(name, "/encoder")) return {Stack::pair_encoder};
  std::vector<Stack> stacks = {Stack::decoder, Stack::encoder, Stack::pair_encoder};
  for (const Block& block : program.blocks) {
    if (calls_f(block)) {
      stacks.push_back(Stack::pair_decoder);  // f stands for cross there
      break;
    }
  }
  return stacks;
}

TEST(CataloguePrograms, RoundTrip) {
  for (const Entry& entry : Catalogue::builtin().entries()) {
    const Program program = parse(entry.formula);
    EXPECT_TRUE(same(program, parse(print(program)))) << entry.name << "\n" << print(program);
  }
}

TEST(CataloguePrograms, HaveNoFindings) {
  for (const Entry& entry : Catalogue::builtin().entries()) {
    const Program program = parse(entry.formula);
    for (const Stack stack : stacks_for(entry.name, program)) {
      for (const int layers : {2, 4, 7, 24}) {
        EXPECT_EQ(lines_of(check(program, context_of(stack, layers))), "")
            << entry.name << " with " << layers << " layers";
      }
    }
  }
}

TEST(CataloguePrograms, FitOneLayerToo) {
  for (const Entry& entry : Catalogue::builtin().entries()) {
    const Program program = parse(entry.formula);
    for (const Stack stack : stacks_for(entry.name, program)) {
      // Keel's first layer names its branches and has no cross.
      const bool refused = entry.name == "keel" && stack == Stack::pair_decoder;
      EXPECT_EQ(has_errors(check(program, context_of(stack, 1))), refused) << entry.name;
    }
  }
}

TEST(CataloguePrograms, DecoderFormsNeedAnEncoder) {
  int refused = 0;
  for (const Entry& entry : Catalogue::builtin().entries()) {
    const Program program = parse(entry.formula);
    const bool reads_memory = entry.formula.find("cross") != std::string::npos;
    const bool alone = has_errors(check(program, context_of(Stack::decoder, 4)));
    EXPECT_EQ(alone, reads_memory) << entry.name;
    refused += alone ? 1 : 0;
  }
  EXPECT_EQ(refused, 2);  // b2t/decoder, sub-ln/decoder
}

}  // namespace
}  // namespace addnorm::formula
