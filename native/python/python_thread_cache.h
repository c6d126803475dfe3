// Per-thread caches for recording Python calls, in front of the process's tables.
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
  // Module call by C code, and the frame that makes it. Until it ends, that frame calls nothing else.
  struct ModuleCall {
    const PyObject* module = nullptr;
    const void* caller = nullptr;
    bool operator==(const ModuleCall&) const = default;
  };
  explicit PythonThreadCache(ThreadLog& log) : log(log) {}

  // [owner] This thread's cache, created on first use; nullptr while the thread is being torn down.
  static PythonThreadCache* get() {
    if (this_cache_ != nullptr) [[likely]]
      return this_cache_;
    return make();
  }

  // [owner] This thread's cache if it exists.
  static PythonThreadCache* existing() { return this_cache_; }

  ThreadLog& log;
  uint64_t epoch = 0;         // of the frame table, for `codes`, `called_codes` and `functions`
  uint64_t installation = 0;  // of the hooks that last reported a call here
  uint64_t generation = 0;    // same as in PythonCalls
  ModuleCall module_call;     // innermost one that is already recorded, whether or not its frame is reported
  const PyObject* stepped = nullptr;  // optimizer whose step was last recorded by its frame
  // PythonCalls::spell() at that step; kAnySpell: a hook was certain to follow.
  uint64_t stepped_spell = 0;
  // For the evaluation hook: calls that ran before, outermost first, and how many are evaluated inside.
  std::vector<uint64_t> earlier_calls;
  uint32_t evaluating = 0;
  // Remaining reads of the name from `threading`, which knows the thread soon after its start.
  uint32_t name_reads_left = 32;
  // State of the evaluation hook; see python_hooks_evaluation.cpp.
  uintptr_t end_of_stack = 0;
  const void* passed_on = nullptr;
  bool has_frames_that_may_begin = false;
  std::vector<uint64_t> may_begin;  // keys; see InitialFrame
  uint64_t hidden = 0;  // key of opscope's outermost running function; it and its callees are hidden
  PyObject* deferred_error = nullptr;  // exception for the program that interrupted opscope's code; owned
  bool busy = false;                   // inside opscope's own Python code, which is not recorded
  std::array<Code, 1024> codes;
  std::array<Code, 256> called_codes;  // of libraries, called by functions of the program
  std::array<CFunction, 512> functions;

 private:
  static PythonThreadCache* make();
  static inline thread_local PythonThreadCache* this_cache_ = nullptr;
  static inline thread_local bool torn_down_ = false;
  friend struct PythonThreadCacheOwner;
};

// Row, or special id, of this code in the frame table.
uint32_t frame_of(PythonThreadCache& cache, PyCodeObject* code);
// The same for a call: skipped code has a row if a function of the program calls it.
uint32_t frame_of_call(PythonThreadCache& cache, PyCodeObject* code, RunningFrame caller);
// Key of the outermost opscope function on the stack from `frame` outwards, or 0. Under `opscope run`, only
// functions inside the program count. The function that opens a window is one: it calls other opscope
// functions before it returns.
uint64_t hidden_since(PythonThreadCache& cache, RunningFrame frame);

}  // namespace opscope
