#include "addnorm/lab/duration.h"

#include <fmt/format.h>

#include <cmath>
#include <cstdlib>

#include "addnorm/base/error.h"

namespace addnorm::lab {

double parse_duration(const std::string& text, const std::string& where) {
  double seconds = 0;
  const char* at = text.c_str();
  bool good = *at != '\0';
  while (good && *at != '\0') {
    char* end = nullptr;
    const double number = *at >= '0' && *at <= '9' ? std::strtod(at, &end) : -1;
    const char unit = number >= 0 && *end != '\0' ? *end++ : 's';
    const double factor = unit == 's' ? 1 : unit == 'm' ? 60 : unit == 'h' ? 3600 : -1;
    good = number >= 0 && factor > 0 && std::isfinite(number);
    seconds += number * factor;
    at = end;
  }
  if (!good || seconds <= 0) {
    fail_input(where, "expected a time such as 90s, 3m or 1h30m, got \"" + text + "\"");
  }
  return seconds;
}

std::string duration_text(double seconds) {
  const auto whole = static_cast<long long>(std::llround(std::max(0.0, seconds)));
  if (whole < 60) return fmt::format("{} s", whole);
  if (whole < 3600) return fmt::format("{} min {} s", whole / 60, whole % 60);
  return fmt::format("{} h {} min", whole / 3600, whole / 60 % 60);
}

}  // namespace addnorm::lab
