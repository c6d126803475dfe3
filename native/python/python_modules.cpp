#include "python/python_modules.h"

#include <cstring>
#include <string>

#include "log/recorder.h"

namespace opscope {

namespace {

// Name as in the class statement, dots included; a built-in class has its module's name as prefix.
std::string class_name(const PyTypeObject* type) {
  const char* dot = (type->tp_flags & Py_TPFLAGS_HEAPTYPE) != 0 ? nullptr : strrchr(type->tp_name, '.');
  return dot == nullptr ? type->tp_name : dot + 1;
}

}  // namespace

bool InstanceTable::is_current(const Known& known, PyObject* instance) {
  if (known.reference == nullptr) return known.type == Py_TYPE(instance);
#if PY_VERSION_HEX >= 0x030D0000
  PyObject* target = nullptr;
  PyWeakref_GetRef(known.reference, &target);
  Py_XDECREF(target);
  return target == instance;
#else
  return PyWeakref_GET_OBJECT(known.reference) == instance;
#endif
}

InstanceTable::Known* InstanceTable::find(PyObject* instance) {
  const auto known = by_address_.find(instance);
  if (known == by_address_.end()) return nullptr;
  if (is_current(known->second, instance)) return &known->second;
  Py_XDECREF(known->second.reference);
  by_address_.erase(known);
  return nullptr;
}

uint32_t InstanceTable::intern(PyObject* instance, bool* is_new) {
  if (const auto row = row_of(instance, is_new)) return *row;
  PyObject* const reference = PyWeakref_NewRef(instance, nullptr);
  if (reference == nullptr) PyErr_Clear();
  const TablesLock lock;
  // Creating the reference may collect garbage, which may call this instance: look it up again.
  Known* known = find(instance);
  if (known == nullptr) {
    known = add(instance, reference);
  } else {
    Py_XDECREF(reference);
  }
  return note(*known, is_new);
}

uint32_t InstanceTable::note(Known& known, bool* is_new) {
  *is_new = known.window != window_;
  known.window = window_;
  return known.row;
}

std::optional<uint32_t> InstanceTable::row_of(PyObject* instance, bool* is_new) {
  const TablesLock lock;
  Known* const known = find(instance);
  return known == nullptr ? std::nullopt : std::optional(note(*known, is_new));
}

// Takes over the reference.
InstanceTable::Known* InstanceTable::add(PyObject* instance, PyObject* reference) {
  PyTypeObject* type = Py_TYPE(instance);
  const uint32_t row = next_row_++;
  const auto address = reinterpret_cast<uintptr_t>(instance),
             type_address = reinterpret_cast<uintptr_t>(type);
  Recorder::instance().journal().append(kind_, row,
                                        {field_of(address), field_of(type_address), class_name(type)});
  return &by_address_.emplace(instance, Known{row, 0, reference, type}).first->second;
}

void InstanceTable::read_again(PyObject* instance) {
  const TablesLock lock;
  Known* const known = find(instance);
  if (known != nullptr) known->window = 0;
}

void InstanceTable::forget() {
  std::unordered_map<PyObject*, Known> dropped;
  {
    const TablesLock lock;
    dropped.swap(by_address_);
    next_row_ = 0;
  }
  for (const auto& [address, known] : dropped) Py_XDECREF(known.reference);
}

}  // namespace opscope
