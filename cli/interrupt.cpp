#include "interrupt.h"

#include <pthread.h>
#include <unistd.h>

#include <csignal>
#include <system_error>
#include <thread>

#include "addnorm/base/error.h"

namespace addnorm::cli {
namespace {

std::atomic<bool> asked = false;

}  // namespace

// A thread of its own waits for the signals, and every other thread blocks them: the matrix products
// of oneDNN use the stack pointer for other things, so a handler that ran on top of one would write
// into the heap.
const std::atomic<bool>* watch_interrupts() {
  static const bool started = [] {
    std::signal(SIGINT, SIG_DFL);  // an ignored signal would never be waited for
    std::signal(SIGTERM, SIG_DFL);
    sigset_t signals;
    sigemptyset(&signals);
    sigaddset(&signals, SIGINT);
    sigaddset(&signals, SIGTERM);
    pthread_sigmask(SIG_BLOCK, &signals, nullptr);  // inherited by all threads started later
    const auto watch = [signals] {
      for (int signal = 0; sigwait(&signals, &signal) == 0;) {
        if (asked.exchange(true)) ::_exit(130);
      }
    };
    try {
      std::thread(watch).detach();
    } catch (const std::system_error&) {
      fail_system("threads",
                  "expected a thread that waits for Ctrl-C, got none; try more memory or processes "
                  "(`ulimit -v` and `ulimit -u` show limits)");
    }
    return true;
  }();
  static_cast<void>(started);
  return &asked;
}

}  // namespace addnorm::cli
