// The program `addnorm`: runs a verb and turns what went wrong into a message and an exit code.
#include <csignal>
#include <exception>
#include <filesystem>
#include <new>
#include <string>
#include <vector>

#include "addnorm/base/error.h"
#include "output.h"
#include "verb.h"

namespace {

constexpr int system_failure = static_cast<int>(addnorm::Failure::system);

int guarded(const std::vector<std::string>& arguments) {
  try {
    const int code = addnorm::cli::run(arguments);
    addnorm::cli::finish_output();
    return code;
  } catch (const addnorm::Error& error) {
    addnorm::cli::log(error.what());
    return static_cast<int>(error.failure());
  } catch (const std::bad_alloc&) {
    addnorm::cli::log(
        "error [memory] expected enough memory for what was asked, got an allocation that failed; "
        "try a smaller model, batch or file, or more memory (`ulimit -v` shows a limit)");
  } catch (const std::filesystem::filesystem_error& error) {
    addnorm::cli::log(std::string("error [files] ") + error.what());
  } catch (const std::exception& error) {
    addnorm::cli::log(std::string("error [addnorm] expected no exception here, got ") +
                      error.what());
  }
  return system_failure;
}

}  // namespace

int main(int argc, char** argv) {
  // A reader that goes away is seen by print(), and is not the end of a run that still writes files.
  std::signal(SIGPIPE, SIG_IGN);
  std::signal(SIGXFSZ, SIG_IGN);  // a file-size limit is an error of write(), like a full disk
  const int code = guarded({argv + 1, argv + argc});
  try {
    // Whatever a failed verb had printed before.
    if (code != 0) addnorm::cli::finish_output();
  } catch (const addnorm::Error&) {
    return code;
  }
  return code;
}
