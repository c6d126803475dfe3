// Frames of Python 3.10: frame objects with public fields.
#pragma once

#include <Python.h>
#include <frameobject.h>

#include <cstdint>

namespace opscope::cpython {

using Frame = PyFrameObject;
inline constexpr bool kReadsWithoutGil = true;

inline Frame* current_frame(const PyThreadState* state) { return state->frame; }
inline Frame* previous_of(const Frame* frame) { return frame->f_back; }
inline bool is_incomplete(const Frame*) { return false; }
inline PyCodeObject* code_of(const Frame* frame) { return frame->f_code; }
// Unit: instructions until 3.10, bytes later.
inline int32_t instruction_of(const Frame* frame) { return frame->f_lasti * 2; }
inline bool may_begin(const Frame* frame) { return frame->f_lasti < 0; }

inline PyObject* first_local_of(const Frame* frame) {
  const PyCodeObject* const function = code_of(frame);
  const Py_ssize_t* const shared = function->co_cell2arg;  // by cell, for variables of inner functions
  for (Py_ssize_t i = 0; shared != nullptr && i < PyTuple_GET_SIZE(function->co_cellvars); ++i) {
    if (shared[i] == 0) return frame->f_localsplus[function->co_nlocals + i];
  }
  return frame->f_localsplus[0];
}

inline Frame* frame_of(PyFrameObject* object) { return object; }
inline const void* frame_of_generator(const PyObject* coroutine) {
  return reinterpret_cast<const PyGenObject*>(coroutine)->gi_frame;
}

}  // namespace opscope::cpython
