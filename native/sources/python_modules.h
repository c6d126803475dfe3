// nn.Module and Optimizer instances seen by the call recorder.
//
// [GIL] Everything but describe(). An instance is known by its address; a weak reference tells when
// the address has come to mean another object. Nothing is kept alive.
#pragma once

#include <Python.h>

#include <cstdint>
#include <deque>
#include <mutex>
#include <string>
#include <unordered_map>

namespace opscope {

struct InstanceInfo {
  uint64_t address = 0;
  uint64_t class_address = 0;
  std::string class_name;
};

class InstanceTable {
 public:
  // The row of this instance. `is_new` says that it was not known before.
  uint32_t intern(PyObject* instance, bool* is_new);
  // [MT]
  InstanceInfo describe(uint32_t row);
  // Empties the table, when no window can refer to it any more.
  void forget();

 private:
  struct Known {
    uint32_t row;
    PyObject* reference;  // weak reference object, owned; null if the class supports none
  };
  bool is_current(const Known& known, PyObject* instance) const;

  std::mutex mutex_;  // of instances_
  std::deque<InstanceInfo> instances_;
  std::unordered_map<PyObject*, Known> by_address_;
};

}  // namespace opscope
