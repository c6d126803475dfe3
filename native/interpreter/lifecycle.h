// Things that begin and end whatever interrupts them.
//
// A signal handler, and PyThreadState_SetAsyncExc, can raise between any two instructions of Python's,
// also in `except`, `finally` and `with`. Nothing can be raised between two lines of C++: so what has to
// happen together, or in spite of an exception, is called from here.
#pragma once

#include <nanobind/nanobind.h>

namespace opscope {

// [GIL] Is this built-in function what a `with` statement calls of a class of ours?
bool is_method_of_ours(PyObject* builtin);

}  // namespace opscope
