#include "arguments.h"

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <optional>
#include <system_error>
#include <tuple>
#include <type_traits>

#include <CLI/CLI.hpp>

#include "addnorm/base/error.h"
#include "addnorm/base/text.h"
#include "addnorm/model/keys.h"
#include "addnorm/model/toml_value.h"
#include "output.h"
#include "verb.h"

namespace addnorm::cli {
namespace {

template <typename Number>
std::optional<Number> read_number(const std::string& text) {
  Number value{};
  const char* end = text.data() + text.size();
  const auto result = std::from_chars(text.data(), end, value);
  if (result.ec != std::errc() || result.ptr != end) return std::nullopt;
  return value;
}

template <typename Number>
Number number_of(const std::string& name, const std::string& text, const char* what) {
  if (const auto value = read_number<Number>(text)) return *value;
  if constexpr (std::is_same_v<Number, int64_t>) {  // 1e3
    const auto value = read_number<double>(text);
    if (value && model::is_whole(*value)) return static_cast<int64_t>(*value);
  }
  fail_input(name, std::string("expected ") + what + ", got \"" + text + "\"");
}

constexpr const char* whole_number = "a whole number";
constexpr const char* any_number = "a number";

std::vector<Verb>& registry() {
  static std::vector<Verb> all;
  return all;
}

const Verb* find_verb(const std::string& name) {
  for (const Verb& verb : registry()) {
    if (verb.name == name) return &verb;
  }
  return nullptr;
}

std::string footer(const Verb& verb) {
  std::string text;
  if (verb.takes_overrides) {
    text +=
        "  --SECTION.KEY VALUE         overrides a key of the specification, e.g. --model.layers "
        "24\n"
        "                              (`addnorm spec` lists the keys)\n";
  }
  text += "\nExample:\n";
  for (const std::string& line : split(verb.example, '\n')) text += "  " + line + "\n";
  text.pop_back();
  return text;
}

// `  name        summary` lines under the usage of the program.
std::string verb_list() {
  std::string text = "Verbs:\n";
  for (const Verb& verb : verbs()) {
    text += "  " + verb.name + std::string(verb.name.size() < 12 ? 12 - verb.name.size() : 1, ' ') +
            verb.summary + "\n";
  }
  return text +
         "\nOptions:\n"
         "  -h, --help     this text; `addnorm VERB --help` for one verb\n"
         "  -v, --verbose  information besides errors and warnings\n"
         "  --version      the version\n"
         "\nExit codes: 0 done, 1 the check that was asked for failed, 2 wrong input or usage,\n"
         "3 non-finite numbers, 4 system failure (disk, memory).\n";
}

std::string help_text() {
  return "addnorm: where the residual adds and the normalizations of a Transformer go, and what "
         "that\n"
         "does to its training.\n\nUsage: addnorm VERB [ARGUMENTS]\n\n" +
         verb_list() + "\nExample:\n  addnorm wirings show peri-ln\n";
}

// What an unknown option could have been meant to be.
std::vector<std::string> option_names(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::Option* option : app.get_options()) {
    for (const std::string& name : split(option->get_name(false, true), ',')) {
      if (name.starts_with("-")) names.push_back(name);
    }
  }
  return names;
}

// The option meant, or the key of the specification where those may stand: --lr is --train.lr.
std::string near_option(const std::string& typed, const std::vector<std::string>& options,
                        const Verb& verb) {
  if (!typed.starts_with("-")) return "";
  if (const std::string near = nearest(typed, options); !near.empty()) return near;
  if (!verb.takes_overrides) return "";
  std::vector<std::string> names;
  for (const model::Key& key : model::keys()) names.push_back("--" + key.name());
  const std::string near = nearest(typed, names);
  for (const model::Key& key : model::keys()) {
    if (!near.empty() && "--" + key.name() == near) return "--" + key.path;
  }
  return "";
}

[[noreturn]] void refuse_extras(const CLI::App& app, const Verb& verb) {
  Findings problems;
  const std::vector<std::string> names = option_names(app);
  for (const std::string& extra : app.remaining(true)) {
    std::string message = "expected an argument of `" + verb.name + "`, got \"" + extra + "\"";
    const std::string near = near_option(extra.substr(0, extra.find('=')), names, verb);
    message += near.empty() ? "; try addnorm " + verb.name + " --help" : "; try " + near;
    problems.push_back({Level::error, "command line", message});
  }
  throw Error(problems);
}

int run_verb(const Verb& verb, std::vector<std::string> arguments, bool verbose) {
  Invocation invocation;
  invocation.verbose = verbose;
  if (verb.takes_overrides) invocation.overrides = take_overrides(arguments);

  CLI::App app(verb.summary, "addnorm " + verb.name);
  app.footer(footer(verb));
  app.set_help_flag("-h,--help", "this text");
  Arguments description(app);
  const Action action = verb.setup(description);
  if (verb.takes_json) description.flag("--json", invocation.json, "the result as JSON");
  description.flag("-v,--verbose", invocation.verbose, "information besides errors and warnings");
  try {
    std::reverse(arguments.begin(), arguments.end());  // CLI11 reads from the back
    app.parse(arguments);
  } catch (const CLI::CallForHelp&) {
    print(app.help());
    return 0;
  } catch (const CLI::ExtrasError&) {
    refuse_extras(app, verb);
  } catch (const CLI::ParseError& error) {
    fail_input("command line",
               std::string(error.what()) + "; try addnorm " + verb.name + " --help");
  }
  return action(invocation);
}

}  // namespace

