// How calls reach the recorder on this version of Python. Below 3.12 all calls come through a profile
// function (python_hooks_profile.cpp) and those of Python functions alone through the evaluation of frames
// (python_hooks_evaluation.cpp); from 3.12 on through python_hooks_monitoring.cpp. Each is empty where it
// does not apply.
#pragma once

#include <exception>

#include "log/recorder.h"
#include "python/python_running_frame.h"
#include "python/python_thread_cache.h"

namespace opscope {

// What is reported: nothing, calls of the program's own Python functions, of all Python functions, or of C
// functions too.
enum class CallLevel { kNone, kOwn, kFunctions, kAll };

// [GIL] Makes every thread report its calls, except threads where another profiler is installed. Nothing may
// be installed.
void install_call_hooks(CallLevel level);
// [GIL] Likewise, for threads where another profiler took our place and has left since. True if there were
// any.
bool hook_free_threads();
// [GIL] Number of threads without our hook, because another profiler has, or had, our place.
uint64_t occupied_threads();
void remove_call_hooks();
// [GIL] While installed: whether threads that begin later report calls too. Returns what holds then.
bool hook_new_threads(bool on);
// [GIL] Has this thread reported all of its calls since then, or since the hooks were installed? By Python's
// id of its state.
bool was_hooked(uint64_t python_thread, uint64_t since_ticks);
// [GIL] Are the calls of this thread reported at this moment?
bool reports_calls(PyThreadState* state);
// [GIL] Will the ends be reported of what this thread is running? Also where it is in the middle of reporting
// a call, and lets others run meanwhile.
bool will_report_ends(PyThreadState* state);
// [GIL] Does this thread report its calls, but at this moment runs another tool's, which it does not report?
bool is_inside_a_tool(PyThreadState* state);

// Hooks are called from Python's C code, through which no C++ exception may pass. One (std::bad_alloc) stops
// the recording, and the program goes on. Only the unwinding by which the C library ends a thread is let
// through.
template <typename Function>
void without_exceptions(Function&& function) {
  try {
    function();
  } catch (const std::exception& error) {
    Recorder::instance().set_fault(error.what());
  }
}

// What the hooks call. `caller`: what runs around the frame, which need not know it yet.
// Is this code not to be recorded, for as long as the level stays the same?
bool is_skipped(PyCodeObject* code);
void python_enter(PyCodeObject* code, RunningFrame frame, RunningFrame caller);
// Likewise, unless the begin of this frame was already reported.
void python_enter_if_new(PyCodeObject* code, RunningFrame frame, RunningFrame caller);
void python_leave(PyCodeObject* code, RunningFrame frame);
// `self`: what a method descriptor is called on, nullptr for functions that are bound already.
void python_enter_c(PyObject* callable, PyObject* self, RunningFrame caller);
void python_leave_c(PyObject* callable, RunningFrame caller);

// Where calls reach us by the evaluation of frames: nothing is reported there of what a thread was running
// before, so that its end is noticed when the thread next calls a function or an operator.
// False: it is not to be recorded, and it is evaluation_passed() that is to be told of its end.
bool evaluation_begins(PythonThreadCache& cache, RunningFrame frame, PyCodeObject* code, uint64_t key,
                       RunningFrame caller);
// The frame is gone.
void evaluation_ends(PythonThreadCache& cache, uint64_t key, PyThreadState* state);
void evaluation_passed(PythonThreadCache& cache, PyThreadState* state);
void install_evaluation_hook();
void remove_evaluation_hook();
// [GIL] Whether functions are recorded by the evaluation hook. Then functions that ran before have no end
// events.
bool hears_evaluations();
// How often functions went unheard because a thread's stack was nearly used up, so far.
uint64_t evaluations_unheard();

}  // namespace opscope
