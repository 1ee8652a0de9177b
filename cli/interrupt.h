// SIGINT and SIGTERM while a run goes on: the first asks it to finish its step, save and end; the
// second ends the program at once (exit code 130).
#pragma once

#include <atomic>

namespace addnorm::cli {

const std::atomic<bool>* watch_interrupts();  // set by the first signal

}  // namespace addnorm::cli
