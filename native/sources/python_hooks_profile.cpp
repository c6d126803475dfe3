#include <Python.h>

#if PY_VERSION_HEX < 0x030C0000

#include <frameobject.h>

#include "sources/python_hooks.h"

namespace opscope {

namespace {

int on_event(PyObject*, PyFrameObject* frame, int what, PyObject* arg) {
  switch (what) {
    case PyTrace_CALL: {
      PyCodeObject* code = PyFrame_GetCode(frame);
      PyFrameObject* back = PyFrame_GetBack(frame);
      python_enter(code, frame, frame_key(frame, code), instruction_of(back));
      Py_XDECREF(reinterpret_cast<PyObject*>(back));
      Py_DECREF(reinterpret_cast<PyObject*>(code));
      break;
    }
    case PyTrace_RETURN: {
      PyCodeObject* code = PyFrame_GetCode(frame);
      python_leave(code, frame_key(frame, code));
      Py_DECREF(reinterpret_cast<PyObject*>(code));
      break;
    }
    case PyTrace_C_CALL:
      python_enter_c(arg, instruction_of(frame));
      break;
    case PyTrace_C_RETURN:
    case PyTrace_C_EXCEPTION:
      python_leave_c(arg);
      break;
    default:
      break;
  }
  return 0;
}

// threading.setprofile's function: runs once in a new thread and puts the native hook in its place.
PyObject* begin_thread(PyObject*, PyObject*) {
  PyEval_SetProfile(&on_event, nullptr);
  Py_RETURN_NONE;
}
PyMethodDef begin_thread_def = {"opscope_begin_thread", &begin_thread, METH_VARARGS, nullptr};

// Whatever the program had given to threading.setprofile before us; owned.
PyObject* previous_thread_hook = nullptr;
bool installed = false;

void set_thread_hook(PyObject* hook) {
  PyObject* threading = PyImport_ImportModule("threading");
  PyObject* done = threading == nullptr ? nullptr : PyObject_CallMethod(threading, "setprofile", "O", hook);
  if (done == nullptr) PyErr_Clear();
  Py_XDECREF(done);
  Py_XDECREF(threading);
}

PyObject* current_thread_hook() {
  PyObject* threading = PyImport_ImportModule("threading");
  PyObject* hook = threading == nullptr ? nullptr : PyObject_GetAttrString(threading, "_profile_hook");
  if (hook == nullptr) {
    PyErr_Clear();
    Py_INCREF(Py_None);
    hook = Py_None;
  }
  Py_XDECREF(threading);
  return hook;
}

}  // namespace

uint64_t install_call_hooks() {
  // Before this thread's own hook, which would record it.
  previous_thread_hook = current_thread_hook();
  PyObject* hook = PyCFunction_New(&begin_thread_def, nullptr);
  if (hook != nullptr && previous_thread_hook == Py_None) set_thread_hook(hook);
  Py_XDECREF(hook);
  uint64_t occupied = 0;
  for (PyThreadState* state = PyInterpreterState_ThreadHead(PyInterpreterState_Get()); state != nullptr;
       state = PyThreadState_Next(state)) {
    if (state->c_profilefunc != nullptr && state->c_profilefunc != &on_event) {
      ++occupied;
    } else if (_PyEval_SetProfile(state, &on_event, nullptr) < 0) {
      PyErr_Clear();
      ++occupied;
    }
  }
  installed = true;
  return occupied;
}

void remove_call_hooks() {
  if (!installed) return;
  installed = false;
  for (PyThreadState* state = PyInterpreterState_ThreadHead(PyInterpreterState_Get()); state != nullptr;
       state = PyThreadState_Next(state)) {
    if (state->c_profilefunc != &on_event) continue;
    if (_PyEval_SetProfile(state, nullptr, nullptr) < 0) PyErr_Clear();
  }
  if (previous_thread_hook == Py_None) set_thread_hook(Py_None);
  Py_CLEAR(previous_thread_hook);
}

uint64_t frame_key(PyFrameObject* frame, PyCodeObject*) { return reinterpret_cast<uintptr_t>(frame); }

int32_t instruction_of(PyFrameObject* frame) {
  if (frame == nullptr) return -1;
#if PY_VERSION_HEX >= 0x030B0000
  return PyFrame_GetLasti(frame);
#else
  return frame->f_lasti * 2;  // counted in instructions until 3.10, in bytes since
#endif
}

}  // namespace opscope

#endif
