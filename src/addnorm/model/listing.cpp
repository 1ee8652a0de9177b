// Everything that is written from the registry: the resolved specification, the commented default,
// the documentation and the help of flags.
#include <fmt/format.h>

#include "addnorm/base/text.h"
#include "addnorm/model/keys.h"

namespace addnorm::model {
namespace {

const char* source_name(Source source) {
  switch (source) {
    case Source::default_value:
      return "default";
    case Source::wiring:
      return "wiring";
    case Source::file:
      return "file";
    case Source::flag:
      return "flag";
  }
  return "";
}

std::string capitalized(std::string text) {
  // Not where the first word is a name: "head.bias", "c > 0".
  const size_t word = text.find_first_not_of("abcdefghijklmnopqrstuvwxyz");
  if (word != std::string::npos && word > 1 && text[word] == ' ') {
    text[0] = static_cast<char>(std::toupper(static_cast<unsigned char>(text[0])));
  }
  return text;
}

// Comment lines of at most 100 columns.
std::string comment(const std::string& text) {
  std::string out, line = "#";
  for (const std::string& part : split(text, ' ')) {
    if (line.size() + 1 + part.size() > 100) {
      out += line + "\n";
      line = "#";
    }
    line += " " + part;
  }
  return out + line + "\n";
}

std::string allowed(const Key& key) {
  if (!key.words.empty() && key.type == KeyType::text) return join(key.words, " | ");
  return key.expected();
}

std::string quoted_key(const std::string& name) {
  return name.find('.') == std::string::npos ? name : "\"" + name + "\"";
}

std::string cell(const std::string& text) {
  std::string out;
  for (const char c : text) out += c == '|' ? "\\|" : std::string(1, c);
  return out;
}

}  // namespace

std::string resolved_toml(const Specification& spec) {
  std::string out;
  const auto line = [&](const std::string& name, const std::string& value,
                        const std::string& path) {
    const auto source = spec.sources.find(path);
    out += quoted_key(name) + " = " + value + "  # " +
           source_name(source == spec.sources.end() ? Source::default_value : source->second) +
           "\n";
  };
  for (const std::string& section : sections()) {
    const size_t before = out.size();
    const std::string header = (out.empty() ? "[" : "\n[") + section + "]\n";
    out += header;
    for (const Key& key : keys()) {
      if (key.section() != section) continue;
      const std::string value = key.read(spec);
      if (!value.empty()) line(key.name(), value, key.path);
    }
    if (section == "init") {
      for (const auto& [role, rule] : spec.init) {
        if (role.find('.') != std::string::npos) line(role, quoted(rule), "init." + role);
      }
    }
    if (out.size() == before + header.size()) out.resize(before);
  }
  return out;
}

std::map<std::string, Source> sources_in(const std::string& resolved) {
  std::map<std::string, Source> sources;
  std::string section, name;
  bool inside = false;  // of a text over several lines
  for (const std::string& line : split(resolved, '\n')) {
    const size_t equals = line.find(" = ");
    if (!inside && line.starts_with('[')) section = line.substr(1, line.find(']') - 1);
    if (!inside && equals != std::string::npos) {
      name = line.substr(0, equals);
      if (name.starts_with('"')) name = name.substr(1, name.size() - 2);
      inside = line.substr(equals + 3) == R"(""")";
      if (inside) continue;
    }
    const size_t comment = line.rfind("  # ");
    if (comment == std::string::npos || name.empty()) continue;
    if (inside && !line.substr(0, comment).ends_with(R"(""")")) continue;
    inside = false;
    for (const Source source :
         {Source::default_value, Source::wiring, Source::file, Source::flag}) {
      if (line.substr(comment + 4) == source_name(source)) sources[section + "." + name] = source;
    }
    name.clear();
  }
  return sources;
}

std::string commented_default() {
  std::string out =
      "# A specification of addnorm. Keys that are commented out follow from others or are rarely "
      "set;\n# docs/specification.md says more.\n";
  for (const std::string& section : sections()) {
    const bool optional = section == "init" || section.starts_with("train.");
    out += "\n" + comment(section_help(section));
    out += (optional ? "# [" : "[") + section + "]\n";
    for (const Key& key : keys()) {
      if (key.section() != section) continue;
      const bool live = !optional && key.otherwise.empty() && key.required != Required::pair;
      const std::string value = key.listing.empty() ? key.standard : key.listing;
      if (!optional) {
        std::string about = capitalized(key.help);
        if (!key.words.empty() && key.type == KeyType::text)
          about += " (" + join(key.words, " ") + ")";
        if (!key.otherwise.empty()) about += " (absent: " + key.otherwise + ")";
        out += comment(about);
      }
      out += (live ? "" : "# ") + key.name() + " = " + value + "\n";
    }
  }
  return out;
}

std::string documentation() {
  std::string out =
      "# The specification\n\n"
      "A model, its data and its training are one TOML file. It is strict: an unknown key, a wrong "
      "type or a value out of\nrange is an error with file, line, key and the nearest valid key, "
      "and "
      "all problems are reported at once. A flag\n`--SECTION.KEY VALUE` overrides a key "
      "(`--model.layers 24`, `--train.lr_scale.attn_out \"1/sqrt(L)\"`); formulas and\nnames need "
      "no "
      "quotes of TOML there. A section may be absent where a verb does not need it; `grad` and "
      "`init` need only\n`[model]`. Every run keeps the resolved specification, where each value "
      "says where it came from: default, wiring,\nfile or flag. Files are named as seen from the "
      "current directory.\n\n"
      "`addnorm spec` prints a commented default. This page is written from the same registry of "
      "keys (`addnorm spec --docs`).\n";
  for (const std::string& section : sections()) {
    out += "\n## [" + section + "]\n\n" + section_help(section) + "\n\n";
    out += "| key | default | allowed | meaning |\n|---|---|---|---|\n";
    for (const Key& key : keys()) {
      if (key.section() != section) continue;
      const bool words = key.otherwise.empty() && key.required == Required::never;
      const std::string standard = words ? "`" + key.default_text() + "`" : key.default_text();
      out += fmt::format("| `{}` | {} | {} | {} |\n", key.name(), standard, cell(allowed(key)),
                         cell(key.help));
    }
  }
  return out;
}

std::vector<std::string> flag_lines(const std::string& section) {
  std::vector<std::string> lines;
  for (const Key& key : keys()) {
    if (!section.empty() && key.section() != section) continue;
    lines.push_back(fmt::format("--{:<28} {} ({})", key.path, key.help, key.default_text()));
  }
  return lines;
}

}  // namespace addnorm::model
