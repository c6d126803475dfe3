// Reports calls to the recorder, by version of Python. Below 3.12 a profile function reports all calls
// (python_hooks_profile.cpp), and frame evaluation reports calls of Python functions
// (python_hooks_evaluation.cpp). From 3.12 on, python_hooks_monitoring.cpp reports all. Files are empty on
// other versions.
#pragma once

#include <exception>

#include "log/recorder.h"
#include "python/python_running_frame.h"
#include "python/python_thread_cache.h"

namespace opscope {

// Reported calls: none, the program's own Python functions, all Python functions, or C functions too.
enum class CallLevel { kNone, kOwn, kFunctions, kAll };

// [GIL] Makes every thread report its calls, except threads with another profiler. No hook may be installed.
void install_call_hooks(CallLevel level);
// [GIL] The same for threads whose other profiler is gone. True if any of them had our hook before.
bool hook_free_threads();
// [GIL] Number of threads without our hook, because another profiler has or had its hook there.
uint64_t occupied_threads();
void remove_call_hooks();
// [GIL] While installed: sets whether new threads report calls too. Returns the resulting state.
bool hook_new_threads(bool on);
// [GIL] Whether the thread with this id has reported all calls since that time, or since the installation.
// `python_thread`: Python's unique id of the thread state.
bool was_hooked(uint64_t python_thread, uint64_t since_ticks);
// [GIL] Whether this thread reports its calls now.
bool reports_calls(PyThreadState* state);
// [GIL] Whether this thread will report the ends of its running calls, even if it is reporting a call now and
// other threads run during it.
bool will_report_ends(PyThreadState* state);
// [GIL] Whether this thread reports its calls but now runs another tool's function, which it does not report.
bool is_inside_a_tool(PyThreadState* state);

// No C++ exception may pass through Python's C code, which calls the hooks. An exception (std::bad_alloc)
// stops the recording; the program continues. Only the unwinding with which the C library ends a thread
// passes.
template <typename Function>
void without_exceptions(Function&& function) {
  try {
    function();
  } catch (const std::exception& error) {
    Recorder::instance().set_fault(error.what());
  }
}

// Functions that the hooks call. `caller`: frame around `frame`, which need not have a link to it yet.
//
// Whether to skip this code; constant while the level is.
bool is_skipped(PyCodeObject* code);
void python_enter(PyCodeObject* code, RunningFrame frame, RunningFrame caller);
// The same, unless the start of this frame was already reported.
void python_enter_if_new(PyCodeObject* code, RunningFrame frame, RunningFrame caller);
void python_leave(PyCodeObject* code, RunningFrame frame);
// `self`: the object of a method descriptor; nullptr for functions that are bound already.
void python_enter_c(PyObject* callable, PyObject* self, RunningFrame caller);
void python_leave_c(PyObject* callable, RunningFrame caller);

// Events of the evaluation hook. It reports no ends of functions that ran before; opscope notices them at the
// thread's next call of a function or operator.
//
// False: the call is not recorded; call evaluation_passed() at its end.
bool evaluation_begins(PythonThreadCache& cache, RunningFrame frame, PyCodeObject* code, uint64_t key,
                       RunningFrame caller);
// `key` only: the frame is destroyed.
void evaluation_ends(PythonThreadCache& cache, uint64_t key, PyThreadState* state);
void evaluation_passed(PythonThreadCache& cache, PyThreadState* state);
void install_evaluation_hook();
void remove_evaluation_hook();
// [GIL] Whether the evaluation hook records functions. Then functions that ran before have no end events.
bool uses_evaluation_hook();
// Number of times so far that functions were not recorded because a thread's stack was nearly full.
uint64_t evaluations_unrecorded();

}  // namespace opscope
