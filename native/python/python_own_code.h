// Python code of opscope that runs inside the program.
#pragma once

#include <Python.h>

#include "python/python_thread_cache.h"

namespace opscope {

// [GIL] While one exists, Python code of this thread is opscope's and is not recorded.
//
// An exception from outside (Ctrl+C, a signal handler that raises) was meant for the program. It is stored,
// and raised in the program when the outermost OwnCode is destroyed.
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
    if (cache_->deferred_error != nullptr) raise_deferred();
  }

  // Clears the current error. Stores it for the program unless it is one of `expected` (nullptr: stores any).
  // Returns whether it was stored.
  bool clear_error(PyObject* expected = PyExc_Exception);

  // Repeats the call until nothing interrupts it. Returns a new reference; nullptr: it failed.
  template <typename Function>
  PyObject* call(Function&& function) {
    for (int attempts = 0; attempts < 3; ++attempts) {
      PyObject* const result = function();
      if (result != nullptr || !clear_error()) return result;
    }
    return nullptr;
  }

 private:
  void raise_deferred();

  PythonThreadCache* cache_;
  bool is_outermost_;
};

}  // namespace opscope
