#include "interpreter/child_process.h"

#include <unistd.h>

#include <cerrno>
#include <exception>

namespace nb = nanobind;

namespace opscope {

namespace {

constexpr int kUncaughtException = 86;  // exit code of a child that another library's exception ends

// os.fork(), also while the interpreter shuts down, where Python 3.12 and later refuse it.
//
// An exception that passes through frames of C has nobody to catch it: the standard library then says
// so on standard error and aborts. In the child that is part of the plan, so it ends without a word.
int fork_process() {
  PyOS_BeforeFork();
  const pid_t child = fork();
  const int error = errno;
  if (child == 0) {
    PyOS_AfterFork_Child();
    std::set_terminate([] { _exit(kUncaughtException); });
    return 0;
  }
  PyOS_AfterFork_Parent();
  if (child < 0) {
    errno = error;
    PyErr_SetFromErrno(PyExc_OSError);
    throw nb::python_error();
  }
  return child;
}

}  // namespace

void bind_child_process(nb::module_& module) {
  module.def("fork_process", &fork_process);
  module.attr("UNCAUGHT_EXCEPTION") = kUncaughtException;
}

}  // namespace opscope
