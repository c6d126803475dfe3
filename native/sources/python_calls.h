// Python calls as spans: Python and C functions, nn.Module calls, optimizer steps.
//
// Below Python 3.12 calls arrive through PyEval_SetProfile on every thread, from 3.12 through
// sys.monitoring. Module calls arrive through the tp_call slot of nn.Module and its subclasses,
// which costs nothing else in the program and changes no attribute that code could look at.
//
// [GIL] Everything here is called with the GIL.
#pragma once

#include <Python.h>

#include <cstdint>
#include <vector>

#include "recorder.h"
#include "sources/python_frames.h"
#include "sources/python_modules.h"

namespace opscope {

class PythonCalls {
 public:
  static PythonCalls& instance();

  // What the hooks need from Python, once: the folder whose code is not recorded and the file in it
  // that is, nn.Module and the
  // code of its __call__, the code where optimizers show themselves, and a function that returns an
  // instance's parameters (see recording/parameters.py). Any may be None.
  void set_up(const char* hidden_folder, const char* shown_file, PyObject* module_class,
              PyObject* module_code, PyObject* optimizer_code, PyObject* parameter_reader);

  // Installs or removes hooks so that `wanted` is seen. `new_threads`: also threads not yet begun.
  void configure(uint32_t wanted);
  std::vector<InitialStack> capture_stacks();
  // No window can refer to frames and instances any more.
  void forget();

  uint64_t window = 0;        // changes whenever a window opens
  uint64_t first_window = 0;  // `window` since when calls have been watched without a break

  FrameTable frames;
  InstanceTable modules;
  InstanceTable optimizers;

  // Threads left alone because another profiler had its hook there.
  uint64_t occupied_threads() const { return occupied_threads_; }

 private:
  void hook_calls(bool on);
  void hook_modules(bool on);

  uint32_t configured_ = 0;
  uint64_t occupied_threads_ = 0;
  PyTypeObject* module_class_ = nullptr;
};

}  // namespace opscope
