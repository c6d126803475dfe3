// Names of C functions that Python calls.
#pragma once

#include <Python.h>

#include <cstdint>

namespace opscope {

struct PythonThreadCache;

// [GIL] The name of a C function or of a method of a built-in type, called on `self`.
uint32_t c_function_name(PythonThreadCache& cache, PyObject* callable, PyObject* self);

}  // namespace opscope
