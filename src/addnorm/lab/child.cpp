#include "addnorm/lab/child.h"

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstring>
#include <fstream>

#include "addnorm/base/error.h"
#include "addnorm/base/text.h"

namespace addnorm::lab {
namespace {

class Descriptor {
 public:
  explicit Descriptor(int number) : number_(number) {}
  ~Descriptor() { close(); }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  void close() {
    if (number_ >= 0) ::close(number_);
    number_ = -1;
  }
  int get() const { return number_; }

 private:
  int number_;
};

// Between fork and exec: only calls that are safe there, whatever other threads were doing. (A fork
// without exec hangs in libraries that have used OpenMP.) Does not return; where the program cannot be
// started, `report` gets the errno.
[[noreturn]] void become(char* const* argv, int input, int log, int report, pid_t parent) {
  ::setpgid(0, 0);
  // A handler of ours for SIGINT must not leave the child ignoring or blocking it.
  struct sigaction standard = {};
  standard.sa_handler = SIG_DFL;
  ::sigaction(SIGINT, &standard, nullptr);
  ::sigaction(SIGTERM, &standard, nullptr);
  sigset_t none;
  sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
  ::prctl(PR_SET_PDEATHSIG, SIGTERM);
  if (::getppid() != parent) ::_exit(128 + SIGTERM);  // it ended before the line above
  if (::dup2(input, 0) == 0 && ::dup2(log, 1) == 1 && ::dup2(log, 2) == 2) {
    ::execv(argv[0], argv);
  }
  const int problem = errno;
  const ssize_t written = ::write(report, &problem, sizeof problem);
  ::_exit(written == sizeof problem ? 127 : 126);
}

}  // namespace

Child::Child(const std::vector<std::string>& arguments, const std::filesystem::path& log) {
  const auto refuse = [&](int problem) {
    fail_system(arguments.front(), std::string("expected to start it with its output in ") +
                                       log.string() + ", got: " + std::strerror(problem));
  };
  std::vector<char*> argv;
  for (const std::string& argument : arguments) argv.push_back(const_cast<char*>(argument.c_str()));
  argv.push_back(nullptr);
  const Descriptor input(::open("/dev/null", O_RDONLY | O_CLOEXEC));
  const Descriptor output(::open(log.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644));
  int ends[2] = {-1, -1};
  if (input.get() < 0 || output.get() < 0 || ::pipe2(ends, O_CLOEXEC) != 0) refuse(errno);
  const Descriptor from(ends[0]);
  Descriptor to(ends[1]);
  const pid_t parent = ::getpid();
  pid_ = ::fork();
  if (pid_ == 0) become(argv.data(), input.get(), output.get(), to.get(), parent);
  if (pid_ < 0) refuse(errno);
  to.close();
  int problem = 0;
  ssize_t got = 0;  // 0 once exec has closed the other end
  while ((got = ::read(from.get(), &problem, sizeof problem)) < 0 && errno == EINTR) {
  }
  if (got != sizeof problem) return;
  while (::waitpid(pid_, nullptr, 0) < 0 && errno == EINTR) {
  }
  pid_ = -1;
  refuse(problem);
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
