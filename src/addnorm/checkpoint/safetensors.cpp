#include "addnorm/checkpoint/safetensors.h"

#include "addnorm/base/error.h"
#include "addnorm/base/text.h"
#include "addnorm/checkpoint/json_header.h"
#include "addnorm/text/utf8.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <bit>
#include <cstring>
#include <numeric>
#include <optional>

namespace addnorm::checkpoint {
namespace {

static_assert(std::endian::native == std::endian::little, "the elements are read as they stand");

constexpr size_t prefix_bytes = 8;
constexpr std::string_view metadata_name = "__metadata__";
// Bytes of the shortest entry of a tensor, its comma left out.
constexpr size_t least_entry =
    std::string_view(R"("":{"dtype":"U8","shape":[],"data_offsets":[0,1]})").size();

// The rules by the numbers and names of docs/safetensors.md.
enum class Rule { prefix = 1, length, text, object, unique, dtype, offsets, inside, size, tiling };

const char* name(Rule rule) {
  static constexpr const char* names[] = {"prefix", "length",  "text",   "object", "unique",
                                          "dtype",  "offsets", "inside", "size",   "tiling"};
  return names[static_cast<int>(rule) - 1];
}

// One tensor's entry while it is read; offsets count from the start of the file.
struct Entry {
  std::optional<uint64_t> dtype_at;
  std::optional<uint64_t> shape_at;
  std::optional<uint64_t> offsets_at;
  std::vector<uint64_t> offsets;
  bool shape_overflows = false;
};

class HeaderReader {
 public:
  HeaderReader(const std::string& file, std::string_view header, uint64_t data_bytes)
      : file_(file), header_(header), data_bytes_(data_bytes), cursor_(header) {}

  void read() try {
    cursor_.expect('{', "an object of tensors");
    // Room at once: a vector that grows would need several times as much.
    const auto objects = static_cast<size_t>(std::count(header_.begin(), header_.end(), '{'));
    tensors.reserve(std::min(objects, header_.size() / least_entry));
    offsets_at_.reserve(tensors.capacity());
    if (!cursor_.accept('}')) {
      do read_member();
      while (cursor_.accept(','));
      cursor_.expect('}', "a comma or the closing brace of the header");
    }
    cursor_.skip_space();
    if (cursor_.at() < header_.size()) {
      cursor_.fail(cursor_.at(),
                   "expected nothing after the object, got " + cursor_.found(cursor_.at()));
    }
    check_unique();
    check_tiling();
  } catch (const JsonProblem& problem) {
    fail(Rule::object, prefix_bytes + problem.at, current_, problem.message);
  }

  [[noreturn]] void fail(Rule rule, uint64_t at, std::string_view tensor,
                         const std::string& message) const {
    const std::string subject = tensor.empty() ? "" : ", tensor " + text::quoted(tensor);
    fail_input(file_, fmt::format("byte {}{}: rule {} ({}) of safetensors: {}", at, subject,
                                  static_cast<int>(rule), name(rule), message));
  }

  std::vector<TensorInfo> tensors;
  std::vector<uint32_t> by_name;
  size_t metadata_at = 0;

 private:
  uint64_t here() {
    cursor_.skip_space();
    return prefix_bytes + cursor_.at();
  }

  void read_member() {
    current_.clear();
    const uint64_t at = here();
    current_ = JsonCursor::unescaped(cursor_.raw_string("the name of a tensor in quotes"));
    cursor_.expect(':', "a colon after the name");
    if (current_ == metadata_name) {
      if (metadata_at > 0)
        fail(Rule::unique, at, current_, "expected each name once, got it again");
      metadata_at = here() - prefix_bytes;
      read_metadata();
      return;
    }
    TensorInfo tensor;
    tensor.header_offset = at;
    const Entry entry = read_entry(tensor);
    check(tensor, entry);
    offsets_at_.push_back(*entry.offsets_at);
    tensor.name = std::move(current_);
    tensors.push_back(std::move(tensor));
  }

