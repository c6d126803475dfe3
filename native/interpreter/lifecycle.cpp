#include "interpreter/lifecycle.h"

#include <pythread.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>

#include "interpreter/free_threads.h"
#include "interpreter/turns.h"
#include "interpreter/without_gil.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace opscope {

namespace {

// [GIL] Removes the current Python error, so that Python code can run, and restores it when destroyed. Keeps
// the first error, unless a later one is no Exception: a KeyboardInterrupt must reach the program.
class PendingError {
 public:
  PendingError() { PyErr_Fetch(&kind_, &value_, &traceback_); }
  PendingError(const PendingError&) = delete;
  PendingError& operator=(const PendingError&) = delete;
  ~PendingError() { PyErr_Restore(kind_, value_, traceback_); }

  // Takes over the current error.
  void add() {
    const bool is_first = kind_ == nullptr;
    if (!is_first && (is_exception(PyErr_Occurred()) || !is_exception(kind_))) {
      PyErr_Clear();
      return;
    }
    Py_XDECREF(kind_);
    Py_XDECREF(value_);
    Py_XDECREF(traceback_);
    PyErr_Fetch(&kind_, &value_, &traceback_);
  }

 private:
  static bool is_exception(PyObject* kind) { return PyErr_GivenExceptionMatches(kind, PyExc_Exception) != 0; }

  PyObject* kind_ = nullptr;
  PyObject* value_ = nullptr;
  PyObject* traceback_ = nullptr;
};

// Maximum attempts: an interruption comes once, so a function that fails this often has an error of its own.
constexpr int kAttempts = 8;

// Calls `function`, which may be called repeatedly, until it completes. Then sets what interrupted it as the
// error, unless one is set already.
void complete(PyObject* function, PyObject* argument = nullptr) {
  if (function == nullptr || function == Py_None) return;
  PendingError error;
  for (int attempt = 0; attempt < kAttempts; ++attempt) {
    PyObject* result =
        staying_if_ended([&] { return PyObject_CallFunctionObjArgs(function, argument, nullptr); });
    Py_XDECREF(result);
    if (result != nullptr) return;
    error.add();
  }
}

PyObject* call(nb::handle function) {
  return staying_if_ended([&] { return PyObject_CallNoArgs(function.ptr()); });
}

nb::object returned(PyObject* result) {
  if (result == nullptr) throw nb::python_error();
  return nb::steal(result);
}

// Number of sections that this thread is in.
thread_local uint32_t sections_entered = 0;

// A section of Python code that one thread runs at a time, without deadlocks.
//
// A thread may re-enter its section, because a signal handler or finalizer can run at any time. A thread in a
// section does not wait for another section but enters it, even if occupied, so that no two threads wait for
// each other. Code in a section must therefore be correct when two threads run it at once; at worst it does
// its work twice. In a forked child all sections are free except those of the forking thread.
class Section {
 public:
  Section() = default;
  Section(const Section&) = delete;
  Section& operator=(const Section&) = delete;
  ~Section() { PyThread_free_lock(lock_); }

  nb::object run(nb::handle function, nb::handle undo) {
    const bool entered = enter();
    PyObject* result = call(function);
    if (result == nullptr) complete(undo.ptr());
    if (entered) leave();
    return returned(result);
  }

 private:
  // Returns whether the section was entered; then leave() must follow.
  bool enter() {
    reset_after_fork();
    if (owner_ != PyThread_get_thread_ident()) {
      if (!acquire()) return false;
      owner_ = PyThread_get_thread_ident();
    }
    ++depth_;
    ++sections_entered;
    return true;
  }

  void leave() {
    --sections_entered;
    if (--depth_ != 0) return;
    owner_ = 0;
    PyThread_release_lock(lock_);
  }

  bool acquire() {
    if (PyThread_acquire_lock(lock_, NOWAIT_LOCK) != 0) return true;
    if (sections_entered != 0) return false;
    while (wait() == PY_LOCK_INTR) {
      if (PyErr_CheckSignals() != 0) throw nb::python_error();
    }
    return true;
  }

  PyLockStatus wait() {
    const WithoutGil without_gil;
    return PyThread_acquire_lock_timed(lock_, -1, /*intr_flag=*/1);
  }

  // In a forked child: another thread that was in the section at the fork does not exist.
  void reset_after_fork() {
    if (process_ == getpid()) return;
    process_ = getpid();
    if (owner_ == PyThread_get_thread_ident()) return;
    lock_ = new_lock();  // does not free the old lock, which may be held
    owner_ = 0;
    depth_ = 0;
  }

