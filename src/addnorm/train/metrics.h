// metrics.jsonl: one JSON object per line, flushed line by line, append-only, strict JSON; numbers
// that are not finite stand there as the strings "NaN", "Infinity", "-Infinity".
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>

namespace addnorm::train {

// One line in the making; keys stay in the order they are added.
class Line {
 public:
  explicit Line(std::string_view event);
  Line& number(std::string_view key, double value);
  Line& integer(std::string_view key, int64_t value);
  Line& text(std::string_view key, std::string_view value);
  Line& raw(std::string_view key, std::string_view json);  // a value that is JSON already
  std::string str() const { return json_ + "}\n"; }

 private:
  void key(std::string_view name);
  std::string json_;
};

std::string json_number(double value);
std::string json_text(std::string_view text);  // quoted, escaped; invalid UTF-8 is replaced

class MetricsFile {
 public:
  explicit MetricsFile(
      const std::filesystem::path& path);  // opened for appending, created if absent
  ~MetricsFile();
  MetricsFile(const MetricsFile&) = delete;
  MetricsFile& operator=(const MetricsFile&) = delete;

  // In one write, so that a reader never sees half a line of a running process, nor a kill leaves
  // more than one torn.
  void write(const Line& line);
  void sync();  // durable; before a checkpoint, which must not be newer than its metrics

 private:
  std::filesystem::path path_;
  int file_ = -1;
};

}  // namespace addnorm::train
