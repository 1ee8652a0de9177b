// JSON that keeps the order of keys, as text for --json.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

namespace addnorm::cli {

using Json = nlohmann::ordered_json;

// Indented; bytes that are not UTF-8 are replaced, for they may come from a user's file.
inline std::string to_text(const Json& json) {
  return json.dump(2, ' ', false, Json::error_handler_t::replace);
}

}  // namespace addnorm::cli
