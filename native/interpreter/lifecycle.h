// Begins and ends things reliably in spite of interruptions.
//
// A signal handler and PyThreadState_SetAsyncExc can raise between any two Python instructions, even in
// `except`, `finally` and `with`, but not between two lines of C++. Actions that must happen together, or in
// spite of an exception, run here.
#pragma once

#include <nanobind/nanobind.h>

namespace opscope {

// [GIL] Whether a `with` statement calls this built-in function as a method of an opscope class.
bool is_method_of_ours(PyObject* builtin);

}  // namespace opscope
