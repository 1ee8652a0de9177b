// libFuzzer target: any bytes either load, and then every tensor can be read, or end in an Error of one
// line. Run it on a copy of the malformed corpus: safetensors_fuzz COPY -max_total_time=60
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>

#include "addnorm/base/error.h"
#include "addnorm/checkpoint/safetensors.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using addnorm::checkpoint::SafetensorsFile;
  try {
    const auto file = SafetensorsFile::parse("fuzz", std::as_bytes(std::span(data, size)));
    for (const auto& tensor : file.tensors()) {
      file.read_double(tensor);
      file.count_nonfinite(tensor);
      if (file.find(tensor.name) != &tensor) std::abort();
    }
    file.metadata();
  } catch (const addnorm::Error& error) {
    const std::string message = error.what();
    if (message.find('\n') != std::string::npos || message.find(": rule ") == std::string::npos)
      std::abort();
  }
  return 0;
}
