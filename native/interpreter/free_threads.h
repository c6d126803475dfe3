// Support for Python builds without the GIL, in which threads run Python concurrently: does what the GIL does
// in other builds, where all of this is empty.
//
// In a free-threaded build, [GIL] marks functions that need an attached thread state; they acquire the locks
// below if they need exclusive access.
#pragma once

#include <Python.h>

#include <atomic>
#include <exception>
#include <mutex>
#include <utility>

// Importing opscope enables the GIL in later versions (recording/recorder.py).
#if defined(Py_GIL_DISABLED) && PY_VERSION_HEX < 0x03100000
#define OPSCOPE_FREE_THREADS 1
#endif

namespace opscope {

// A variable with concurrent readers and one writer at a time. It costs no more than a plain one.
template <typename Value>
class Shared {
 public:
  constexpr Shared(Value value) : value_(value) {}  // NOLINT: converts to its value
  operator Value() const { return value_.load(std::memory_order_relaxed); }
  Shared& operator=(Value value) {
    value_.store(value, std::memory_order_relaxed);
    return *this;
  }
  Shared& operator++() { return *this = *this + 1; }

 private:
  std::atomic<Value> value_;
};

// Held during a lookup in a table shared by all threads. The holder neither runs Python nor releases its
// thread state, so a stopped thread never holds the lock, and waiting for it is safe.
class TablesLock {
 public:
#ifdef OPSCOPE_FREE_THREADS
  TablesLock() { mutex().lock(); }
  ~TablesLock() { mutex().unlock(); }
  // Forks wait until no other thread holds the lock.
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

// [GIL] Whether threads may run Python concurrently. False if PYTHON_GIL=1 keeps the GIL on.
bool threads_are_free();
// [GIL] Calls `work` while no other thread runs Python; threads without an attached state continue.
void call_with_stopped_threads(void (*work)(void*), void* argument);
// Whether this thread has stopped them.
bool has_stopped_threads();

// [GIL] Runs `work` while all threads that run Python are stopped. `work` runs no Python; it creates and
// frees Python objects only as its last action.
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
        try {  // no exception may pass through Python's code
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
