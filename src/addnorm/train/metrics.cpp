#include "addnorm/train/metrics.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cmath>
#include <cstring>

#include "addnorm/base/error.h"
#include "addnorm/base/files.h"
#include "addnorm/base/text.h"
#include "addnorm/text/utf8.h"

namespace addnorm::train {

std::string json_number(double value) {
  if (std::isnan(value)) return "\"NaN\"";
  if (std::isinf(value)) return value > 0 ? "\"Infinity\"" : "\"-Infinity\"";
  return shortest(value);
}

std::string json_text(std::string_view text) {
  int64_t replaced = 0;
  std::string json = "\"";
  for (const char c : text::repaired_utf8(text, replaced)) {
    if (c == '"' || c == '\\') {
      json += '\\';
      json += c;
    } else if (static_cast<unsigned char>(c) < 0x20) {
      json += fmt::format("\\u{:04x}", static_cast<int>(c));
    } else {
      json += c;
    }
  }
  return json + '"';
}

Line::Line(std::string_view event) : json_("{\"event\":" + json_text(event)) {}

void Line::key(std::string_view name) {
  json_ += ',';
  json_ += json_text(name);
  json_ += ':';
}

Line& Line::number(std::string_view name, double value) { return raw(name, json_number(value)); }

Line& Line::integer(std::string_view name, int64_t value) {
  return raw(name, std::to_string(value));
}

Line& Line::text(std::string_view name, std::string_view value) {
  return raw(name, json_text(value));
}

Line& Line::raw(std::string_view name, std::string_view json) {
  key(name);
  json_ += json;
  return *this;
}

MetricsFile::MetricsFile(const std::filesystem::path& path) : path_(path) {
  do file_ = ::open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
  while (file_ < 0 && errno == EINTR);
  if (file_ < 0) {
    const int code = errno;
    fail_system(path.string(), std::string("opening failed: ") + std::strerror(code) + "; " +
                                   remedy(code, "try another run"));
  }
}

MetricsFile::~MetricsFile() {
  if (file_ >= 0) ::close(file_);
}

void MetricsFile::write(const Line& line) {
  const std::string text = line.str();
  size_t done = 0;
  while (done < text.size()) {
    const ssize_t put = ::write(file_, text.data() + done, text.size() - done);
    if (put < 0 && errno == EINTR) continue;
    if (put <= 0) {
      const int code = put < 0 ? errno : ENOSPC;
      fail_system(path_.string(),
                  fmt::format("writing {} bytes failed: {}; {}, then `addnorm resume`", text.size(),
                              std::strerror(code), remedy(code, "see to the disk")));
    }
    done += static_cast<size_t>(put);
  }
}

void MetricsFile::sync() {
  if (::fsync(file_) != 0 && errno != EINVAL) {
    fail_system(path_.string(),
                std::string("making the file durable failed: ") + std::strerror(errno));
  }
}

}  // namespace addnorm::train
