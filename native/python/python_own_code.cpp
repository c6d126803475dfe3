#include "python/python_own_code.h"

#include <sys/syscall.h>
#include <unistd.h>

namespace opscope {

namespace {

// Takes over the reference.
int raise(void* exception) {
  auto* const value = static_cast<PyObject*>(exception);
  PyErr_SetObject(reinterpret_cast<PyObject*>(Py_TYPE(value)), value);
  Py_DECREF(value);
  return -1;
}

// Clears the current error and returns a new reference to it.
PyObject* take_error() {
#if PY_VERSION_HEX >= 0x030C0000
  return PyErr_GetRaisedException();
#else
  PyObject *kind = nullptr, *value = nullptr, *traceback = nullptr;
  PyErr_Fetch(&kind, &value, &traceback);
  PyErr_NormalizeException(&kind, &value, &traceback);
  if (value != nullptr && traceback != nullptr) PyException_SetTraceback(value, traceback);
  Py_XDECREF(kind);
  Py_XDECREF(traceback);
  return value;
#endif
}

}  // namespace

bool OwnCode::clear_error(PyObject* expected) {
  if (PyErr_Occurred() == nullptr) return false;
  if (cache_ == nullptr || (expected != nullptr && PyErr_ExceptionMatches(expected) != 0)) {
    PyErr_Clear();
    return false;
  }
  PyObject* const error = take_error();
  Py_XSETREF(cache_->deferred_error, error);
  return true;
}

// Signal handlers run in the main thread, which also runs pending calls. Exceptions that other threads send
// to this thread are classes.
void OwnCode::raise_deferred() {
  PyObject* const error = cache_->deferred_error;
  cache_->deferred_error = nullptr;
  const bool is_main = syscall(SYS_gettid) == getpid();
  if (is_main && Py_AddPendingCall(&raise, error) == 0) return;
  PyThreadState_SetAsyncExc(PyThread_get_thread_ident(), reinterpret_cast<PyObject*>(Py_TYPE(error)));
  Py_DECREF(error);
}

}  // namespace opscope
