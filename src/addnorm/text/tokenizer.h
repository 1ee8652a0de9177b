// Tokenizers turn text into ids and back. `bytes`: ids 0..255 are the bytes. `chars`: the sorted code
// points of the training part. Encoders and pairs add pad, bos, eos and mask, in this order, after the
// ordinary ids.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace addnorm::text {

// What is done with bytes that are not UTF-8: an error, nothing (every byte stands for itself), or
// U+FFFD in their place.
enum class Encoding { utf8, bytes, replace };
Encoding encoding_named(const std::string& name);  // utf-8 | bytes | replace
const char* name(Encoding encoding);

struct SpecialIds {
  int32_t pad = -1;  // all -1 where a tokenizer has none
  int32_t bos = -1;
  int32_t eos = -1;
  int32_t mask = -1;
};

// Where a text comes from, for messages.
struct Place {
  std::string name;     // a file
  uint64_t offset = 0;  // of the first byte of the text in it
};

class Tokenizer {
 public:
  virtual ~Tokenizer() = default;

  virtual std::string kind() const = 0;  // "bytes" | "chars"
  int32_t ordinary_ids() const { return ordinary_; }
  int32_t vocab_size() const { return ordinary_ + (special_.pad >= 0 ? 4 : 0); }
  const SpecialIds& special() const { return special_; }
  int32_t padding_id() const { return special_.pad >= 0 ? special_.pad : 0; }

  // The size in bytes of the token at the start of the (not empty) text.
  virtual size_t token_bytes(std::string_view text) const = 0;
  // Appends the ids of the text; an unknown character is an Error with its byte offset, where the text
  // begins at byte `offset` of the file `name`.
  virtual void encode(std::string_view text, const std::string& name, uint64_t offset,
                      std::vector<int32_t>& ids) const = 0;
  // Special ids and ids outside the vocabulary give nothing.
  virtual std::string decode(std::span<const int32_t> ids) const = 0;

  std::vector<int32_t> encode(std::string_view text, const Place& place = {"text", 0}) const {
    std::vector<int32_t> ids;
    encode(text, place.name, place.offset, ids);
    return ids;
  }

  // tokenizer.json: everything that decoding and encoding need.
  virtual std::string to_json() const = 0;

 protected:
  Tokenizer(int32_t ordinary, bool with_special);

 private:
  int32_t ordinary_;
  SpecialIds special_;
};

std::unique_ptr<Tokenizer> byte_tokenizer(bool with_special);

// Collects the code points of a text (every byte its own for Encoding::bytes) for a chars tokenizer.
class CharacterTable {
 public:
  explicit CharacterTable(Encoding encoding);
  void add(std::string_view text);  // valid UTF-8 unless the encoding is bytes
  std::unique_ptr<Tokenizer> tokenizer(bool with_special) const;

 private:
  Encoding encoding_;
  std::vector<bool> seen_;
};

// From the text of a tokenizer.json, as to_json() writes it; `name` stands for it in messages. An Error
// where it is none.
std::unique_ptr<Tokenizer> tokenizer_from_json(std::string_view json, const std::string& name);

}  // namespace addnorm::text
