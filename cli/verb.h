// A verb of the program is one file of this folder: it describes itself and registers, and main.cpp
// needs no change. cli/wirings.cpp is the example to copy.
//
//   const Register verb({.name = "grad",
//                        .summary = "exact loss and gradients of one batch",
//                        .example = "addnorm grad spec.toml --weights w.safetensors ...",
//                        .order = 40,
//                        .takes_overrides = true,
//                        .setup = [](Arguments& arguments) -> Action { ...; return run; }});
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "addnorm/model/specification.h"
#include "arguments.h"

namespace addnorm::cli {

struct Invocation {
  bool json = false;           // --json, if the verb takes it
  bool verbose = false;        // -v: findings of level information are printed too
  model::Overrides overrides;  // --SECTION.KEY VALUE, in order; repeated keys are kept
};

// Returns the exit code: 0 done, 1 the check that was asked for failed. Everything else is thrown
// (addnorm::Error has the code). Results go to print(), progress and logs to log(): cli/output.h.
using Action = std::function<int(const Invocation&)>;

struct Verb {
  std::string name;
  std::string summary;
  std::string example;  // shown by --help: a command that works, several on several lines
  int order = 100;      // place in `addnorm --help`
  bool takes_overrides = false;
  bool takes_json = false;
  std::function<Action(Arguments&)> setup;
};

struct Register {
  explicit Register(Verb verb);
};
std::vector<Verb> verbs();  // registered ones, by order

// Reads the command line and runs the verb. `arguments` without the program's name.
int run(std::vector<std::string> arguments);

// Takes every `--SECTION.KEY VALUE` and `--SECTION.KEY=VALUE` out of the arguments. A value is taken
// as it is, whatever it begins with; everything after a lone `--` is left alone.
model::Overrides take_overrides(std::vector<std::string>& arguments);

std::string version();       // "0.1.0"
std::string program_path();  // of this executable, to start child programs

}  // namespace addnorm::cli