void Arguments::add(const std::string& name, const Setter& set, const std::string& help,
                    const std::string& label, bool required) {
  CLI::Option* option = app_.add_option_function<std::string>(name, set, help);
  option->type_name(label)->required(required)->allow_extra_args(false);
}

void Arguments::positional(const std::string& name, std::string& to, const std::string& help,
                           bool required) {
  add(name, [&to](const std::string& text) { to = text; }, help, "", required);
}

void Arguments::option(const std::string& name, std::string& to, const std::string& help,
                       const std::string& label, bool required) {
  add(name, [&to](const std::string& text) { to = text; }, help, label, required);
}

void Arguments::option(const std::string& name, int64_t& to, const std::string& help) {
  add(
      name,
      [&to, name](const std::string& text) { to = number_of<int64_t>(name, text, whole_number); },
      help, "N", false);
}

void Arguments::option(const std::string& name, double& to, const std::string& help) {
  add(
      name,
      [&to, name](const std::string& text) { to = number_of<double>(name, text, any_number); },
      help, "X", false);
}

void Arguments::option(const std::string& name, std::optional<int64_t>& to,
                       const std::string& help) {
  add(
      name,
      [&to, name](const std::string& text) { to = number_of<int64_t>(name, text, whole_number); },
      help, "N", false);
}

void Arguments::option(const std::string& name, std::optional<double>& to,
                       const std::string& help) {
  add(
      name,
      [&to, name](const std::string& text) { to = number_of<double>(name, text, any_number); },
      help, "X", false);
}

void Arguments::list(const std::string& name, std::vector<std::string>& to, const std::string& help,
                     const std::string& label) {
  CLI::Option* option = app_.add_option(name, to, help + " (may be repeated)");
  option->type_name(label)->allow_extra_args(false);
}

void Arguments::choice(const std::string& name, std::string& to,
                       const std::vector<std::string>& choices, const std::string& help) {
  add(
      name,
      [&to, name, choices](const std::string& text) {
        if (std::find(choices.begin(), choices.end(), text) == choices.end()) {
          fail_input(name, "expected one of " + join(choices, " ") + ", got \"" + text + "\"");
        }
        to = text;
      },
      help, join(choices, "|"), false);
}

void Arguments::flag(const std::string& name, bool& to, const std::string& help) {
  app_.add_flag_callback(name, [&to] { to = true; }, help);
}

void Arguments::catalogue(std::string& to) {
  option("--catalogue", to, "a file of wirings of your own", "FILE");
}

Register::Register(Verb verb) { registry().push_back(std::move(verb)); }

std::vector<Verb> verbs() {
  std::vector<Verb> all = registry();
  std::sort(all.begin(), all.end(), [](const Verb& a, const Verb& b) {
    return std::tie(a.order, a.name) < std::tie(b.order, b.name);
  });
  return all;
}

model::Overrides take_overrides(std::vector<std::string>& arguments) {
  model::Overrides overrides;
  std::vector<std::string> rest;
  for (size_t i = 0; i < arguments.size(); ++i) {
    const std::string& argument = arguments[i];
    if (argument == "--") {
      rest.insert(rest.end(), arguments.begin() + static_cast<std::ptrdiff_t>(i), arguments.end());
      break;
    }
    const size_t equals = argument.find('=');
    const std::string name = argument.substr(0, equals);
    if (!name.starts_with("--") || name.find('.') == std::string::npos) {
      rest.push_back(argument);
    } else if (equals != std::string::npos) {
      overrides.emplace_back(name.substr(2), argument.substr(equals + 1));
    } else if (i + 1 < arguments.size()) {
      overrides.emplace_back(name.substr(2), arguments[++i]);
    } else {
      fail_input(name, "expected a value after it, got the end of the command line");
    }
  }
  arguments = rest;
  return overrides;
}

int run(std::vector<std::string> arguments) {
  bool verbose = false;
  while (!arguments.empty() && arguments.front().starts_with("-")) {
    const std::string first = arguments.front();
    arguments.erase(arguments.begin());
    if (first == "-h" || first == "--help") {
      print(help_text());
      return 0;
    }
    if (first == "--version") {
      print_line("addnorm " + version());
      return 0;
    }
    if (first != "-v" && first != "--verbose") {
      const std::string near = nearest(first, {"--help", "--version", "--verbose"});
      fail_input("command line", "expected a verb, got \"" + first + "\"; try " +
                                     (near.empty() ? "addnorm --help" : near));
    }
    verbose = true;
  }
  if (arguments.empty()) {
    log(help_text());
    return static_cast<int>(Failure::input);
  }
  const std::string name = arguments.front();
  arguments.erase(arguments.begin());
  const Verb* verb = find_verb(name);
  if (verb == nullptr) {
    std::vector<std::string> names;
    for (const Verb& known : registry()) names.push_back(known.name);
    const std::string near = nearest(name, names);
    fail_input("command line", "expected a verb, got \"" + name + "\"; try " +
                                   (near.empty() ? "addnorm --help" : "addnorm " + near));
  }
  return run_verb(*verb, std::move(arguments), verbose);
}

std::string version() { return ADDNORM_VERSION; }

std::string program_path() {
  std::error_code code;
  const auto path = std::filesystem::read_symlink("/proc/self/exe", code);
  if (code) fail_system("/proc/self/exe", "expected the program's own path, got " + code.message());
  return path.string();
}

}  // namespace addnorm::cli