  void read_metadata() {
    struct Key {
      std::string_view raw;
      uint64_t at;
    };
    std::vector<Key> keys;
    cursor_.expect('{', "an object of strings");
    if (cursor_.accept('}')) return;
    do {
      const uint64_t at = here();
      keys.push_back({cursor_.raw_string("a name in quotes"), at});
      cursor_.expect(':', "a colon after the name");
      cursor_.raw_string("a string");
    } while (cursor_.accept(','));
    cursor_.expect('}', "a comma or the closing brace");
    const auto plain = [](std::string_view raw) {
      return raw.find('\\') == std::string_view::npos;
    };
    const auto compare = [&](std::string_view a, std::string_view b) {
      return plain(a) && plain(b) ? a.compare(b)
                                  : JsonCursor::unescaped(a).compare(JsonCursor::unescaped(b));
    };
    std::sort(keys.begin(), keys.end(), [&](const Key& a, const Key& b) {
      const int order = compare(a.raw, b.raw);
      return order != 0 ? order < 0 : a.at < b.at;
    });
    for (size_t i = 1; i < keys.size(); ++i) {
      if (compare(keys[i - 1].raw, keys[i].raw) == 0) {
        fail(Rule::unique, keys[i].at, current_,
             fmt::format("expected each name once, got {} again",
                         text::quoted(JsonCursor::unescaped(keys[i].raw))));
      }
    }
  }

  Entry read_entry(TensorInfo& tensor) {
    Entry entry;
    const uint64_t start = here();
    cursor_.expect('{', "an object with dtype, shape and data_offsets");
    if (!cursor_.accept('}')) {
      do {
        const uint64_t at = here();
        const std::string field = JsonCursor::unescaped(cursor_.raw_string("a field in quotes"));
        std::optional<uint64_t>* seen = field == "dtype"          ? &entry.dtype_at
                                        : field == "shape"        ? &entry.shape_at
                                        : field == "data_offsets" ? &entry.offsets_at
                                                                  : nullptr;
        if (seen == nullptr) {
          fail(Rule::object, at, current_,
               "expected dtype, shape and data_offsets, got " + text::quoted(field));
        }
        if (seen->has_value()) {
          fail(Rule::unique, at, current_, "expected each field once, got " + field + " again");
        }
        cursor_.expect(':', "a colon after the field");
        *seen = here();
        if (field == "dtype") {
          read_dtype(tensor, **seen);
        } else if (field == "shape") {
          read_shape(tensor, entry);
        } else {
          read_offsets(entry);
        }
      } while (cursor_.accept(','));
      cursor_.expect('}', "a comma or the closing brace of the tensor");
    }
    for (const auto& [seen, field] : {std::pair{entry.dtype_at, "dtype"},
                                      {entry.shape_at, "shape"},
                                      {entry.offsets_at, "data_offsets"}}) {
      if (!seen) fail(Rule::object, start, current_, fmt::format("expected {}, got none", field));
    }
    return entry;
  }

  void read_dtype(TensorInfo& tensor, uint64_t at) {
    const std::string word = JsonCursor::unescaped(cursor_.raw_string("an element type in quotes"));
    std::string all;
    for (int i = 0; i <= static_cast<int>(ElementType::f64); ++i) {
      const auto type = static_cast<ElementType>(i);
      if (word == checkpoint::name(type)) {
        tensor.type = type;
        return;
      }
      all += (i > 0 ? " " : "") + std::string(checkpoint::name(type));
    }
    fail(Rule::dtype, at, current_,
         fmt::format("expected one of {}, got {}", all, text::quoted(word)));
  }

  // Room for the whole shape at once: a vector that grows would need several times as much. Two bytes
  // of the file are at least one dimension of eight.
  size_t dimensions_ahead() const {
    size_t count = 0;
    bool digit = false;
    for (size_t at = cursor_.at(); at < header_.size(); ++at) {
      const char c = header_[at];
      const bool is_digit = c >= '0' && c <= '9';
      if (!is_digit && c != ',' && c != ' ' && c != '\t' && c != '\n' && c != '\r') break;
      count += is_digit && !digit;
      digit = is_digit;
    }
    return count;
  }

