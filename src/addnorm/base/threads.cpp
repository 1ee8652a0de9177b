#include "addnorm/base/threads.h"

#include <dlfcn.h>
#include <sched.h>

#include <atomic>
#include <cstdint>
#include <exception>
#include <string>
#include <system_error>
#include <thread>
#include <vector>

#include "addnorm/base/cgroup.h"
#include "addnorm/base/error.h"

#if defined(__x86_64__) || defined(__i386__)
#include <immintrin.h>
#endif

namespace addnorm {
namespace {

// The floating-point control register of the calling thread.
#if defined(__x86_64__) || defined(__i386__)
using ControlWord = unsigned;
constexpr ControlWord kFlush = 0x8040;  // flush to zero, denormals are zero
ControlWord control_word() { return _mm_getcsr(); }
void set_control_word(ControlWord word) { _mm_setcsr(word); }
void relax() { _mm_pause(); }
#elif defined(__aarch64__)
using ControlWord = uint64_t;
constexpr ControlWord kFlush = uint64_t{1} << 24;  // FZ
ControlWord control_word() {
  ControlWord word;
  asm volatile("mrs %0, fpcr" : "=r"(word));
  return word;
}
void set_control_word(ControlWord word) { asm volatile("msr fpcr, %0" : : "r"(word)); }
void relax() { asm volatile("yield"); }
#else
using ControlWord = unsigned;
constexpr ControlWord kFlush = 0;
ControlWord control_word() { return 0; }
void set_control_word(ControlWord) {}
void relax() {}
#endif

class DenormalsFlushed {
 public:
  DenormalsFlushed() : before_(control_word()) { set_control_word(before_ | kFlush); }
  ~DenormalsFlushed() { set_control_word(before_); }
  DenormalsFlushed(const DenormalsFlushed&) = delete;
  DenormalsFlushed& operator=(const DenormalsFlushed&) = delete;

 private:
  ControlWord before_;
};

// Waits until `value` is no longer `old`: some ten microseconds awake, then
// asleep in the kernel.
void wait_for_change(const std::atomic<uint32_t>& value, uint32_t old) {
  for (int round = 0; round < 2000; ++round) {
    if (value.load(std::memory_order_acquire) != old) return;
    relax();
  }
  while (value.load(std::memory_order_acquire) == old) value.wait(old, std::memory_order_acquire);
}

// Thrown out of barrier() in workers whose partner failed; never leaves run().
struct Abandoned {};

}  // namespace

CoreCount allowed_cores() {
  CoreCount count;
  const unsigned hardware = std::thread::hardware_concurrency();
  count = {hardware > 0 ? static_cast<int>(hardware) : 1, "hardware"};
  for (int capacity = 1024; capacity <= 1 << 20; capacity *= 4) {
    cpu_set_t* set = CPU_ALLOC(capacity);
    if (set == nullptr) break;
    const size_t bytes = CPU_ALLOC_SIZE(capacity);
    const bool known = sched_getaffinity(0, bytes, set) == 0;
    const int cores = known ? CPU_COUNT_S(bytes, set) : 0;
    CPU_FREE(set);
    if (!known) continue;  // more processors than the set holds
    if (cores > 0) count = {cores, "affinity mask"};
    break;
  }
  const int quota = cgroup_quota("/proc/self/cgroup", "/sys/fs/cgroup");
  if (quota > 0 && quota < count.cores) count = {quota, "cgroup quota"};
  return count;
}

void flush_denormals() { set_control_word(control_word() | kFlush); }

void keep_libraries_single_threaded() {
  thread_local bool done = false;
  if (done) return;
  done = true;
  // Looked up by name: this layer must neither need OpenMP nor bring it in.
  using SetThreads = void (*)(int);
  static const SetThreads set_threads =
      reinterpret_cast<SetThreads>(dlsym(RTLD_DEFAULT, "omp_set_num_threads"));
  if (set_threads != nullptr) set_threads(1);
}

struct ThreadPool::State {
  int size = 1;
  const std::function<void(int)>* work = nullptr;
  std::vector<std::exception_ptr> errors;  // by thread number
  std::atomic<uint32_t> round{0};          // counts calls of run(); workers start when it changes
  std::atomic<uint32_t> finished{0};  // counts calls of run() that all other workers have ended
  std::atomic<int> running{0};
  std::atomic<bool> stop{false};
  std::atomic<bool> failed{false};  // in this round
  std::atomic<int> arrived{0};      // at the barrier
  std::atomic<uint32_t> barrier_round{0};
  bool inside_run = false;           // touched by the thread that calls run() alone
  std::vector<std::thread> threads;  // numbers 1 .. size - 1

