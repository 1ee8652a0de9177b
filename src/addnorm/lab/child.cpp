#include "addnorm/lab/child.h"

#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>

#include <cerrno>
#include <csignal>
#include <cstring>
#include <fstream>

#include "addnorm/base/error.h"
#include "addnorm/base/text.h"

extern char** environ;

namespace addnorm::lab {
namespace {

struct Actions {
  posix_spawn_file_actions_t files{};
  posix_spawnattr_t attributes{};
  Actions() {
    posix_spawn_file_actions_init(&files);
    posix_spawnattr_init(&attributes);
  }
  ~Actions() {
    posix_spawn_file_actions_destroy(&files);
    posix_spawnattr_destroy(&attributes);
  }
  Actions(const Actions&) = delete;
  Actions& operator=(const Actions&) = delete;
};

}  // namespace

Child::Child(const std::vector<std::string>& arguments, const std::filesystem::path& log) {
  Actions actions;
  posix_spawn_file_actions_addopen(&actions.files, 0, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_addopen(&actions.files, 1, log.c_str(), O_WRONLY | O_CREAT | O_APPEND,
                                   0644);
  posix_spawn_file_actions_adddup2(&actions.files, 1, 2);
  // A handler of ours for SIGINT must not leave the child ignoring or blocking it.
  sigset_t none, defaults;
  sigemptyset(&none);
  sigemptyset(&defaults);
  sigaddset(&defaults, SIGINT);
  sigaddset(&defaults, SIGTERM);
  posix_spawnattr_setsigmask(&actions.attributes, &none);
  posix_spawnattr_setsigdefault(&actions.attributes, &defaults);
  posix_spawnattr_setpgroup(&actions.attributes, 0);
  posix_spawnattr_setflags(&actions.attributes,
                           POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
  std::vector<char*> argv;
  for (const std::string& argument : arguments) argv.push_back(const_cast<char*>(argument.c_str()));
  argv.push_back(nullptr);
  const int problem =
      posix_spawn(&pid_, argv[0], &actions.files, &actions.attributes, argv.data(), environ);
  if (problem != 0) {
    pid_ = -1;
    fail_system(arguments.front(), std::string("expected to start it with its output in ") +
                                       log.string() + ", got: " + std::strerror(problem));
  }
}

Child::Child(Child&& other) noexcept : pid_(other.pid_), ended_(other.ended_) { other.pid_ = -1; }

Child::~Child() {
  if (pid_ < 0 || ended_) return;
  kill();
  while (waitpid(pid_, nullptr, 0) < 0 && errno == EINTR) {
  }
}

std::optional<int> Child::poll() {
  if (ended_ || pid_ < 0) return ended_;
  int status = 0;
  const pid_t got = waitpid(pid_, &status, WNOHANG);
  if (got == pid_) ended_ = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  if (got < 0 && errno == ECHILD) ended_ = 255;
  return ended_;
}

void Child::signal(int number) {
  if (pid_ > 0 && !ended_) ::kill(-pid_, number);
}
void Child::interrupt() { signal(SIGINT); }
void Child::kill() { signal(SIGKILL); }

std::filesystem::path this_program() {
  std::error_code problem;
  auto path = std::filesystem::read_symlink("/proc/self/exe", problem);
  if (problem)
    fail_system("/proc/self/exe", "expected the path of this program, got: " + problem.message());
  return path;
}

std::string last_lines(const std::filesystem::path& log, int count) {
  std::ifstream in(log);
  std::vector<std::string> lines;
  for (std::string line; std::getline(in, line);) {
    if (line = trim(line); line.empty()) continue;
    lines.push_back(line);
    if (static_cast<int>(lines.size()) > count) lines.erase(lines.begin());
  }
  return join(lines, "\n");
}

}  // namespace addnorm::lab