  void read_shape(TensorInfo& tensor, Entry& entry) {
    cursor_.expect('[', "a shape in brackets");
    if (cursor_.accept(']')) return;
    tensor.shape.reserve(dimensions_ahead());
    do {
      const uint64_t at = here();
      const auto dimension = cursor_.unsigned_integer();
      if (!dimension) {
        fail(Rule::object, at, current_,
             "expected a non-negative integer in shape, got " + cursor_.found(cursor_.at()));
      }
      entry.shape_overflows |= *dimension > INT64_MAX;
      tensor.shape.push_back(static_cast<int64_t>(std::min<uint64_t>(*dimension, INT64_MAX)));
    } while (cursor_.accept(','));
    cursor_.expect(']', "a comma or the closing bracket of the shape");
  }

  void read_offsets(Entry& entry) {
    const uint64_t start = here();
    const auto wrong = [&] [[noreturn]] (uint64_t at, const std::string& got) {
      fail(Rule::offsets, at, current_,
           "expected [begin, end], two non-negative integers, got " + got);
    };
    if (!cursor_.accept('[')) wrong(start, cursor_.found(cursor_.at()));
    if (cursor_.accept(']')) wrong(start, "no integer");
    do {
      const uint64_t at = here();
      const auto offset = cursor_.unsigned_integer();
      if (!offset) wrong(at, cursor_.found(cursor_.at()));
      if (entry.offsets.size() == 2) wrong(start, "more than two");
      entry.offsets.push_back(*offset);
    } while (cursor_.accept(','));
    cursor_.expect(']', "a comma or the closing bracket of data_offsets");
    if (entry.offsets.size() != 2) wrong(start, "one");
  }

  // Rules 7 to 9, as far as they concern one tensor.
  void check(TensorInfo& tensor, const Entry& entry) const {
    tensor.begin = entry.offsets[0];
    tensor.end = entry.offsets[1];
    if (tensor.begin > tensor.end) {
      fail(Rule::offsets, *entry.offsets_at, current_,
           fmt::format("expected begin at most end, got [{}, {}]", tensor.begin, tensor.end));
    }
    if (tensor.end > data_bytes_) {
      fail(Rule::inside, *entry.offsets_at, current_,
           fmt::format("expected an end of at most {}, the bytes of data in the file, got {}",
                       data_bytes_, tensor.end));
    }
    const auto limit = static_cast<uint64_t>(INT64_MAX) / size(tensor.type);
    const bool empty = std::find(tensor.shape.begin(), tensor.shape.end(), 0) != tensor.shape.end();
    uint64_t count = empty ? 0 : 1;
    bool overflows = entry.shape_overflows;
    for (const int64_t dimension : tensor.shape) {
      if (empty) break;
      overflows |= count > limit / static_cast<uint64_t>(dimension);
      if (overflows) break;
      count *= static_cast<uint64_t>(dimension);
    }
    const uint64_t span = tensor.end - tensor.begin;
    if (overflows || count * size(tensor.type) != span) {
      fail(Rule::size, *entry.shape_at, current_,
           fmt::format("expected {} bytes of data ({} of {} bytes), got {}",
                       overflows ? "more than 2^63" : std::to_string(count * size(tensor.type)),
                       overflows ? "too many elements" : fmt::format("{} elements", count),
                       size(tensor.type), span));
    }
    tensor.count = static_cast<int64_t>(count);
  }

  void check_unique() {
    by_name.resize(tensors.size());
    std::iota(by_name.begin(), by_name.end(), 0u);
    std::sort(by_name.begin(), by_name.end(), [&](uint32_t a, uint32_t b) {
      const int order = tensors[a].name.compare(tensors[b].name);
      return order != 0 ? order < 0 : a < b;
    });
    for (size_t i = 1; i < by_name.size(); ++i) {
      const TensorInfo& second = tensors[by_name[i]];
      if (tensors[by_name[i - 1]].name == second.name) {
        fail(Rule::unique, second.header_offset, second.name,
             "expected each name once, got it again");
      }
    }
  }

