#include "interpreter/free_threads.h"

#ifdef OPSCOPE_FREE_THREADS

#include <pthread.h>

namespace opscope {

namespace {

thread_local bool stops_threads = false;

struct Stop {
  void (*work)(void*);
  void* argument;
};

}  // namespace

std::mutex& TablesLock::mutex() {
  static auto* const only = new std::mutex;
  return *only;
}

void TablesLock::hold_across_forks() {
  pthread_atfork([] { mutex().lock(); }, [] { mutex().unlock(); }, [] { mutex().unlock(); });
}

bool threads_are_free() {
  static const bool are_free = [] {
    PyObject* const flags = PySys_GetObject("flags");  // borrowed
    PyObject* const gil = flags == nullptr ? nullptr : PyObject_GetAttrString(flags, "gil");
    const bool is_kept_on = gil != nullptr && PyLong_Check(gil) && PyLong_AsLong(gil) == 1;
    Py_XDECREF(gil);
    PyErr_Clear();
    return !is_kept_on;
  }();
  return are_free;
}

bool has_stopped_threads() { return stops_threads; }

// The public interface stops threads only to visit all objects. This uses the first visit of at least one.
void call_with_stopped_threads(void (*work)(void*), void* argument) {
  Stop stop{work, argument};
  stops_threads = true;
  PyUnstable_GC_VisitObjects(
      [](PyObject*, void* inner) {
        const auto* const stop = static_cast<const Stop*>(inner);
        stop->work(stop->argument);
        return 0;  // ends the visit
      },
      &stop);
  stops_threads = false;
}

}  // namespace opscope

#endif
