// Tables of nn.Module and Optimizer instances that the call recorder has seen.
//
// [GIL] Everything here; without a GIL, threads use it concurrently. The key of an instance is its address; a
// weak reference shows when another object has that address. The tables keep no instance alive. Each window
// reads the parameters of an instance again.
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
  // `kind`: kind of the rows in the journal.
  explicit InstanceTable(EntryKind kind) : kind_(kind) {}

  // Row of this instance. `is_new`: first use since the last window opened.
  uint32_t intern(PyObject* instance, bool* is_new);
  void begin_window() {
    const TablesLock lock;
    ++window_;
  }
  // Makes the instance new again, because reading its parameters was interrupted.
  void read_again(PyObject* instance);
  // Empties the table; no window may refer to it any more.
  void forget();

 private:
  struct Known {
    uint32_t row;
    uint64_t window;      // of the last use
    PyObject* reference;  // weak reference, owned; null if the class supports none
    PyTypeObject* type;   // only compared
  };
  // Row of a known instance.
  std::optional<uint32_t> row_of(PyObject* instance, bool* is_new);
  // Call the following functions under the lock.
  uint32_t note(Known& known, bool* is_new);
  static bool is_current(const Known& known, PyObject* instance);
  // Entry of this instance, or nullptr. Removes the entry of a destroyed object.
  Known* find(PyObject* instance);
  Known* add(PyObject* instance, PyObject* reference);

  const EntryKind kind_;
  uint64_t window_ = 1;
  uint32_t next_row_ = 0;
  std::unordered_map<PyObject*, Known> by_address_;
};

}  // namespace opscope
