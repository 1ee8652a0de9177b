// `addnorm wirings`: the catalogue as a table; `show`: everything there is to say about one wiring.
#include <algorithm>
#include <cctype>
#include <memory>

#include "addnorm/base/files.h"
#include "addnorm/base/text.h"
#include "addnorm/formula/catalogue.h"
#include "json.h"
#include "output.h"
#include "verb.h"
#include "wiring_sheet.h"

namespace addnorm::cli {
namespace {

struct Options {
  std::string action, name, filter, catalogue;
};

std::string lower_case(std::string text) {
  for (char& c : text) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return text;
}

bool matches(const formula::Entry& entry, const std::string& filter) {
  const std::string wanted = lower_case(filter);
  for (const std::string& text :
       {entry.name, join(entry.aliases, " "), entry.title, entry.paper, entry.users, entry.formula,
        entry.notes, std::to_string(entry.year)}) {
    if (lower_case(text).find(wanted) != std::string::npos) return true;
  }
  return false;
}

int list(const Options& options, const Invocation& invocation,
         const formula::Catalogue& catalogue) {
  std::vector<std::vector<std::string>> rows;
  Json all = Json::array();
  for (const formula::Entry& entry : catalogue.entries()) {
    if (!matches(entry, options.filter)) continue;
    all.push_back(entry_json(entry));
    rows.push_back({entry.name, entry.year == 0 ? "" : std::to_string(entry.year),
                    wrapped(join(entry.aliases, ", "), 24), wrapped(entry.paper, 32),
                    entry.formula});
  }
  if (invocation.json) {
    print_line(to_text({{"wirings", all}}));
    return 0;
  }
  if (rows.empty()) {
    log("no wiring has \"" + options.filter + "\" in its name, paper, users, formula or notes");
    return 0;
  }
  print(table({"name", "year", "aliases", "paper", "formula"}, rows));
  return 0;
}

int run_wirings(const Options& options, const Invocation& invocation) {
  const formula::Catalogue catalogue =
      options.catalogue.empty()
          ? formula::Catalogue::builtin()
          : formula::Catalogue::with_file(read_file(options.catalogue), options.catalogue);
  if (options.action.empty()) return list(options, invocation, catalogue);
  if (options.action != "show") {
    fail_input("command line", "expected show, got \"" + options.action +
                                   "\"; try addnorm wirings show " + options.action);
  }
  if (options.name.empty()) {
    fail_input("command line", "expected a name or a formula after show, got nothing");
  }
  const WiringSheet sheet = wiring_sheet(options.name, catalogue, invocation.overrides);
  print_line(invocation.json ? to_text(sheet_json(sheet)) : sheet_text(sheet));
  return 0;
}

const Register verb({.name = "wirings",
                     .summary = "the catalogue of wirings; show one, or a formula of your own",
                     .example = "addnorm wirings --filter 2025\n"
                                "addnorm wirings show peri-ln --model.layers 12\n"
                                "addnorm wirings show \"x = norm(2*x + f(norm(x)))\"",
                     .order = 10,
                     .takes_overrides = true,
                     .takes_json = true,
                     .setup = [](Arguments& arguments) -> Action {
                       const auto options = std::make_shared<Options>();
                       arguments.positional("show", options->action, "the word show", false);
                       arguments.positional("NAME|FORMULA", options->name,
                                            "a name of the catalogue, or a formula", false);
                       arguments.option("--filter", options->filter,
                                        "only entries with this text in name, paper, users, ...");
                       arguments.catalogue(options->catalogue);
                       return [options](const Invocation& invocation) {
                         return run_wirings(*options, invocation);
                       };
                     }});

}  // namespace
}  // namespace addnorm::cli
