// From what `wiring = "..."` says to a program: a formula, or a name with let values.
#include <algorithm>
#include <string>
#include <vector>

#include "addnorm/base/error.h"
#include "addnorm/base/text.h"
#include "addnorm/formula/catalogue.h"
#include "addnorm/formula/scalar.h"

namespace addnorm::formula {
namespace {

// Errors are about the text of a key called wiring; callers know which file it stands in.
constexpr const char* source = "wiring";

const Entry* entry_for(const std::string& name, Stack stack, const Catalogue& catalogue) {
  const Entry* entry = catalogue.find(name);
  if (entry == nullptr) return nullptr;
  const char* suffix = stack == Stack::pair_encoder   ? "/encoder"
                       : stack == Stack::pair_decoder ? "/decoder"
                                                      : "";
  const Entry* form = catalogue.find(entry->name + suffix);
  return form == nullptr ? entry : form;
}

// "a=1, b=max(2, 3)" at the commas outside parentheses.
std::vector<std::string> parts_of(const std::string& text) {
  std::vector<std::string> parts(1);
  int depth = 0;
  for (const char c : text) {
    depth += c == '(' ? 1 : c == ')' ? -1 : 0;
    if (c == ',' && depth == 0) {
      parts.emplace_back();
    } else {
      parts.back() += c;
    }
  }
  return parts;
}

void add_let_value(const std::string& part, Wiring& wiring, Findings& problems) {
  const auto problem = [&](const std::string& message) {
    problems.push_back({Level::error, source, message});
  };
  const size_t equals = part.find('=');
  if (equals == std::string::npos) {
    return problem("expected name=value in the parentheses after " + wiring.name + ", got \"" +
                   trim(part) + "\"");
  }
  const std::string name = trim(part.substr(0, equals));
  std::vector<std::string> known;
  for (const Statement& statement : wiring.program.let) {
    known.insert(known.end(), statement.names.begin(), statement.names.end());
  }
  if (std::find(known.begin(), known.end(), name) == known.end()) {
    const std::string near = nearest(name, known);
    return problem(known.empty()
                       ? "expected no let value for " + wiring.name +
                             ", whose formula has no let, got \"" + name + "\""
                       : "expected a let name of " + wiring.name + " (" + join(known, ", ") +
                             "), got \"" + name + "\"" + (near.empty() ? "" : "; try " + near));
  }
  if (wiring.let_overrides.contains(name)) {
    return problem("expected one value for " + name + ", got a second one");
  }
  try {
    const auto value = evaluate(*parse_expression(part.substr(equals + 1)), {});
    if (!value) {
      return problem("expected a number for " + name + ", got \"" + trim(part.substr(equals + 1)) +
                     "\"");
    }
    wiring.let_overrides[name] = *value;
  } catch (const Error& error) {
    for (const Finding& finding : error.findings()) problem(name + ": " + finding.message);
  }
}

}  // namespace

bool is_formula(const std::string& text) {
  int depth = 0;
  for (const char c : text) {
    if (c == '(') ++depth;
    if (c == ')') --depth;
    if (c == '=' && depth <= 0) return true;
  }
  return false;
}

Wiring resolve(const std::string& text, Stack stack, const Catalogue& catalogue) {
  Wiring wiring;
  if (is_formula(text)) {
    wiring.text = text;
    wiring.program = parse(text);
    return wiring;
  }
  const std::string given = trim(text);
  const size_t open = given.find('(');
  const std::string name = trim(given.substr(0, open));
  wiring.entry = entry_for(name, stack, catalogue);
  if (wiring.entry == nullptr) {
    const std::string near = nearest(name, catalogue.names());
    fail_input(source, "expected a name of the catalogue or a formula, got \"" + name + "\"; try " +
                           (near.empty() ? "`addnorm wirings` for the names, or x = x + f(norm(x))"
                                         : near));
  }
  wiring.name = wiring.entry->name;
  wiring.text = wiring.entry->formula;
  wiring.program = parse(wiring.text);
  if (open == std::string::npos) return wiring;
  if (given.back() != ')') {
    fail_input(source, "expected ) at the end of \"" + given + "\"");
  }
  Findings problems;
  for (const std::string& part : parts_of(given.substr(open + 1, given.size() - open - 2))) {
    add_let_value(part, wiring, problems);
  }
  if (has_errors(problems)) throw Error(problems);
  return wiring;
}

}  // namespace addnorm::formula
