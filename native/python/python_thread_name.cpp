#include "python/python_thread_name.h"

#include <Python.h>

#include "python/owned.h"

namespace opscope {

namespace {

// PyGILState_Check is true for every thread once a second interpreter exists (before Python 3.12).
bool has_gil() {
  if (Py_IsInitialized() == 0) return false;
  const PyThreadState* const own = PyGILState_GetThisThreadState();
#if PY_VERSION_HEX >= 0x030D0000
  return own != nullptr && own == PyThreadState_GetUnchecked();
#else
  return own != nullptr && own == _PyThreadState_UncheckedGet();
#endif
}

// `thread._name`, if it is in the object's own dictionary.
std::string name_in(PyObject* thread) {
  const Owned attribute_name(PyUnicode_FromString("_name"));
  if (!attribute_name || Py_TYPE(thread)->tp_getattro != &PyObject_GenericGetAttr ||
      _PyType_Lookup(Py_TYPE(thread), attribute_name.get()) != nullptr) {
    return {};
  }
  const Owned name(PyObject_GenericGetAttr(thread, attribute_name.get()));
  if (!name || !PyUnicode_CheckExact(name.get())) return {};
  const char* const text = PyUnicode_AsUTF8(name.get());
  return text == nullptr ? std::string() : std::string(text);
}

// Entry of a dictionary, or null; null if `dictionary` is no dictionary.
Owned found_in(PyObject* dictionary, const Owned& key) {
  if (dictionary == nullptr || !PyDict_CheckExact(dictionary) || !key) return Owned();
#if PY_VERSION_HEX >= 0x030D0000
  PyObject* found = nullptr;
  PyDict_GetItemRef(dictionary, key.get(), &found);
  return Owned(found);
#else
  return Owned(Py_XNewRef(PyDict_GetItemWithError(dictionary, key.get())));
#endif
}

Owned found_in(PyObject* dictionary, const char* key) {
  return found_in(dictionary, Owned(PyUnicode_FromString(key)));
}

std::string name_in_threading() {
  const Owned module = found_in(PyImport_GetModuleDict(), "threading");
  if (!module || !PyModule_CheckExact(module.get())) return {};
  PyObject* const names = PyModule_GetDict(module.get());
  const Owned number(PyLong_FromUnsignedLong(PyThread_get_thread_ident()));
  const Owned thread = found_in(found_in(names, "_active").get(), number);
  if (!thread || thread.get() == found_in(names, "_main_thread").get()) return {};
  return name_in(thread.get());
}

}  // namespace

std::string python_thread_name() {
  if (!has_gil()) return {};
  PyObject* type = nullptr;
  PyObject* value = nullptr;
  PyObject* traceback = nullptr;
  PyErr_Fetch(&type, &value, &traceback);
  std::string name = name_in_threading();
  PyErr_Restore(type, value, traceback);  // also clears errors raised here
  return name;
}

}  // namespace opscope
