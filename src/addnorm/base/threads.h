// Our own pool of threads. Every worker flushes denormal numbers and keeps
// oneDNN and OpenMP at one thread per call, so that two runs side by side never
// fight over cores.
#pragma once

#include <functional>
#include <memory>
#include <string>

namespace addnorm {

struct CoreCount {
  int cores = 1;
  std::string source;  // "affinity mask", "cgroup quota", "hardware"
};

// min(cgroup quota, affinity mask), at least 1.
CoreCount allowed_cores();

// Sets flush-to-zero and denormals-are-zero on the calling thread (x86: MXCSR;
// Arm: FPCR).
void flush_denormals();

// Makes OpenMP, where a library brought it into the process (oneDNN does), use
// one thread for calls from the calling thread. Cheap after a thread's first
// call.
void keep_libraries_single_threaded();

class ThreadPool {
 public:
  // `threads` ≥ 1; the calling thread is number 0 of them.
  explicit ThreadPool(int threads);
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  int size() const;
  // Runs work(0) .. work(size() - 1) at once and returns when all are done;
  // never allocates. An exception of any worker is rethrown here (the lowest
  // thread number wins). Not reentrant. The caller's denormal mode is restored
  // at the end.
  void run(const std::function<void(int)>& work);
  // Called inside run() by every worker: waits until all have come. When
  // another worker has thrown, this throws too, so that no one waits for ever;
  // run() reports the first cause.
  void barrier();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace addnorm