  void open_barrier() {
    arrived.store(0, std::memory_order_relaxed);
    barrier_round.fetch_add(1, std::memory_order_acq_rel);
    barrier_round.notify_all();
  }

  void work_as(int number) {
    try {
      (*work)(number);
    } catch (const Abandoned&) {
    } catch (...) {
      errors[static_cast<size_t>(number)] = std::current_exception();
      failed.store(true, std::memory_order_release);
      barrier_round.fetch_add(1, std::memory_order_acq_rel);
      barrier_round.notify_all();
    }
  }

  void serve(int number) {
    flush_denormals();
    keep_libraries_single_threaded();
    uint32_t seen = 0;
    while (true) {
      wait_for_change(round, seen);
      ++seen;
      if (stop.load(std::memory_order_acquire)) return;
      work_as(number);
      if (running.fetch_sub(1, std::memory_order_acq_rel) == 1) {
        finished.fetch_add(1, std::memory_order_release);
        finished.notify_one();
      }
    }
  }
};

ThreadPool::ThreadPool(int threads) : state_(std::make_unique<State>()) {
  ADDNORM_ASSERT(threads >= 1);
  state_->size = threads;
  state_->errors.resize(static_cast<size_t>(threads));
  state_->threads.reserve(static_cast<size_t>(threads - 1));
  State* state = state_.get();
  try {
    for (int number = 1; number < threads; ++number) {
      state->threads.emplace_back([state, number] { state->serve(number); });
    }
  } catch (const std::system_error&) {
    const size_t started = state->threads.size();
    state->stop.store(true, std::memory_order_release);
    state->round.fetch_add(1, std::memory_order_release);
    state->round.notify_all();
    for (auto& thread : state->threads) thread.join();
    fail_system("threads", "expected " + std::to_string(threads) + " threads, got " +
                               std::to_string(started + 1) + "; try fewer threads");
  }
}

ThreadPool::~ThreadPool() {
  state_->stop.store(true, std::memory_order_release);
  state_->round.fetch_add(1, std::memory_order_release);
  state_->round.notify_all();
  for (auto& thread : state_->threads) thread.join();
}

int ThreadPool::size() const { return state_->size; }

void ThreadPool::run(const std::function<void(int)>& work) {
  State& state = *state_;
  ADDNORM_ASSERT(!state.inside_run);
  state.inside_run = true;
  const DenormalsFlushed flushed;
  keep_libraries_single_threaded();
  state.work = &work;
  state.failed.store(false, std::memory_order_relaxed);
  state.arrived.store(0, std::memory_order_relaxed);
  const uint32_t ended = state.finished.load(std::memory_order_acquire);
  if (state.size > 1) {
    state.running.store(state.size - 1, std::memory_order_relaxed);
    state.round.fetch_add(1, std::memory_order_release);
    state.round.notify_all();
  }
  state.work_as(0);
  if (state.size > 1) wait_for_change(state.finished, ended);
  state.work = nullptr;
  state.inside_run = false;
  if (!state.failed.load(std::memory_order_acquire)) return;
  std::exception_ptr first;
  for (auto& error : state.errors) {
    if (!first) first = error;
    error = nullptr;
  }
  std::rethrow_exception(first);
}

void ThreadPool::barrier() {
  State& state = *state_;
  if (state.size == 1) return;
  const uint32_t round = state.barrier_round.load(std::memory_order_acquire);
  if (state.failed.load(std::memory_order_acquire)) throw Abandoned();
  if (state.arrived.fetch_add(1, std::memory_order_acq_rel) == state.size - 1) {
    state.open_barrier();
  } else {
    wait_for_change(state.barrier_round, round);
  }
  if (state.failed.load(std::memory_order_acquire)) throw Abandoned();
}

}  // namespace addnorm
