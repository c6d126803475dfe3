// Frames of later Python versions: frame objects, through the public interface.
#pragma once

#include <Python.h>
#include <frameobject.h>

#include <cstdint>

namespace opscope::cpython {

using Frame = PyFrameObject;
inline constexpr bool kReadsWithoutGil = false;

// Converts an owned reference to a borrowed one. Another owner keeps the object alive: a frame's thread
// or callee, or the frame of a function and its variables.
template <typename Object>
Object* borrowed(Object* counted) {
  Py_XDECREF(reinterpret_cast<PyObject*>(counted));
  return counted;
}

inline Frame* current_frame(PyThreadState* state) { return borrowed(PyThreadState_GetFrame(state)); }
inline Frame* previous_of(Frame* frame) { return borrowed(PyFrame_GetBack(frame)); }
inline bool is_incomplete(const Frame*) { return false; }
inline PyCodeObject* code_of(Frame* frame) { return borrowed(PyFrame_GetCode(frame)); }
inline int32_t instruction_of(Frame* frame) { return PyFrame_GetLasti(frame); }
inline bool may_begin(const Frame*) { return false; }

inline PyObject* first_local_of(Frame* frame) {
  PyObject* const names = PyCode_GetVarnames(code_of(frame));
  const bool has_none = names == nullptr || PyTuple_GET_SIZE(names) == 0;
  PyObject* const local = has_none ? nullptr : PyFrame_GetVar(frame, PyTuple_GET_ITEM(names, 0));
  if (local == nullptr) PyErr_Clear();
  Py_XDECREF(names);
  return borrowed(local);
}

inline const void* frame_of_generator(PyObject* generator) {
  PyObject* const frame =
      PyObject_GetAttrString(generator, PyCoro_CheckExact(generator) ? "cr_frame" : "gi_frame");
  if (frame == nullptr) PyErr_Clear();
  return borrowed(frame);  // None: no frame
}

}  // namespace opscope::cpython
