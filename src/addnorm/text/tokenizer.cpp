#include "addnorm/text/tokenizer.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "addnorm/base/error.h"
#include "addnorm/base/text.h"
#include "addnorm/text/utf8.h"

namespace addnorm::text {
namespace {

constexpr int32_t code_points = 0x110000;

class ByteTokenizer : public Tokenizer {
 public:
  explicit ByteTokenizer(bool with_special) : Tokenizer(256, with_special) {}

  std::string kind() const override { return "bytes"; }
  size_t token_bytes(std::string_view) const override { return 1; }

  void encode(std::string_view text, const std::string&, uint64_t,
              std::vector<int32_t>& ids) const override {
    const auto* bytes = reinterpret_cast<const unsigned char*>(text.data());
    ids.insert(ids.end(), bytes, bytes + text.size());
  }

  std::string decode(std::span<const int32_t> ids) const override {
    std::string text;
    for (const int32_t id : ids) {
      if (id >= 0 && id < ordinary_ids()) text += static_cast<char>(id);
    }
    return text;
  }

  std::string to_json() const override {
    return nlohmann::json{{"kind", kind()}, {"special", special().pad >= 0}}.dump(1) + "\n";
  }
};

class CharTokenizer : public Tokenizer {
 public:
  CharTokenizer(std::vector<int32_t> table, Encoding encoding, bool with_special)
      : Tokenizer(static_cast<int32_t>(table.size()), with_special),
        table_(std::move(table)),
        encoding_(encoding),
        ids_(static_cast<size_t>(table_.empty() ? 0 : table_.back() + 1), -1) {
    for (size_t id = 0; id < table_.size(); ++id) {
      ids_[static_cast<size_t>(table_[id])] = static_cast<int32_t>(id);
    }
  }

  std::string kind() const override { return "chars"; }

  size_t token_bytes(std::string_view text) const override {
    size_t at = 0;
    next(text, at);
    return at;
  }

  void encode(std::string_view text, const std::string& name, uint64_t offset,
              std::vector<int32_t>& ids) const override {
    for (size_t at = 0; at < text.size();) {
      const size_t start = at;
      const int32_t code_point = next(text, at);
      const auto index = static_cast<size_t>(code_point);
      const int32_t id = code_point >= 0 && index < ids_.size() ? ids_[index] : -1;
      if (id < 0) fail_unknown(text.substr(start, at - start), code_point, {name, offset + start});
      ids.push_back(id);
    }
  }

  std::string decode(std::span<const int32_t> ids) const override {
    std::string text;
    for (const int32_t id : ids) {
      if (id < 0 || id >= ordinary_ids()) continue;
      const int32_t code_point = table_[static_cast<size_t>(id)];
      if (encoding_ == Encoding::bytes) {
        text += static_cast<char>(code_point);
      } else {
        append_code_point(text, code_point);
      }
    }
    return text;
  }

  std::string to_json() const override {
    return nlohmann::json{{"kind", kind()},
                          {"special", special().pad >= 0},
                          {"encoding", name(encoding_)},
                          {"code_points", table_}}
               .dump(1) +
           "\n";
  }

 private:
  int32_t next(std::string_view text, size_t& at) const {
    if (encoding_ == Encoding::bytes) return static_cast<unsigned char>(text[at++]);
    return next_code_point(text, at);
  }

  [[noreturn]] void fail_unknown(std::string_view bytes, int32_t code_point,
                                 const Place& place) const {
    const std::string what = code_point < 0
                                 ? "a byte that is not UTF-8, " + quoted(bytes)
                                 : fmt::format("{} (U+{:04X})", quoted(bytes), code_point);
    fail_input(place.name,
               fmt::format("byte {}: expected one of the {} characters of the training part, got "
                           "{}; try tokenizer = \"bytes\" or a training part that holds it",
                           place.offset, table_.size(), what));
  }

