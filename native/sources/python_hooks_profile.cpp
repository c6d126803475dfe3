#include "sources/python_hooks.h"

#if PY_VERSION_HEX < 0x030C0000

#include <vector>

namespace opscope {

namespace {

bool installed = false;

int on_event(PyObject*, PyFrameObject* object, int what, PyObject* arg) {
  if (!installed) [[unlikely]]
    return 0;  // in a forked child, or a thread on its way out
  const RunningFrame frame(object);
  switch (what) {
    case PyTrace_CALL:
      python_enter(frame.code(), frame);
      break;
    case PyTrace_RETURN:
      python_leave(frame.code(), frame);
      break;
    case PyTrace_C_CALL:
      if (PyCFunction_Check(arg)) python_enter_c(arg, nullptr, frame);
      break;
    case PyTrace_C_RETURN:
    case PyTrace_C_EXCEPTION:
      python_leave_c(arg, frame);
      break;
    default:
      break;
  }
  return 0;
}

// threading.setprofile's function: runs once in a new thread and puts the native hook in its place.
PyObject* begin_thread(PyObject*, PyObject*) {
  PyEval_SetProfile(installed ? &on_event : nullptr, nullptr);
  std::vector<RunningFrame> running;  // what threading itself runs around the program's function
  for (RunningFrame frame = RunningFrame::current(PyThreadState_Get()); frame; frame = frame.caller()) {
    running.push_back(frame);
  }
  for (auto frame = running.rbegin(); installed && frame != running.rend(); ++frame) {
    python_enter(frame->code(), *frame);
  }
  Py_RETURN_NONE;
}
PyMethodDef begin_thread_def = {"opscope_begin_thread", &begin_thread, METH_VARARGS, nullptr};

// [GIL] What we gave to threading.setprofile; owned. Ours only while it is still there.
PyObject* thread_hook = nullptr;

PyObject* call_threading(const char* function, PyObject* argument) {
  PyObject* threading = PyImport_ImportModule("threading");
  PyObject* method = threading == nullptr ? nullptr : PyObject_GetAttrString(threading, function);
  PyObject* result = method == nullptr ? nullptr : PyObject_CallFunctionObjArgs(method, argument, nullptr);
  if (result == nullptr) PyErr_Clear();
  Py_XDECREF(method);
  Py_XDECREF(threading);
  return result;
}

bool is_thread_hook(PyObject* hook) {
  PyObject* current = call_threading("getprofile", nullptr);
  Py_XDECREF(current);  // threading keeps it
  return current == hook;
}

// Setting the profile function of another thread is what sys.setprofile does to its own.
bool set_profile(PyThreadState* state, Py_tracefunc function) {
  if (_PyEval_SetProfile(state, function, nullptr) == 0) return true;
  PyErr_Clear();  // an audit hook refused
  return false;
}

template <typename Function>
void for_each_thread(Function&& function) {
  for (PyThreadState* state = PyInterpreterState_ThreadHead(PyInterpreterState_Get()); state != nullptr;
       state = PyThreadState_Next(state)) {
    function(state);
  }
}

}  // namespace

uint64_t install_call_hooks() {
  uint64_t occupied = 0;
  for_each_thread([&](PyThreadState* state) {
    const bool is_free = state->c_profilefunc == nullptr || state->c_profilefunc == &on_event;
    if (!is_free || !set_profile(state, &on_event)) ++occupied;
  });
  installed = true;
  return occupied;
}

void remove_call_hooks() {
  hook_new_threads(false);
  installed = false;
  for_each_thread([](PyThreadState* state) {
    if (state->c_profilefunc == &on_event) set_profile(state, nullptr);
  });
}

void hook_new_threads(bool on) {
  if (on == (thread_hook != nullptr)) return;
  if (on) {
    if (!is_thread_hook(Py_None)) return;  // the program's own goes first
    thread_hook = PyCFunction_New(&begin_thread_def, nullptr);
    Py_XDECREF(thread_hook == nullptr ? nullptr : call_threading("setprofile", thread_hook));
  } else {
    if (is_thread_hook(thread_hook)) Py_XDECREF(call_threading("setprofile", Py_None));
    Py_CLEAR(thread_hook);
  }
  PyErr_Clear();
}

bool reports_calls(PyThreadState* state) {
  return installed && state->c_profilefunc == &on_event && state->tracing == 0;
}

}  // namespace opscope

#endif
