// Frames of Python 3.11.
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

inline Frame* current_frame(const PyThreadState* state) { return state->cframe->current_frame; }
inline Frame* previous_of(const Frame* frame) { return frame->previous; }
inline bool is_incomplete(Frame* frame) { return _PyFrame_IsIncomplete(frame); }
inline PyCodeObject* code_of(const Frame* frame) { return frame->f_code; }

inline int32_t instruction_of(const Frame* frame) {
  return static_cast<int32_t>(_PyInterpreterFrame_LASTI(frame) * static_cast<int>(sizeof(_Py_CODEUNIT)));
}

// Other threads may run between a frame's first instruction and the report of its call.
inline bool may_begin(const Frame* frame) {
  const int opcode = _Py_OPCODE(*frame->prev_instr);
  return opcode == RESUME || opcode == RESUME_QUICK;
}

inline PyObject* first_local_of(const Frame* frame) { return frame->localsplus[0]; }
inline Frame* frame_of(PyFrameObject* object) { return object->f_frame; }
inline const void* frame_of_generator(const PyObject* coroutine) {
  return reinterpret_cast<const PyGenObject*>(coroutine)->gi_iframe;
}

}  // namespace opscope::cpython
