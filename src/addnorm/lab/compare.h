// Two specifications, or two runs, side by side: what differs, and what follows from it.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "addnorm/formula/catalogue.h"

namespace addnorm::lab {

struct Difference {
  std::string name;  // a key, or what is compared: "parameters", "attn_out: target std"
  std::string a, b;
};

struct Comparison {
  std::vector<Difference> keys;     // of the specifications
  std::vector<Difference> follows;  // numbers that differ because of them
  std::vector<std::string> fixed;  // what does not follow a changed depth, with the rule that would
  std::vector<Difference>
      machine;                     // of runs: threads, instruction set, ..: reasons for other bytes
  std::vector<Difference> curves;  // of runs: losses at common updates
  std::vector<std::string> remarks;  // of runs: where they part, whether they ended
};

// Each of the two is a TOML file or the folder of a run. Throws Error for anything else.
Comparison compare(const std::filesystem::path& a, const std::filesystem::path& b,
                   const formula::Catalogue& catalogue);

}  // namespace addnorm::lab
