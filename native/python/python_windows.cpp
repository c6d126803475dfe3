#include "python/python_windows.h"

#include <Python.h>

#include <mutex>
#include <new>
#include <stdexcept>
#include <utility>
#include <vector>

#include "interpreter/free_threads.h"
#include "interpreter/without_gil.h"
#include "log/recorder.h"
#include "log/source.h"
#include "python/python_calls.h"

namespace opscope {

namespace {

// While one exists, no collection begins, so no code of the program runs in the middle of a change.
class NoCollection {
 public:
  NoCollection() : was_on_(PyGC_Disable() != 0) {}
  NoCollection(const NoCollection&) = delete;
  NoCollection& operator=(const NoCollection&) = delete;
  ~NoCollection() {
    if (was_on_) PyGC_Enable();
  }

 private:
  bool was_on_;
};

#if defined(Py_GIL_DISABLED) && !defined(OPSCOPE_FREE_THREADS)
// A free-threaded build enables the GIL when it loads a module that needs it, such as this one.
bool gil_is_enabled() {
  PyObject* ask = PySys_GetObject("_is_gil_enabled");
  PyObject* answer = ask == nullptr ? nullptr : PyObject_CallNoArgs(ask);
  const bool is_enabled = answer == Py_True;
  Py_XDECREF(answer);
  PyErr_Clear();
  return is_enabled;
}
#endif

std::recursive_mutex& changing() {
  static auto* const only = new std::recursive_mutex;
  return *only;
}

// Held while windows change.
struct Change {
  WindowsStay windows_stay;
  NoCollection no_collection;
};

void note_running_calls(uint32_t id) {
  Recorder& recorder = Recorder::instance();
  const auto window = recorder.window(id);
  if (window == nullptr) return;  // another thread has already discarded the window
  std::vector<InitialStack> running;
  ListedSource::for_each([&](Source& source) { source.begin_window(*window, running); });
  recorder.set_initial_stacks(id, std::move(running), PythonCalls::generation());
}

}  // namespace

WindowsStay::WindowsStay() : turn_(threads_are_free() ? &changing() : nullptr) {}

void windows_forked() { new (&changing()) std::recursive_mutex; }

void configure_sources(uint32_t also) {
  const WindowsStay windows_stay;
  ListedSource::for_each([also](Source& source) { source.configure(also); });
}

uint32_t open_window(uint32_t wants, bool all_threads, uint32_t reserved, uint32_t collects,
                     uint64_t most_growth_bytes) {
#if defined(Py_GIL_DISABLED) && !defined(OPSCOPE_FREE_THREADS)
  if ((wants & (kWantCalls | kWantModules)) != 0 && !gil_is_enabled()) {
    throw std::runtime_error(
        "Python calls and modules cannot be recorded without the GIL; leave out "
        "with_stack and with_modules, or set PYTHON_GIL=1");
  }
#endif
  Recorder& recorder = Recorder::instance();
  {
    const WithoutGil without_gil;
    recorder.prepare_blocks();
  }
  const Change change;
  // Creates this thread's log first, because that reads the thread's name from Python.
  Recorder::this_thread();
  // Configuring sources lets other threads run. Calls that they begin during this must precede the window, or
  // it would have them twice: as calls, and as already running.
  configure_sources(wants & collects);
  uint32_t id = 0;
  try {
    at_one_moment([&] {
      id = recorder.open_window(wants, all_threads, reserved, collects, most_growth_bytes);
      if (threads_are_free()) note_running_calls(id);
    });
  } catch (...) {
    configure_sources();
    throw;
  }
  configure_sources();  // a window that closed in between may have removed hooks
  if (!threads_are_free()) note_running_calls(id);
  return id;
}

void close_window(uint32_t id) {
  const Change change;
  Recorder& recorder = Recorder::instance();
  if (const auto window = recorder.window(id); window != nullptr && window->open) {
    at_one_moment([&] {
      ListedSource::for_each([&](Source& source) { source.before_end(*window); });
      recorder.close_window(id);
    });
    ListedSource::for_each([&](Source& source) { source.end_window(*window); });
  }
  configure_sources();
}

void pause_window(uint32_t id, bool paused) {
  const Change change;
  Recorder& recorder = Recorder::instance();
  recorder.pause_window(id, paused);
  configure_sources();
  const auto window = recorder.window(id);
  if (paused || window == nullptr || !window->open) return;
  ListedSource::for_each([&](Source& source) { source.resume_window(*window); });
}

void collect(const std::vector<uint32_t>& ids, uint32_t wants) {
  const Change change;
  Recorder& recorder = Recorder::instance();
  const uint32_t before = recorder.wanted();
  const auto with_more = recorder.collect(ids, wants);
  configure_sources();
  if (const uint32_t ceased = before & ~recorder.wanted(); ceased != 0)
    ListedSource::for_each([ceased](Source& source) { source.cease(ceased); });
  for (const auto& window : with_more) {
    ListedSource::for_each([&](Source& source) { source.resume_window(*window); });
  }
  recorder.release_unneeded_tensors();  // takes milliseconds, so after everything has ended
}

uint32_t snapshot_window(uint32_t id) {
  const Change change;
  Recorder& recorder = Recorder::instance();
  const auto window = recorder.window(id);
  if (window == nullptr) return 0;
  uint32_t snapshot = 0;
  at_one_moment([&] {
    if (window->open) ListedSource::for_each([&](Source& source) { source.before_end(*window); });
    snapshot = recorder.snapshot_window(id);
  });
  const auto taken = recorder.window(snapshot);
  if (taken != nullptr && window->open)
    ListedSource::for_each([&](Source& source) { source.end_window(*taken); });
  return snapshot;
}

void discard_window(uint32_t id) {
  const Change change;
  Recorder& recorder = Recorder::instance();
  recorder.discard_window(id);
  configure_sources();
  ListedSource::for_each([](Source& source) { source.discard_window(); });
  if (recorder.statistics().windows != 0) return;
  ListedSource::for_each([](Source& source) { source.forget(); });
}

}  // namespace opscope
