// What many tests need: a folder that goes away, and the failure that an act ends with.
#pragma once

#include "addnorm/base/error.h"

#include <cstdlib>
#include <filesystem>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>

namespace addnorm::test {

class TemporaryFolder {
 public:
  TemporaryFolder() {
    std::string name = (std::filesystem::temp_directory_path() / "addnorm-test-XXXXXX").string();
    if (::mkdtemp(name.data()) == nullptr) throw std::runtime_error("cannot make " + name);
    path_ = name;
  }
  ~TemporaryFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

// Kind and message of the addnorm::Error that `act` throws; no kind where it throws none.
template <class Act>
std::pair<std::optional<Failure>, std::string> failure_of(const Act& act) {
  try {
    act();
  } catch (const Error& error) {
    return {error.failure(), error.what()};
  }
  return {std::nullopt, "no error"};
}

}  // namespace addnorm::test
