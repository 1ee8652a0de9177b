// The registry of specification keys: parser, defaults, help, docs/specification.md and
// `addnorm spec` are all made from this list, and one test walks it.
#pragma once

#include <functional>
#include <limits>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "addnorm/model/specification.h"
#include "addnorm/model/toml_value.h"

namespace addnorm::model {

enum class KeyType {
  boolean,
  integer,
  number,
  text,            // one of `words` where there are any
  expression,      // a number, or an expression in the model's sizes
  texts,           // a string or a list of strings
  roles,           // true, false, or a list of roles
  count_or_share,  // a whole number, or "5%"
  share_or_file,   // a number, or a file
  rule             // an initialization rule
};

enum class Required {
  never,
  always,
  single,    // kind decoder or encoder
  pair,      // kind encoder-decoder
  bare,      // where no tokenizer decides it
  training,  // by verbs that train
  wiring     // unless encoder_wiring and decoder_wiring stand for it
};

// What the second value of a key must change; tests/model/keys_test.cpp proves the first four,
// tests of the named folder the others.
enum class Effect { parameters, graph, init, loading, data, training };

struct Key {
  std::string path{};  // "train.lr"
  KeyType type = KeyType::text;
  std::string standard{};   // TOML text of the default; "" where there is none
  std::string otherwise{};  // in words, where other keys decide the default: "heads"
  std::string listing{};    // TOML text in `addnorm spec`; "": the default
  Required required = Required::never;
  double low = -std::numeric_limits<double>::infinity();
  double high = std::numeric_limits<double>::infinity();
  bool low_open = false, high_open = false;  // the bound itself is not allowed
  std::vector<std::string> words{};
  std::string help{};
  std::string second{};  // a valid value other than the default, as TOML
  std::vector<std::pair<std::string, std::string>> with{};  // other keys it takes effect beside
  Effect effect = Effect::parameters;
  // The value has been judged. `path` is that of the file: "init.encoder.q" for the key "init.q".
  std::function<void(Specification&, const TomlValue&, const std::string& path)> write{};
  std::function<std::string(const Specification&)> read{};  // TOML text; "" where there is no value

  std::string section() const { return path.substr(0, path.rfind('.')); }
  std::string name() const { return path.substr(path.rfind('.') + 1); }
  std::string default_text() const;  // for people
  std::string expected() const;      // "a whole number of at least 1"
  // "" where `value` is valid, else what was expected.
  std::string judge(const TomlValue& value) const;
};

const std::vector<Key>& keys();  // in the order of the listing
// By the path in a file; init roles also with "encoder." or "decoder.". nullptr if there is none.
const Key* find_key(const std::string& path);
// "; try `[train] lr`" or "" for a path that is no key; looks over all sections.
std::string nearest_key(const std::string& path);
bool is_section(const std::string& path);
const std::vector<std::string>& sections();            // in the order of the listing
std::string section_help(const std::string& section);  // one paragraph
std::vector<std::string> linear_roles();               // what `bias = true` means

}  // namespace addnorm::model
