// Letting other threads run Python.
//
// Where Python has ended meanwhile, it ends a daemon thread that wants the GIL (again) by unwinding its
// stack, up through functions that let no exception through, which would abort the process. So such a
// thread stays where it is until the process has ended, which is what Python itself does from 3.14 on.
#pragma once

#include <Python.h>
#include <cxxabi.h>
#include <unistd.h>

namespace opscope {

// What `work` returns, which runs Python or waits for the GIL. It calls Python's own functions alone: what
// others hold on their way would be given back without the GIL.
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

// [GIL] What `work` returns, while other threads run Python.
template <class Work>
auto without_gil(Work work) {
  const WithoutGil without;
  return work();
}

}  // namespace opscope
