// Python code of ours that runs in the middle of the program's.
#pragma once

#include <Python.h>

#include "python/python_thread_cache.h"

namespace opscope {

// [GIL] While one exists, the Python code that this thread runs is ours and not recorded.
//
// An exception that interrupts that code from outside (Ctrl+C, a signal's handler that raises) was meant for
// the program. It is kept, and raised in the program as soon as the outermost OwnCode is destroyed.
class OwnCode {
 public:
  OwnCode() : cache_(PythonThreadCache::get()), is_outermost_(cache_ != nullptr && !cache_->busy) {
    if (cache_ != nullptr) cache_->busy = true;
  }
  OwnCode(const OwnCode&) = delete;
  OwnCode& operator=(const OwnCode&) = delete;
  ~OwnCode() {
    if (!is_outermost_) return;
    cache_->busy = false;
    if (cache_->put_off != nullptr) raise_put_off();
  }

  // Clears the error that is set, which is put off unless it is one of `expected` (nullptr: whatever
  // it is). Was it put off?
  bool clear_error(PyObject* expected = PyExc_Exception);

  // Calls until nothing interrupts it. A new reference; nullptr: it failed.
  template <typename Function>
  PyObject* call(Function&& function) {
    for (int attempts = 0; attempts < 3; ++attempts) {
      PyObject* const result = function();
      if (result != nullptr || !clear_error()) return result;
    }
    return nullptr;
  }

 private:
  void raise_put_off();

  PythonThreadCache* cache_;
  bool is_outermost_;
};

}  // namespace opscope
