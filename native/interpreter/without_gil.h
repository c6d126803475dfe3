// Releases the GIL, so that other threads run Python.
//
// After finalization, Python ends a daemon thread that requests the GIL by unwinding its stack. Functions
// that let no exception pass would then abort the process. So such a thread sleeps until the process has
// ended, as Python itself does from 3.14 on.
#pragma once

#include <Python.h>
#include <cxxabi.h>
#include <unistd.h>

namespace opscope {

// Returns the result of `work`, which runs Python or waits for the GIL. `work` may call Python's functions
// only: unwinding other functions would release their objects without the GIL.
template <class Work>
auto staying_if_ended(Work&& work) {
  try {
    return work();
  } catch (const abi::__forced_unwind&) {
    for (;;) pause();
  }
}

// [GIL] While one exists, this thread is without the GIL.
class WithoutGil {
 public:
  WithoutGil() : state_(PyEval_SaveThread()) {}
  WithoutGil(const WithoutGil&) = delete;
  WithoutGil& operator=(const WithoutGil&) = delete;
  ~WithoutGil() {
    staying_if_ended([this] { PyEval_RestoreThread(state_); });
  }

 private:
  PyThreadState* state_;
};

// While one exists, this thread has the GIL.
class WithGil {
 public:
  WithGil() : state_(staying_if_ended([] { return PyGILState_Ensure(); })) {}
  WithGil(const WithGil&) = delete;
  WithGil& operator=(const WithGil&) = delete;
  ~WithGil() { PyGILState_Release(state_); }

 private:
  PyGILState_STATE state_;
};

// [GIL] Returns the result of `work`; other threads can run Python during it.
template <class Work>
auto without_gil(Work work) {
  const WithoutGil without;
  return work();
}

}  // namespace opscope
