// What can go wrong, in one type: a user's mistake, a failed check, non-finite numbers, the system.
#pragma once

#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace addnorm {

// The value is the exit code of the program.
enum class Failure { check = 1, input = 2, nonfinite = 3, system = 4 };

enum class Level { error, warning, information };

// One thing to tell the user. `where` is "file:line:column", "file: key" or a point name.
struct Finding {
  Level level = Level::error;
  std::string where;
  std::string message;  // "expected X, got Y; try Z"

  std::string text() const;  // "error [where] message"
};

using Findings = std::vector<Finding>;

bool has_errors(const Findings& findings);
std::string lines_of(const Findings& findings);  // one line each

// Thrown for everything that is not a broken invariant. what() is ready to print and names where it
// happened, what was expected, what came and what to do; several problems stand on several lines.
class Error : public std::runtime_error {
 public:
  Error(Failure failure, const std::string& message)
      : std::runtime_error(message), failure_(failure) {}
  explicit Error(const Findings& findings)
      : std::runtime_error(lines_of(findings)), failure_(Failure::input), findings_(findings) {}

  Failure failure() const { return failure_; }
  const Findings& findings() const { return findings_; }

 private:
  Failure failure_;
  Findings findings_;
};

[[noreturn]] void fail_input(const std::string& where, const std::string& message);
[[noreturn]] void fail_system(const std::string& where, const std::string& message);

// Invariants: prints file, line and the condition, then aborts; kept in release builds.
[[noreturn]] void broken(const char* condition, const char* file, int line);
#define ADDNORM_ASSERT(condition) \
  ((condition) ? static_cast<void>(0) : ::addnorm::broken(#condition, __FILE__, __LINE__))

}  // namespace addnorm