  std::vector<int32_t> table_;  // id -> code point, ascending
  Encoding encoding_;
  std::vector<int32_t> ids_;  // code point -> id, -1 where it is unknown
};

}  // namespace

Encoding encoding_named(const std::string& name) {
  for (const Encoding encoding : {Encoding::utf8, Encoding::bytes, Encoding::replace}) {
    if (name == text::name(encoding)) return encoding;
  }
  const std::string near = nearest(name, {"utf-8", "bytes", "replace"});
  fail_input("data.encoding", fmt::format("expected utf-8, bytes or replace, got {}{}",
                                          text::quoted(name), near.empty() ? "" : "; try " + near));
}

const char* name(Encoding encoding) {
  return encoding == Encoding::utf8 ? "utf-8" : encoding == Encoding::bytes ? "bytes" : "replace";
}

Tokenizer::Tokenizer(int32_t ordinary, bool with_special) : ordinary_(ordinary) {
  if (with_special) special_ = {ordinary, ordinary + 1, ordinary + 2, ordinary + 3};
}

std::unique_ptr<Tokenizer> byte_tokenizer(bool with_special) {
  return std::make_unique<ByteTokenizer>(with_special);
}

CharacterTable::CharacterTable(Encoding encoding) : encoding_(encoding), seen_(code_points) {}

void CharacterTable::add(std::string_view text) {
  for (size_t at = 0; at < text.size();) {
    const int32_t code_point = encoding_ == Encoding::bytes ? static_cast<unsigned char>(text[at++])
                                                            : next_code_point(text, at);
    ADDNORM_ASSERT(code_point >= 0);
    seen_[static_cast<size_t>(code_point)] = true;
  }
}

std::unique_ptr<Tokenizer> CharacterTable::tokenizer(bool with_special) const {
  std::vector<int32_t> table;
  for (int32_t i = 0; i < code_points; ++i) {
    if (seen_[static_cast<size_t>(i)]) table.push_back(i);
  }
  return std::make_unique<CharTokenizer>(std::move(table), encoding_, with_special);
}

std::unique_ptr<Tokenizer> tokenizer_from_json(std::string_view json, const std::string& name) {
  constexpr int depth_limit = 4;
  bool too_deep = false;
  const auto watch = [&](int depth, nlohmann::json::parse_event_t, nlohmann::json&) {
    too_deep |= depth > depth_limit;
    return depth <= depth_limit;
  };
  const nlohmann::json root = nlohmann::json::parse(json, watch, /*allow_exceptions=*/false);
  const auto wrong = [&] [[noreturn]] (const std::string& key, const std::string& expected) {
    fail_input(name,
               fmt::format("{}expected {}, got something else; try the tokenizer.json of a run",
                           key.empty() ? "" : key + ": ", expected));
  };
  if (!root.is_object() || too_deep) wrong("", "a JSON object of at most 4 levels");
  const auto member = [&](const char* key) {
    const auto found = root.find(key);
    return found == root.end() ? nlohmann::json() : *found;
  };
  const nlohmann::json kind = member("kind");
  const nlohmann::json special = member("special");
  if (!special.is_boolean()) wrong("special", "true or false");
  if (kind == "bytes") return byte_tokenizer(special.get<bool>());
  if (kind != "chars") wrong("kind", "bytes or chars");
  const nlohmann::json encoding = member("encoding");
  if (!encoding.is_string()) wrong("encoding", "a string");
  const Encoding used = encoding_named(encoding.get<std::string>());
  const nlohmann::json table = member("code_points");
  if (!table.is_array()) wrong("code_points", "an array of numbers");
  const int64_t limit = used == Encoding::bytes ? 256 : code_points;
  std::vector<int32_t> characters;
  for (const nlohmann::json& one : table) {
    const int64_t value = one.is_number_integer() ? one.get<int64_t>() : -1;
    const bool surrogate = value >= 0xD800 && value < 0xE000;
    if (value < 0 || value >= limit || surrogate ||
        (!characters.empty() && value <= characters.back())) {
      wrong("code_points", fmt::format("ascending code points below {}", limit));
    }
    characters.push_back(static_cast<int32_t>(value));
  }
  return std::make_unique<CharTokenizer>(std::move(characters), used, special.get<bool>());
}

}  // namespace addnorm::text
