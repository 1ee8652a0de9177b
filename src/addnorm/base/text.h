// Small text helpers that every layer shares.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace addnorm {

// The candidate with the smallest edit distance to `name`, "" where none is near (distance above
// max(2, a third of the length)).
std::string nearest(std::string_view name, const std::vector<std::string>& candidates);

// Shortest decimal text that reads back as the same double; "inf", "-inf", "nan" otherwise.
std::string shortest(double value);

std::string trim(std::string_view text);
std::vector<std::string> split(std::string_view text, char separator);
std::string join(const std::vector<std::string>& parts, std::string_view separator);

}  // namespace addnorm
