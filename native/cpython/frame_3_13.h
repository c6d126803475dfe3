// Frames of Python 3.13.
#pragma once

#include <Python.h>
#define Py_BUILD_CORE 1
#include <internal/pycore_frame.h>
#undef Py_BUILD_CORE
#include <opcode.h>

#include <cstdint>

namespace opscope::cpython {

using Frame = _PyInterpreterFrame;
inline constexpr bool kReadsWithoutGil = true;

inline Frame* current_frame(const PyThreadState* state) { return state->current_frame; }
inline Frame* previous_of(const Frame* frame) { return frame->previous; }
inline bool is_incomplete(Frame* frame) { return _PyFrame_IsIncomplete(frame); }
inline PyCodeObject* code_of(Frame* frame) { return _PyFrame_GetCode(frame); }

inline int32_t instruction_of(Frame* frame) {
  return static_cast<int32_t>(_PyInterpreterFrame_LASTI(frame) * static_cast<int>(sizeof(_Py_CODEUNIT)));
}

// Other threads may run between a frame's first instruction and the report of its call.
inline bool may_begin(const Frame* frame) { return frame->instr_ptr->op.code == INSTRUMENTED_RESUME; }

inline PyObject* first_local_of(const Frame* frame) { return frame->localsplus[0]; }
inline const void* frame_of_generator(const PyObject* coroutine) {
  return reinterpret_cast<const PyGenObject*>(coroutine)->gi_iframe;
}

}  // namespace opscope::cpython
