// Text of Python's as UTF-8.
#pragma once

#include <Python.h>

#include <string>

namespace opscope {

// [GIL] Of a str; "?" where it is none, or no valid text. Python would keep its own UTF-8 of it, for which
// there has to be memory.
std::string text_of(PyObject* text);

}  // namespace opscope
