// Parameters, gradients and optimizer state of instances, read once when they are first seen.
//
// What a tensor's Python object knows is read by a Python function (recording/parameters.py), since
// the core includes no torch; the rows it returns are packed here as a payload like a call's.
#pragma once

#include <Python.h>

#include <cstdint>

namespace opscope {

// [GIL] The function that reads an instance, or None.
void set_parameter_reader(PyObject* reader);
// [GIL] Appends a record with the parameters of this module or optimizer, if it has any.
void record_parameters(PyObject* instance, uint32_t row, bool is_module);

}  // namespace opscope