  static PyThread_type_lock new_lock() {
    PyThread_type_lock const lock = PyThread_allocate_lock();
    if (lock == nullptr) throw std::bad_alloc();
    return lock;
  }

  PyThread_type_lock lock_ = new_lock();
  Shared<unsigned long> owner_ = 0;  // other threads only compare it with their own id
  uint32_t depth_ = 0;               // of the owner
  Shared<pid_t> process_ = getpid();
};

// A state: on from open() to close(), off if open() was interrupted. Owns the three Python functions.
//
// `end` undoes any part of `begin`. It is called until it returns without an exception, so repeated calls
// must be safe. `forget` is called last, at destruction, if `begin` was ever called.
class Held {
 public:
  Held(nb::object begin, nb::object end, nb::object forget)
      : begin_(std::move(begin)), end_(std::move(end)), forget_(std::move(forget)) {}
  Held(const Held&) = delete;
  Held& operator=(const Held&) = delete;
  ~Held() {
    if (!has_begun_ || is_ending()) return;
    PendingError error;  // set when the last reference was dropped
    if (is_open_) complete(end_.ptr());
    complete(forget_.ptr());
    if (PyErr_Occurred() != nullptr) PyErr_WriteUnraisable(nullptr);
  }

  void open() {
    if (is_open_.exchange(true)) return;
    has_begun_ = true;
    PyObject* result = call(begin_);
    if (result != nullptr) was_opened_ = true;
    if (result == nullptr) is_open_ = false;
    // Closed in between by a signal handler or another thread: undoes what has begun since.
    if (!is_open_) complete(end_.ptr());
    if (!was_opened_) complete(forget_.ptr());
    Py_XDECREF(result);
    if (PyErr_Occurred() != nullptr) throw nb::python_error();
  }

  void close() {
    if (!is_open_.exchange(false)) return;
    complete(end_.ptr());
    if (PyErr_Occurred() != nullptr) throw nb::python_error();
  }

  nb::object run(nb::handle function) {
    open();
    PyObject* result = call(function);
    is_open_ = false;
    complete(end_.ptr());
    if (PyErr_Occurred() != nullptr) Py_CLEAR(result);
    return returned(result);
  }

  bool is_open() const { return is_open_; }
  bool was_opened() const { return was_opened_; }

 private:
  nb::object begin_;
  nb::object end_;
  nb::object forget_;
  std::atomic<bool> is_open_ = false;
  Shared<bool> has_begun_ = false;
  Shared<bool> was_opened_ = false;  // `begin` has returned
};

PyObject* call_or_undo(PyObject* pair, PyObject* args, PyObject* kwargs) {
  PyObject* result = staying_if_ended([&] { return PyObject_Call(PyTuple_GET_ITEM(pair, 0), args, kwargs); });
  if (result == nullptr && PyTuple_GET_SIZE(args) > 0) {
    complete(PyTuple_GET_ITEM(pair, 1), PyTuple_GET_ITEM(args, 0));
  }
  return result;
}
PyMethodDef call_or_undo_def = {"method",
                                reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(&call_or_undo)),
                                METH_VARARGS | METH_KEYWORDS, nullptr};

// A Python method whose effect is undone if it raises. An exception can arrive between the last line of a
// Python function and the next instruction of its caller. After a built-in function, a `with` statement has
// no such gap: one instruction calls __enter__ and prepares __exit__.
nb::object method(nb::handle function, nb::handle undo) {
  const nb::tuple pair = nb::make_tuple(function, undo);
  const nb::object builtin = returned(PyCFunction_New(&call_or_undo_def, pair.ptr()));
  return returned(PyInstanceMethod_New(builtin.ptr()));
}

}  // namespace

bool is_method_of_ours(PyObject* builtin) {
  return reinterpret_cast<PyCFunctionObject*>(builtin)->m_ml == &call_or_undo_def;
}

void bind_lifecycle(nb::module_& module) {
  nb::class_<Section>(module, "Section")
      .def(nb::init<>())
      .def("run", &Section::run, "function"_a, "undo"_a = nb::none());
  nb::class_<Held>(module, "Held")
      .def(nb::init<nb::object, nb::object, nb::object>(), "begin"_a, "end"_a, "forget"_a = nb::none())
      .def("open", &Held::open)
      .def("close", &Held::close)
      .def("run", &Held::run, "function"_a)
      .def_prop_ro("is_open", &Held::is_open)
      .def_prop_ro("was_opened", &Held::was_opened);
  module.def("method", &method, "function"_a, "undo"_a);
}

}  // namespace opscope
