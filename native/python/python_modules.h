// nn.Module and Optimizer instances seen by the call recorder.
//
// [GIL] Everything here, and at the same time where there is none. An instance is known by its address; a
// weak reference tells when another object has that address. No instance is kept alive. The parameters of an
// instance are read again for every window.
#pragma once

#include <Python.h>

#include <cstdint>
#include <optional>
#include <unordered_map>

#include "interpreter/free_threads.h"
#include "log/journal.h"

namespace opscope {

class InstanceTable {
 public:
  // `kind`: what its rows are in the journal.
  explicit InstanceTable(EntryKind kind) : kind_(kind) {}

  // The row of this instance. `is_new`: this is the first time since the last window opened.
  uint32_t intern(PyObject* instance, bool* is_new);
  void begin_window() {
    const TablesLock lock;
    ++window_;
  }
  // Makes the instance new again the next time: reading its parameters was interrupted.
  void read_again(PyObject* instance);
  // Empties the table, when no window can refer to it any more.
  void forget();

 private:
  struct Known {
    uint32_t row;
    uint64_t window;      // in which it was last met
    PyObject* reference;  // weak reference object, owned; null if the class supports none
    PyTypeObject* type;   // only to compare with
  };
  // The row of an instance that is known.
  std::optional<uint32_t> row_of(PyObject* instance, bool* is_new);
  // What follows is called under the lock.
  uint32_t note(Known& known, bool* is_new);
  static bool is_current(const Known& known, PyObject* instance);
  // The entry of this instance; nullptr: there is none. That of an object that is gone is removed.
  Known* find(PyObject* instance);
  Known* add(PyObject* instance, PyObject* reference);

  const EntryKind kind_;
  uint64_t window_ = 1;
  uint32_t next_row_ = 0;
  std::unordered_map<PyObject*, Known> by_address_;
};

}  // namespace opscope
