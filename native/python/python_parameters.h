// Reads parameters, gradients and optimizer state of instances once, when they are first seen.
//
// A Python function (recording/parameters.py) reads the Python objects of tensors, since the core includes no
// torch. Its rows are packed here as a payload like a call's.
#pragma once

#include <Python.h>

#include <cstdint>

namespace opscope {

// [GIL] Sets the function that reads an instance, or None.
void set_parameter_reader(PyObject* reader);
// [GIL] Reads a module or optimizer; `rows`: a new reference, or nullptr without rows. False: the program was
// interrupted, or memory or stack is short.
bool read_parameters(PyObject* instance, PyObject** rows);
// [GIL] Appends a record with `rows`, unless they are nullptr or empty. Runs no Python.
void record_parameters(PyObject* rows, uint32_t row, bool is_module);

}  // namespace opscope
