// Builds of Python without the GIL, where threads run Python at the same time. What the GIL sees to elsewhere
// is seen to here; where there is a GIL, all of this is empty.
//
// Marked [GIL] is there what needs a thread state that is attached, and takes what follows itself where it
// needs to be alone.
#pragma once

#include <Python.h>

#include <atomic>
#include <exception>
#include <mutex>
#include <utility>

// Later ones than are known have the GIL on once this is imported (recording/recorder.py).
#if defined(Py_GIL_DISABLED) && PY_VERSION_HEX < 0x03100000
#define OPSCOPE_FREE_THREADS 1
#endif

namespace opscope {

// A variable that any thread reads at any time and one at a time writes. It costs what a plain one does.
template <typename Value>
class Shared {
 public:
  constexpr Shared(Value value) : value_(value) {}  // NOLINT: stands for its value
  operator Value() const { return value_.load(std::memory_order_relaxed); }
  Shared& operator=(Value value) {
    value_.store(value, std::memory_order_relaxed);
    return *this;
  }
  Shared& operator++() { return *this = *this + 1; }

 private:
  std::atomic<Value> value_;
};

// Held during a lookup in a table that calls of all threads share. The holder neither runs Python nor
// releases its thread state, so a stopped thread never holds it, and waiting for it is safe.
class TablesLock {
 public:
#ifdef OPSCOPE_FREE_THREADS
  TablesLock() { mutex().lock(); }
  ~TablesLock() { mutex().unlock(); }
  // A process is not forked while another thread holds it.
  static void hold_across_forks();

 private:
  static std::mutex& mutex();
#else
  TablesLock() {}
  ~TablesLock() {}
  static void hold_across_forks() {}
#endif
 public:
  TablesLock(const TablesLock&) = delete;
  TablesLock& operator=(const TablesLock&) = delete;
};

#ifdef OPSCOPE_FREE_THREADS

// [GIL] Do threads run Python at the same time, or may they? Not where PYTHON_GIL=1 has the GIL kept on.
bool threads_are_free();
// [GIL] Calls `work` while no other thread runs Python; those that have no thread state attached go on.
void call_with_stopped_threads(void (*work)(void*), void* argument);
// Are they stopped by this thread?
bool has_stopped_threads();

// [GIL] What `work` does happens at one moment for all threads that run Python. It runs no Python itself, and
// makes and frees objects of Python's only as the last thing that it does.
template <typename Work>
void at_one_moment(Work&& work) {
  if (has_stopped_threads() || !threads_are_free()) return work();
  struct Call {
    Work& work;
    std::exception_ptr error;
  } call{work, nullptr};
  call_with_stopped_threads(
      [](void* argument) {
        auto* const inner = static_cast<Call*>(argument);
        try {  // none passes through Python's code
          inner->work();
        } catch (...) {
          inner->error = std::current_exception();
        }
      },
      &call);
  if (call.error != nullptr) std::rethrow_exception(call.error);
}

#else

constexpr bool threads_are_free() { return false; }

template <typename Work>
void at_one_moment(Work&& work) {
  work();
}

#endif

}  // namespace opscope
