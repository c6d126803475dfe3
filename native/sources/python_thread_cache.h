// What one thread keeps for recording Python calls: small caches in front of the process's tables.
#pragma once

#include <Python.h>

#include <array>
#include <cstdint>

#include "thread_log.h"

namespace opscope {

struct PythonThreadCache {
  struct Code {
    PyCodeObject* code = nullptr;
    uint32_t id = 0;
  };
  struct CFunction {
    const PyMethodDef* method = nullptr;
    PyTypeObject* type = nullptr;
    uint32_t name = 0;
  };
  explicit PythonThreadCache(ThreadLog& log) : log(log) {}

  // [owner] This thread's, made on first use; nullptr while the thread is being torn down.
  static PythonThreadCache* get() {
    if (this_cache_ != nullptr) [[likely]]
      return this_cache_;
    return make();
  }

  ThreadLog& log;
  uint64_t epoch = 0;          // of the frame table, for `codes` and `functions`
  uint64_t installation = 0;   // of the hooks that last reported something here
  PyObject* module = nullptr;  // nn.Module whose __call__ is about to begin; borrowed
  uint32_t hidden = 0;         // how many of opscope's own functions are running: what they call is hidden
  bool busy = false;           // inside one of our own calls into Python: not to be recorded
  std::array<Code, 1024> codes;
  std::array<CFunction, 512> functions;

 private:
  static PythonThreadCache* make();
  static inline thread_local PythonThreadCache* this_cache_ = nullptr;
  friend struct PythonThreadCacheOwner;
};

// The row, or special id, of this code in the frame table.
uint32_t frame_of(PythonThreadCache& cache, PyCodeObject* code);

}  // namespace opscope
