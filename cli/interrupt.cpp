#include "interrupt.h"

#include <unistd.h>

#include <csignal>

namespace addnorm::cli {
namespace {

std::atomic<bool> asked = false;
static_assert(std::atomic<bool>::is_always_lock_free);

extern "C" void on_signal(int) {
  if (asked.exchange(true)) ::_exit(130);
}

}  // namespace

const std::atomic<bool>* watch_interrupts() {
  struct sigaction action = {};
  action.sa_handler = on_signal;
  action.sa_flags = SA_RESTART;
  ::sigaction(SIGINT, &action, nullptr);
  ::sigaction(SIGTERM, &action, nullptr);
  return &asked;
}

}  // namespace addnorm::cli
