#include "python/python_thread_name.h"

#include <Python.h>

#include "python/owned.h"

namespace opscope {

namespace {

// PyGILState_Check says yes to every thread once there is a second interpreter (before Python 3.12).
bool has_gil() {
  if (Py_IsInitialized() == 0) return false;
  const PyThreadState* const own = PyGILState_GetThisThreadState();
#if PY_VERSION_HEX >= 0x030D0000
  return own != nullptr && own == PyThreadState_GetUnchecked();
#else
  return own != nullptr && own == _PyThreadState_UncheckedGet();
#endif
}

// `thread._name`, unless something other than the object itself has that.
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

std::string name_in_threading() {
  PyObject* const modules = PyImport_GetModuleDict();  // borrowed, as what is found in dictionaries
  PyObject* const module =
      modules != nullptr && PyDict_CheckExact(modules) ? PyDict_GetItemString(modules, "threading") : nullptr;
  if (module == nullptr || !PyModule_CheckExact(module)) return {};
  PyObject* const active = PyDict_GetItemString(PyModule_GetDict(module), "_active");
  const Owned number(PyLong_FromUnsignedLong(PyThread_get_thread_ident()));
  if (active == nullptr || !PyDict_CheckExact(active) || !number) return {};
  PyObject* const thread = PyDict_GetItemWithError(active, number.get());
  if (thread == nullptr || thread == PyDict_GetItemString(PyModule_GetDict(module), "_main_thread"))
    return {};
  const Owned held(Py_NewRef(thread));
  return name_in(held.get());
}

}  // namespace

std::string python_thread_name() {
  if (!has_gil()) return {};
  PyObject* type = nullptr;
  PyObject* value = nullptr;
  PyObject* traceback = nullptr;
  PyErr_Fetch(&type, &value, &traceback);
  std::string name = name_in_threading();
  PyErr_Restore(type, value, traceback);  // and with it goes what was raised here
  return name;
}

}  // namespace opscope
