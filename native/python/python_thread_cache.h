// What one thread keeps for recording Python calls: small caches in front of the process's tables.
#pragma once

#include <Python.h>

#include <array>
#include <cstdint>
#include <vector>

#include "log/thread_log.h"
#include "python/python_running_frame.h"

namespace opscope {

constexpr uint64_t kAnySpell = UINT64_MAX;

struct PythonThreadCache {
  struct Code {
    PyCodeObject* code = nullptr;
    uint32_t id = 0;
  };
  struct CFunction {
    const PyMethodDef* method = nullptr;
    PyTypeObject* type = nullptr;
    unsigned version = 0;  // of the type: differs between types, also between two at one address
    uint32_t name = 0;
  };
  // A module call that C code makes, and the frame it makes it in. No frame but the module's is called
  // from there meanwhile.
  struct ModuleCall {
    const PyObject* module = nullptr;
    const void* caller = nullptr;
    bool operator==(const ModuleCall&) const = default;
  };
  explicit PythonThreadCache(ThreadLog& log) : log(log) {}

  // [owner] This thread's, made on first use; nullptr while the thread is being torn down.
  static PythonThreadCache* get() {
    if (this_cache_ != nullptr) [[likely]]
      return this_cache_;
    return make();
  }

  // [owner] This thread's if it has been made.
  static PythonThreadCache* existing() { return this_cache_; }

  ThreadLog& log;
  uint64_t epoch = 0;         // of the frame table, for `codes`, `called_codes` and `functions`
  uint64_t installation = 0;  // of the hooks that last reported something here
  uint64_t generation = 0;    // likewise; see PythonCalls
  ModuleCall module_call;     // the innermost that is recorded already, whether or not its frame is reported
  const PyObject* stepped = nullptr;  // the optimizer whose step was recorded by its frame last
  // And when that was, see PythonCalls; kAnySpell: a hook was sure to come.
  uint64_t stepped_spell = 0;
  // Where frames are reported as they are evaluated: what was running before that, outermost first, and how
  // many functions in it are being evaluated.
  std::vector<uint64_t> ran_before;
  uint32_t evaluating = 0;
  // How often it is still asked what `threading` calls this thread: it knows so soon after a thread began.
  uint32_t asks_for_name = 32;
  // What that hook knows of this thread; see python_hooks_evaluation.cpp.
  uintptr_t end_of_stack = 0;
  const void* passed_on = nullptr;
  bool has_frames_that_may_begin = false;
  std::vector<uint64_t> may_begin;  // their keys; see InitialFrame
  uint64_t hidden = 0;  // key of the outermost running function of opscope's: it and what it calls are hidden
  PyObject* put_off = nullptr;  // an exception for the program that came while we were busy; owned
  bool busy = false;            // inside one of our own calls into Python: not to be recorded
  std::array<Code, 1024> codes;
  std::array<Code, 256> called_codes;  // of libraries, called by functions of the program
  std::array<CFunction, 512> functions;

 private:
  static PythonThreadCache* make();
  static inline thread_local PythonThreadCache* this_cache_ = nullptr;
  static inline thread_local bool torn_down_ = false;
  friend struct PythonThreadCacheOwner;
};

// The row, or special id, of this code in the frame table.
uint32_t frame_of(PythonThreadCache& cache, PyCodeObject* code);
// The same for a call of it: a row for what a function of the program calls itself, although it is skipped.
uint32_t frame_of_call(PythonThreadCache& cache, PyCodeObject* code, RunningFrame caller);
// The key of the outermost of opscope's own functions on the stack from `frame` outwards; 0 if there is none.
// Where opscope runs the program (`opscope run`), only functions inside the program count. The function that
// opens a window is one: it still calls others before it returns, and those are not the program's.
uint64_t hidden_since(PythonThreadCache& cache, RunningFrame frame);

}  // namespace opscope
