// How calls reach the recorder on this version of Python. python_hooks_profile.cpp serves versions
// below 3.12, python_hooks_monitoring.cpp the others; each is empty where it does not apply.
#pragma once

#include "sources/python_running_frame.h"

namespace opscope {

// [GIL] Have every thread report calls. Returns how many threads were left alone because another
// profiler is installed there.
uint64_t install_call_hooks();
void remove_call_hooks();
// [GIL] While installed: threads that begin later report calls too.
void hook_new_threads(bool on);
// [GIL] Are the calls of this thread reported at this moment?
bool reports_calls(PyThreadState* state);

// What the hooks call.
void python_enter(PyCodeObject* code, RunningFrame frame);
void python_leave(PyCodeObject* code, RunningFrame frame);
// `self`: what a method descriptor is called on, nullptr for functions that are bound already.
void python_enter_c(PyObject* callable, PyObject* self, RunningFrame caller);
void python_leave_c(PyObject* callable, RunningFrame caller);

}  // namespace opscope
