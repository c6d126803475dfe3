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
// [GIL] What the reader says of this module or optimizer: a new reference, nullptr if there is nothing.
// Was it read? Not where the program was interrupted meanwhile, or is at the end of its stack.
bool read_parameters(PyObject* instance, PyObject** rows);
// [GIL] Appends a record with `rows`, unless there are none. Runs no Python.
void record_parameters(PyObject* rows, uint32_t row, bool is_module);

}  // namespace opscope
