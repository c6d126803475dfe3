// Names of C functions that Python calls.
#pragma once

#include <Python.h>

#include <cstdint>

namespace opscope {

struct PythonThreadCache;

// [GIL] Name of a C function, or of a built-in type's method called on `self`.
uint32_t c_function_name(PythonThreadCache& cache, PyObject* callable, PyObject* self);

}  // namespace opscope