  void check_tiling() {
    std::vector<uint32_t> order(tensors.size());
    std::iota(order.begin(), order.end(), 0u);
    std::sort(order.begin(), order.end(), [&](uint32_t a, uint32_t b) {
      const auto key = [&](uint32_t i) { return std::tuple(tensors[i].begin, tensors[i].end, i); };
      return key(a) < key(b);
    });
    uint64_t covered = 0;
    for (const uint32_t i : order) {
      if (tensors[i].begin != covered) {
        fail(Rule::tiling, offsets_at_[i], tensors[i].name,
             fmt::format("expected a begin of {}, where the tensor before it ends, got {}: {}",
                         covered, tensors[i].begin,
                         tensors[i].begin < covered ? "an overlap" : "a hole"));
      }
      covered = tensors[i].end;
    }
    if (covered != data_bytes_) {
      fail(Rule::tiling, prefix_bytes + header_.size() + covered, "",
           fmt::format("expected the end of the file after the last tensor, got {} more bytes",
                       data_bytes_ - covered));
    }
  }

  const std::string& file_;
  std::string_view header_;
  uint64_t data_bytes_;
  JsonCursor cursor_;
  std::string current_;               // the tensor being read
  std::vector<uint64_t> offsets_at_;  // of every tensor
};

}  // namespace

std::string shape_text(const std::vector<int64_t>& shape) {
  std::string text = "[";
  for (size_t i = 0; i < shape.size(); ++i) text += (i > 0 ? "," : "") + std::to_string(shape[i]);
  return text + "]";
}

SafetensorsFile SafetensorsFile::open(const fs::path& path) {
  SafetensorsFile file;
  file.name_ = path.string();
  file.map_ = std::make_shared<const MappedFile>(path);
  file.read_header(file.map_->bytes());
  return file;
}

SafetensorsFile SafetensorsFile::parse(std::string name, std::span<const std::byte> bytes) {
  SafetensorsFile file;
  file.name_ = std::move(name);
  file.read_header(bytes);
  return file;
}

void SafetensorsFile::read_header(std::span<const std::byte> bytes) {
  HeaderReader nothing(name_, {}, 0);
  if (bytes.size() < prefix_bytes) {
    nothing.fail(
        Rule::prefix, bytes.size(), "",
        fmt::format("expected 8 bytes of header length, got the end after {}", bytes.size()));
  }
  uint64_t length = 0;
  std::memcpy(&length, bytes.data(), prefix_bytes);
  if (length > bytes.size() - prefix_bytes || length > header_limit) {
    nothing.fail(
        Rule::length, 0, "",
        fmt::format("expected a header of at most {} bytes, got a length of {}",
                    std::min<uint64_t>(bytes.size() - prefix_bytes, header_limit), length));
  }
  header_ = {reinterpret_cast<const char*>(bytes.data()) + prefix_bytes,
             static_cast<size_t>(length)};
  data_ = bytes.subspan(prefix_bytes + static_cast<size_t>(length));
  HeaderReader reader(name_, header_, data_.size());
  const size_t invalid = text::first_invalid_utf8(header_);
  if (invalid != text::all_valid) {
    reader.fail(Rule::text, prefix_bytes + invalid, "",
                fmt::format("expected UTF-8, got the byte 0x{:02X}",
                            static_cast<unsigned char>(header_[invalid])));
  }
  reader.read();
  tensors_ = std::move(reader.tensors);
  by_name_ = std::move(reader.by_name);
  metadata_at_ = reader.metadata_at;
}

const TensorInfo* SafetensorsFile::find(std::string_view tensor) const {
  const auto found = std::lower_bound(
      by_name_.begin(), by_name_.end(), tensor,
      [&](uint32_t i, std::string_view wanted) { return tensors_[i].name < wanted; });
  return found != by_name_.end() && tensors_[*found].name == tensor ? &tensors_[*found] : nullptr;
}

const TensorInfo& SafetensorsFile::at(std::string_view tensor) const {
  if (const TensorInfo* found = find(tensor)) return *found;
  std::vector<std::string> names;
  for (const TensorInfo& other : tensors_) names.push_back(other.name);
  const std::string near = nearest(tensor, names);
  fail_input(name_, fmt::format("expected the tensor {}, got none of that name among {}{}",
                                text::quoted(tensor), tensors_.size(),
                                near.empty() ? "" : "; the nearest is " + text::quoted(near)));
}

std::map<std::string, std::string> SafetensorsFile::metadata() const {
  std::map<std::string, std::string> result;
  if (metadata_at_ == 0) return result;
  JsonCursor cursor(header_, metadata_at_);
  cursor.expect('{', "an object");
  if (cursor.accept('}')) return result;
  do {
    std::string key = JsonCursor::unescaped(cursor.raw_string("a name"));
    cursor.expect(':', "a colon");
    result[std::move(key)] = JsonCursor::unescaped(cursor.raw_string("a string"));
  } while (cursor.accept(','));
  return result;
}

void write_safetensors(const fs::path& path, const std::vector<TensorOut>& tensors,
                       const std::map<std::string, std::string>& metadata) {
  std::vector<const TensorOut*> order;
  std::vector<std::string_view> names = {metadata_name};
  for (const TensorOut& tensor : tensors) {
    order.push_back(&tensor);
    names.push_back(tensor.name);
  }
  std::sort(names.begin(), names.end());
  ADDNORM_ASSERT(std::adjacent_find(names.begin(), names.end()) == names.end());
  std::stable_sort(order.begin(), order.end(), [](const TensorOut* a, const TensorOut* b) {
    return size(a->type) > size(b->type);
  });

  // Written by hand so that the order of the fields is ours; the library quotes the strings.
  const auto quote = [](const std::string& text) { return nlohmann::json(text).dump(); };
  std::string header = "{";
  if (!metadata.empty()) {
    header += quote(std::string(metadata_name)) + ":{";
    for (const auto& [key, value] : metadata) {
      header += (header.back() == '{' ? "" : ",") + quote(key) + ":" + quote(value);
    }
    header += "}";
  }
  std::vector<uint64_t> sizes;
  uint64_t at = 0;
  for (const TensorOut* tensor : order) {
    uint64_t count = 1;
    for (const int64_t dimension : tensor->shape) {
      ADDNORM_ASSERT(dimension >= 0);
      ADDNORM_ASSERT(!__builtin_mul_overflow(count, static_cast<uint64_t>(dimension), &count));
    }
    uint64_t bytes = 0;
    ADDNORM_ASSERT(!__builtin_mul_overflow(count, size(tensor->type), &bytes));
    header += fmt::format("{}{}:{{\"dtype\":\"{}\",\"shape\":{},\"data_offsets\":[{},{}]}}",
                          header == "{" ? "" : ",", quote(tensor->name), name(tensor->type),
                          shape_text(tensor->shape), at, at + bytes);
    sizes.push_back(bytes);
    at += bytes;
  }
  header += "}";
  header.resize((header.size() + 7) / 8 * 8, ' ');
  ADDNORM_ASSERT(header.size() <= SafetensorsFile::header_limit);

  const auto write = [&](const Emit& emit) {
    const uint64_t length = header.size();
    emit(std::as_bytes(std::span(&length, 1)));
    emit(std::as_bytes(std::span(header.data(), header.size())));
    for (size_t i = 0; i < order.size(); ++i) {
      if (order[i]->data != nullptr || sizes[i] == 0) {
        emit({static_cast<const std::byte*>(order[i]->data), static_cast<size_t>(sizes[i])});
        continue;
      }
      uint64_t written = 0;
      order[i]->write([&](std::span<const std::byte> bytes) {
        written += bytes.size();
        emit(bytes);
      });
      ADDNORM_ASSERT(written == sizes[i]);
    }
  };
  write_file_atomic(path, write, prefix_bytes + header.size() + at);
}

}  // namespace addnorm::checkpoint
