// How calls reach the recorder on this version of Python. python_hooks_profile.cpp serves versions
// below 3.12, python_hooks_monitoring.cpp the others; each is empty where it does not apply.
#pragma once

#include <exception>

#include "log/recorder.h"
#include "python/python_running_frame.h"

namespace opscope {

// [GIL] Makes every thread report its calls, except threads where another profiler is installed.
void install_call_hooks();
// [GIL] Likewise, for threads where another profiler took our place and has left since. True if there were
// any.
bool hook_free_threads();
// [GIL] How many threads are not heard because another profiler has, or had, our place.
uint64_t occupied_threads();
void remove_call_hooks();
// [GIL] While installed: whether threads that begin later report calls too. Returns what holds then.
bool hook_new_threads(bool on);
// [GIL] Makes every thread that reports no calls run our code once, at its next event, so that its frees are
// heard also before its first operator. Off: takes that back from threads that have not done so yet. Does
// nothing from Python 3.12 on: there events are on for all threads, and would cost all of them something for
// as long as one of them sleeps.
void visit_threads(bool on);
// [GIL] Has this thread reported calls since the hooks were installed? By Python's id of its state.
bool was_hooked(uint64_t python_thread);
// [GIL] Are the calls of this thread reported at this moment?
bool reports_calls(PyThreadState* state);
// [GIL] Will the ends be reported of what this thread is running? Also where it is in the middle of reporting
// a call, and lets others run meanwhile.
bool will_report_ends(PyThreadState* state);

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

// What the hooks call.
void python_enter(PyCodeObject* code, RunningFrame frame);
void python_leave(PyCodeObject* code, RunningFrame frame);
// `self`: what a method descriptor is called on, nullptr for functions that are bound already.
void python_enter_c(PyObject* callable, PyObject* self, RunningFrame caller);
void python_leave_c(PyObject* callable, RunningFrame caller);

}  // namespace opscope
