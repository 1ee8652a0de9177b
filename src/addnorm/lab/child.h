// Child programs.
#pragma once

#include <sys/types.h>

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace addnorm::lab {

// A running program, its stdin closed, stdout and stderr in one file. It has a process group of its
// own, so that a Ctrl-C at the terminal reaches it once, through interrupt(). The destructor kills it,
// and the kernel sends it SIGTERM when the thread that started it ends in any way, kill -9 included.
class Child {
 public:
  // `arguments[0]` is the program's path. Throws Error (system) when it cannot be started.
  Child(const std::vector<std::string>& arguments, const std::filesystem::path& log);
  ~Child();
  Child(Child&& other) noexcept;
  Child& operator=(Child&&) = delete;

  // How it ended, once it has: its exit code, or 128 + the signal that ended it.
  std::optional<int> poll();
  void interrupt();  // SIGINT
  void kill();       // SIGKILL

 private:
  void signal(int number);

  pid_t pid_ = -1;
  std::optional<int> ended_;
};

// The path of the running program.
std::filesystem::path this_program();
// The last lines of a log, for messages.
std::string last_lines(const std::filesystem::path& log, int count);

}  // namespace addnorm::lab
