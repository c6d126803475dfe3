// How calls reach the recorder on this version of Python. python_hooks_profile.cpp serves versions
// below 3.12, python_hooks_monitoring.cpp the others; each is empty where it does not apply.
#pragma once

#include <exception>

#include "log/recorder.h"
#include "python/python_running_frame.h"

namespace opscope {

// [GIL] Have every thread report calls, but those where another profiler is installed.
void install_call_hooks();
// [GIL] Likewise, for threads where another profiler has taken our place and left since. Were there any?
bool hook_free_threads();
// [GIL] How many threads are not heard because another profiler has, or had, our place.
uint64_t occupied_threads();
void remove_call_hooks();
// [GIL] While installed: threads that begin later report calls too. Will they?
bool hook_new_threads(bool on);
// [GIL] Has every thread that reports no calls come by once at its next event, so that what it frees is
// heard also before it runs an operator; off: no longer waits for those that have not. From Python 3.12 on
// nobody can be asked to come by at a price that threads which sleep for long do not go on paying.
void visit_threads(bool on);
// [GIL] Has this thread reported calls since the hooks were installed? By Python's id of its state.
bool was_hooked(uint64_t python_thread);
// [GIL] Are the calls of this thread reported at this moment?
bool reports_calls(PyThreadState* state);

// Nothing that goes wrong here (memory that is not there) may reach Python's C code, which knows no
// exceptions: recording stops, the program goes on. What ends a thread is let through.
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
