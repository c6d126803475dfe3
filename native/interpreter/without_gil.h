// Letting other threads run Python.
#pragma once

#include <Python.h>
#include <unistd.h>

namespace opscope {

// [GIL] While one exists, this thread is without the GIL.
//
// Where Python has ended meanwhile, it ends a daemon thread that wants the GIL again by unwinding its
// stack, up through functions that let no exception through, which would abort the process. So such a
// thread stays here until the process has ended, which is what Python itself does from 3.14 on.
class WithoutGil {
 public:
  WithoutGil() : state_(PyEval_SaveThread()) {}
  WithoutGil(const WithoutGil&) = delete;
  WithoutGil& operator=(const WithoutGil&) = delete;
  ~WithoutGil() {
    try {
      PyEval_RestoreThread(state_);
    } catch (...) {
      for (;;) pause();
    }
  }

 private:
  PyThreadState* state_;
};

// [GIL] What `work` returns, while other threads run Python.
template <class Work>
auto without_gil(Work work) {
  const WithoutGil without;
  return work();
}

}  // namespace opscope
