// How calls reach the recorder on this version of Python. python_hooks_profile.cpp serves versions
// below 3.12, python_hooks_monitoring.cpp the others; each is empty where it does not apply.
#pragma once

#include <Python.h>

#include <cstdint>

namespace opscope {

// [GIL] Have every thread report calls, those that begin later included. Returns how many threads
// were left alone because another profiler is installed there.
uint64_t install_call_hooks();
void remove_call_hooks();

// What the end of this running frame will be reported with.
uint64_t frame_key(PyFrameObject* frame, PyCodeObject* code);
// Offset of the instruction it is at, as PyCode_Addr2Line takes it; -1 for nullptr.
int32_t instruction_of(PyFrameObject* frame);

// What the hooks call. `frame` may be nullptr where the hook does not have it.
void python_enter(PyCodeObject* code, PyFrameObject* frame, uint64_t key, int32_t caller_offset);
void python_leave(PyCodeObject* code, uint64_t key);
void python_enter_c(PyObject* callable, int32_t offset);
void python_leave_c(PyObject* callable);

}  // namespace opscope
