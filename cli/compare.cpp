// `addnorm compare`: what differs between two specifications or runs, and what follows from it.
#include "addnorm/lab/compare.h"

#include <memory>
#include <nlohmann/json.hpp>

#include "output.h"
#include "specification.h"
#include "verb.h"

namespace addnorm::cli {
namespace {

using lab::Difference;

void print_part(const std::string& title, const std::vector<Difference>& differences) {
  if (differences.empty()) return;
  print_line("");
  std::vector<std::vector<std::string>> rows;
  rows.reserve(differences.size());
  for (const Difference& d : differences)
    rows.push_back({d.name, wrapped(d.a, 44), wrapped(d.b, 44)});
  print(table({title, "A", "B"}, rows));
}

void print_lines(const std::string& title, const std::vector<std::string>& lines) {
  if (lines.empty()) return;
  print_line("");
  print_line(title);
  for (const std::string& line : lines) print_line("  " + line);
}

nlohmann::ordered_json json_of(const std::vector<Difference>& differences) {
  auto list = nlohmann::ordered_json::array();
  for (const Difference& d : differences)
    list.push_back({{"name", d.name}, {"a", d.a}, {"b", d.b}});
  return list;
}

int run(const std::string& a, const std::string& b, const std::string& catalogue,
        const Invocation& invocation) {
  for (const std::string& path : {a, b}) refuse_sweep(path, "inspect");
  const lab::Comparison c = lab::compare(a, b, chosen_catalogue(catalogue));
  if (invocation.json) {
    const nlohmann::ordered_json all{
        {"keys", json_of(c.keys)},       {"follows", json_of(c.follows)}, {"fixed", c.fixed},
        {"machine", json_of(c.machine)}, {"curves", json_of(c.curves)},   {"remarks", c.remarks}};
    print_line(all.dump(1));
    return 0;
  }
  print_line("A: " + a);
  print_line("B: " + b);
  if (c.keys.empty()) print_line("The specifications are the same.");
  print_part("what differs", c.keys);
  print_part("what follows from it", c.follows);
  print_lines("what does not follow", c.fixed);
  print_part("machine", c.machine);
  print_part("curves", c.curves);
  print_lines("remarks", c.remarks);
  return 0;
}

const Register verb(
    {.name = "compare",
     .summary = "what differs between two specifications or runs, and what follows from it",
     .example = "addnorm compare a.toml b.toml\naddnorm compare runs/a-1 runs/b-1",
     .order = 90,
     .takes_json = true,
     .setup = [](Arguments& arguments) -> Action {
       auto a = std::make_shared<std::string>(), b = std::make_shared<std::string>();
       arguments.positional("A", *a, "a specification or the folder of a run");
       arguments.positional("B", *b, "another one");
       auto file = std::make_shared<std::string>();
       arguments.catalogue(*file);
       return [=](const Invocation& invocation) { return run(*a, *b, *file, invocation); };
     }});

}  // namespace
}  // namespace addnorm::cli
