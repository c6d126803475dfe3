// Prevents errors of torch's _RecordFunctionFast on a thread that opscope enters during such a span.
#include <nanobind/nanobind.h>

#include <cstring>

namespace opscope {

namespace {

PyObject* original_exit = nullptr;  // never released

bool is_missing_guard(PyObject* error) {
  PyObject* text = error == nullptr ? nullptr : PyObject_Str(error);
  const char* bytes = text == nullptr ? nullptr : PyUnicode_AsUTF8(text);
  const bool matches = bytes != nullptr && std::strstr(bytes, "no guard is set") != nullptr;
  Py_XDECREF(text);
  return matches;
}

PyObject* exit_without_error(PyObject* self, PyObject* args) {
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

PyMethodDef leave_quietly_def = {"__exit__", &exit_without_error, METH_VARARGS, nullptr};

// [GIL] Makes __exit__ of `type` (torch._C._profiler._RecordFunctionFast) return silently where it would
// raise. None: does nothing. Idempotent and never undone: a `with` statement looks up __exit__ on entry, so
// the change must precede the span.
//
// Its __enter__ has an effect only while the thread's PROFILER_STATE slot is filled; its __exit__ asserts
// that the slot was filled on entry. opscope fills the slot of other threads at their first operator, which
// may be inside such a span.
void guard_fast_annotations(PyObject* type) {
  if (!PyType_Check(type) || original_exit != nullptr) return;
  auto* fast = reinterpret_cast<PyTypeObject*>(type);
  // Python code cannot write to the type, so this writes to its dictionary.
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
