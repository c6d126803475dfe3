// Facts about objects while they live. [GIL]
#pragma once

#include <Python.h>

#include <algorithm>
#include <cstddef>
#include <unordered_map>
#include <utility>

#include "python/owned.h"

namespace opscope {

// By address; a weak reference shows when another object has the address. Keeps no object alive.
template <typename Value>
class WeakTable {
 public:
  // Value of this object; nullptr if it has none.
  Value* find(PyObject* object) {
    const auto found = by_address_.find(object);
    return found != by_address_.end() && is_alive(found->second, object) ? &found->second.value : nullptr;
  }

  // Valid until the next add(). An object without weak references is added again each time.
  Value& add(PyObject* object, Value value) {
    if (by_address_.size() >= sweep_at_) sweep();
    PyObject* const reference = PyWeakref_NewRef(object, nullptr);
    if (reference == nullptr) PyErr_Clear();
    Entry entry{Owned(reference), std::move(value)};
    return by_address_.insert_or_assign(object, std::move(entry)).first->second.value;
  }

  void clear() {
    std::unordered_map<PyObject*, Entry> dropped;
    dropped.swap(by_address_);
    sweep_at_ = kFirstSweep;
  }

 private:
  struct Entry {
    Owned reference;
    Value value;
  };

  static bool is_alive(const Entry& entry, PyObject* object) {
    if (!entry.reference) return false;
#if PY_VERSION_HEX >= 0x030D0000
    PyObject* target = nullptr;
    PyWeakref_GetRef(entry.reference.get(), &target);
    Py_XDECREF(target);
    return target == object;
#else
    return PyWeakref_GET_OBJECT(entry.reference.get()) == object;
#endif
  }

  // Removes destroyed objects now and then, so that each add() stays cheap.
  void sweep() {
    std::erase_if(by_address_, [](const auto& entry) { return !is_alive(entry.second, entry.first); });
    sweep_at_ = std::max(kFirstSweep, 2 * by_address_.size());
  }

  static constexpr size_t kFirstSweep = 1024;
  std::unordered_map<PyObject*, Entry> by_address_;
  size_t sweep_at_ = kFirstSweep;
};

}  // namespace opscope
