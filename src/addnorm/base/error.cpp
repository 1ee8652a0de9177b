#include "addnorm/base/error.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>

namespace addnorm {

std::string Finding::text() const {
  const char* name = level == Level::error     ? "error"
                     : level == Level::warning ? "warning"
                                               : "information";
  return where.empty() ? std::string(name) + ": " + message
                       : std::string(name) + " [" + where + "] " + message;
}

bool has_errors(const Findings& findings) {
  return std::any_of(findings.begin(), findings.end(),
                     [](const Finding& f) { return f.level == Level::error; });
}

std::string lines_of(const Findings& findings) {
  std::string all;
  for (const Finding& finding : findings) {
    if (!all.empty()) all += '\n';
    all += finding.text();
  }
  return all;
}

void fail_input(const std::string& where, const std::string& message) {
  throw Error({Finding{Level::error, where, message}});
}

void fail_system(const std::string& where, const std::string& message) {
  throw Error(Failure::system, "error [" + where + "] " + message);
}

void broken(const char* condition, const char* file, int line) {
  std::fprintf(stderr, "%s:%d: broken invariant: %s\n", file, line, condition);
  std::abort();
}

}  // namespace addnorm
