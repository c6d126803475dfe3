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
  // The row of this instance. `is_new` says that it was not met since the last begin_window().
  uint32_t intern(PyObject* instance, bool* is_new);
  // A window opens: what instances hold may have changed since they were last read.
  void begin_window() { ++current_window_; }
  // [MT]
  InstanceInfo describe(uint32_t row);
  // Empties the table, when no window can refer to it any more.
  void forget();

 private:
  struct Known {
    uint32_t row;
    uint64_t met_in;      // value of current_window_ when it was last met
    PyObject* reference;  // weak reference object, owned; null if the class supports none
  };
  bool is_current(const Known& known, PyObject* instance) const;

  uint64_t current_window_ = 0;
  std::mutex mutex_;  // of instances_
  std::deque<InstanceInfo> instances_;
  std::unordered_map<PyObject*, Known> by_address_;
};

}  // namespace opscope
