// Keeps torch's _RecordFunctionFast from failing when a thread is adopted inside one.
#include <nanobind/nanobind.h>

#include <cstring>

namespace opscope {

namespace {

PyObject* original_exit = nullptr;  // owned, for ever

bool is_missing_guard(PyObject* error) {
  PyObject* text = error == nullptr ? nullptr : PyObject_Str(error);
  const char* bytes = text == nullptr ? nullptr : PyUnicode_AsUTF8(text);
  const bool matches = bytes != nullptr && std::strstr(bytes, "no guard is set") != nullptr;
  Py_XDECREF(text);
  return matches;
}

PyObject* leave_quietly(PyObject* self, PyObject* args) {
  PyObject* self_tuple = PyTuple_Pack(1, self);
  PyObject* all = self_tuple == nullptr ? nullptr : PySequence_Concat(self_tuple, args);
  Py_XDECREF(self_tuple);
  PyObject* result = all == nullptr ? nullptr : PyObject_CallObject(original_exit, all);
  Py_XDECREF(all);
  if (result != nullptr || !PyErr_ExceptionMatches(PyExc_RuntimeError)) return result;
  PyObject *kind = nullptr, *value = nullptr, *traceback = nullptr;
  PyErr_Fetch(&kind, &value, &traceback);
  if (!is_missing_guard(value)) {
    PyErr_Restore(kind, value, traceback);
    return nullptr;
  }
  Py_XDECREF(kind);
  Py_XDECREF(value);
  Py_XDECREF(traceback);
  Py_RETURN_NONE;
}

PyMethodDef leave_quietly_def = {"__exit__", &leave_quietly, METH_VARARGS, nullptr};

// [GIL] From now on `type` (torch._C._profiler._RecordFunctionFast) leaves quietly where it would raise.
// None: nothing to do. Idempotent, and never undone: a `with` statement looks its exit up on entry, so it has
// to be in place before the span begins that it will matter to.
//
// Its __enter__ does something only while the thread's PROFILER_STATE slot is filled, and its __exit__
// asserts that the slot was filled on entry. We fill the slot of other threads when they first run an
// operator, which may be inside such a span.
void guard_fast_annotations(PyObject* type) {
  if (!PyType_Check(type) || original_exit != nullptr) return;
  auto* fast = reinterpret_cast<PyTypeObject*>(type);
  // The type cannot be written to from Python, so its dictionary is.
  PyObject* exit = PyDict_GetItemString(fast->tp_dict, "__exit__");  // borrowed
  PyObject* quiet = exit == nullptr ? nullptr : PyDescr_NewMethod(fast, &leave_quietly_def);
  if (quiet != nullptr) {
    Py_INCREF(exit);
    original_exit = exit;
    PyDict_SetItemString(fast->tp_dict, "__exit__", quiet);
    PyType_Modified(fast);
  }
  Py_XDECREF(quiet);
  PyErr_Clear();
}

}  // namespace

void bind_fast_annotations(nanobind::module_& module) {
  module.def(
      "guard_fast_annotations", [](nanobind::handle type) { guard_fast_annotations(type.ptr()); },
      nanobind::arg("type"));
}

}  // namespace opscope
