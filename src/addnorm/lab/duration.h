// Spans of time as people write them.
#pragma once

#include <string>

namespace addnorm::lab {

// "90", "90s", "3m", "1.5h", "1h30m" in seconds; an Error that names `where` for anything else.
double parse_duration(const std::string& text, const std::string& where);
// "45 s", "3 min 20 s", "2 h 5 min".
std::string duration_text(double seconds);

}  // namespace addnorm::lab
