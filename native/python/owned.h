// Owning references to Python objects. [GIL]
#pragma once

#include <Python.h>

#include <utility>

namespace opscope {

class Owned {
 public:
  // Takes over the reference; nullptr is allowed.
  explicit Owned(PyObject* object = nullptr) : object_(object) {}
  Owned(Owned&& other) noexcept : object_(std::exchange(other.object_, nullptr)) {}
  Owned& operator=(Owned&& other) noexcept {
    std::swap(object_, other.object_);
    return *this;
  }
  Owned(const Owned&) = delete;
  Owned& operator=(const Owned&) = delete;
  ~Owned() { Py_XDECREF(object_); }

  PyObject* get() const { return object_; }
  explicit operator bool() const { return object_ != nullptr; }

 private:
  PyObject* object_;
};

// Null if the attribute is missing; leaves no error set.
inline Owned attribute(PyObject* object, const char* name) {
  PyObject* const value = object == nullptr ? nullptr : PyObject_GetAttrString(object, name);
  if (value == nullptr) PyErr_Clear();
  return Owned(value);
}

// A reference that is never released; nullptr for null.
inline PyObject* kept(Owned object) { return Py_XNewRef(object.get()); }
inline PyTypeObject* kept_type(Owned object) {
  if (!object || !PyType_Check(object.get())) return nullptr;
  return reinterpret_cast<PyTypeObject*>(Py_NewRef(object.get()));
}

// "?" if `text` is no str or has no UTF-8.
inline const char* utf8(PyObject* text) {
  const char* const bytes = text != nullptr && PyUnicode_Check(text) ? PyUnicode_AsUTF8(text) : nullptr;
  if (bytes == nullptr) PyErr_Clear();
  return bytes == nullptr ? "?" : bytes;
}

// Code of a generator or coroutine that Python code made.
inline Owned code_of(PyObject* object) {
  auto* const generator = reinterpret_cast<PyGenObject*>(object);
#if PY_VERSION_HEX >= 0x030C0000
  return Owned(reinterpret_cast<PyObject*>(PyGen_GetCode(generator)));
#else
  return Owned(Py_XNewRef(generator->gi_code));
#endif
}

// isinstance(); false for a null `type`.
inline bool is_a(PyObject* object, PyTypeObject* type) {
  return object != nullptr && type != nullptr && PyObject_TypeCheck(object, type) != 0;
}

}  // namespace opscope
