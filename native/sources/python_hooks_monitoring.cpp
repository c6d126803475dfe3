#include "sources/python_hooks.h"

#if PY_VERSION_HEX >= 0x030C0000

#include <array>

namespace opscope {

namespace {

PyCodeObject* code_of(PyObject* argument) { return reinterpret_cast<PyCodeObject*>(argument); }

RunningFrame current_frame() { return RunningFrame::current(PyThreadState_Get()); }

// Called with code, offset, callable and its first argument. A C function proper comes bound to
// what it is called on, a method of a built-in type as a descriptor. Python functions report their
// own start, so nothing is to be done for them.
PyObject* on_call(PyObject*, PyObject* const* args, Py_ssize_t count) {
  if (count >= 4) {
    PyObject* const callable = args[2];
    if (PyCFunction_Check(callable)) {
      python_enter_c(callable, nullptr, current_frame());
    } else if (Py_IS_TYPE(callable, &PyMethodDescr_Type)) {
      python_enter_c(callable, args[3], current_frame());
    }
  }
  Py_RETURN_NONE;
}

PyObject* on_c_return(PyObject*, PyObject* const* args, Py_ssize_t count) {
  if (count >= 3 && (PyCFunction_Check(args[2]) || Py_IS_TYPE(args[2], &PyMethodDescr_Type))) {
    python_leave_c(args[2], current_frame());
  }
  Py_RETURN_NONE;
}

PyObject* on_start(PyObject*, PyObject* const* args, Py_ssize_t) {
  python_enter(code_of(args[0]), current_frame());
  Py_RETURN_NONE;
}

PyObject* on_end(PyObject*, PyObject* const* args, Py_ssize_t) {
  python_leave(code_of(args[0]), current_frame());
  Py_RETURN_NONE;
}

using Callback = PyObject* (*)(PyObject*, PyObject* const*, Py_ssize_t);

PyMethodDef method(const char* name, Callback callback) {
  return {name, reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(callback)), METH_FASTCALL,
          nullptr};
}

struct Event {
  const char* name;  // in sys.monitoring.events
  PyMethodDef callback;
};

std::array<Event, 9> events = {{
    {"PY_START", method("opscope_start", &on_start)},
    {"PY_RESUME", method("opscope_start", &on_start)},
    {"PY_THROW", method("opscope_start", &on_start)},
    {"PY_RETURN", method("opscope_end", &on_end)},
    {"PY_YIELD", method("opscope_end", &on_end)},
    {"PY_UNWIND", method("opscope_end", &on_end)},
    {"CALL", method("opscope_call", &on_call)},
    {"C_RETURN", method("opscope_c_return", &on_c_return)},
    {"C_RAISE", method("opscope_c_return", &on_c_return)},
}};

int tool = -1;  // sys.monitoring's id for us while installed

PyObject* monitoring() { return PySys_GetObject("monitoring"); }  // borrowed

// The ids that Python has no use for first, so that cProfile and coverage find theirs free.
int claim_tool() {
  for (const int id : {4, 3, 2, 1}) {
    PyObject* done = PyObject_CallMethod(monitoring(), "use_tool_id", "is", id, "opscope");
    if (done != nullptr) {
      Py_DECREF(done);
      return id;
    }
    PyErr_Clear();
  }
  return -1;
}

bool drop(PyObject* result) {
  if (result == nullptr) PyErr_Clear();
  const bool succeeded = result != nullptr;
  Py_XDECREF(result);
  return succeeded;
}

long event_bit(PyObject* names, const char* name) {
  PyObject* value = PyObject_GetAttrString(names, name);
  const long bit = value == nullptr ? 0 : PyLong_AsLong(value);
  Py_XDECREF(value);
  return bit;
}

}  // namespace

uint64_t install_call_hooks() {
  tool = claim_tool();
  if (tool < 0) return 1;
  PyObject* names = PyObject_GetAttrString(monitoring(), "events");
  long set = 0;
  for (Event& event : events) {
    const long bit = event_bit(names, event.name);
    PyObject* function = PyCFunction_New(&event.callback, nullptr);
    drop(PyObject_CallMethod(monitoring(), "register_callback", "ilO", tool, bit, function));
    Py_XDECREF(function);
    // C_RETURN and C_RAISE come with CALL and cannot be set.
    if (event.name[0] != 'C' || event.name[1] != '_') set |= bit;
  }
  Py_XDECREF(names);
  return drop(PyObject_CallMethod(monitoring(), "set_events", "il", tool, set)) ? 0 : 1;
}

void remove_call_hooks() {
  if (tool < 0) return;
  drop(PyObject_CallMethod(monitoring(), "set_events", "ii", tool, 0));
  PyObject* names = PyObject_GetAttrString(monitoring(), "events");
  for (Event& event : events) {
    drop(PyObject_CallMethod(monitoring(), "register_callback", "ilO", tool, event_bit(names, event.name),
                             Py_None));
  }
  Py_XDECREF(names);
  drop(PyObject_CallMethod(monitoring(), "free_tool_id", "i", tool));
  tool = -1;
}

void hook_new_threads(bool) {}  // monitoring is for all threads

bool reports_calls(PyThreadState* state) { return tool >= 0 && state->tracing == 0; }

}  // namespace opscope

#endif
