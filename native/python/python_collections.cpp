// Garbage collections as spans, through an entry of gc.callbacks while a window wants them.
#include <unistd.h>

#include <algorithm>
#include <cstring>

#include "interpreter/free_threads.h"
#include "log/clock.h"
#include "log/core_api.h"
#include "log/source.h"
#include "python/annotation.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace opscope {

namespace {

constexpr uint64_t kGcKey = 1;  // no object has this address

// Thread with an open collection span; at most one collection runs at a time. The hook stays during a
// collection, even if no window wants it any more, to record the end.
Shared<ThreadLog*> collecting = nullptr;

int remove_hook_if_unwanted(void*);

void gc_callback(const nb::str& phase, const nb::dict& info) {
  Recorder& recorder = Recorder::instance();
  ThreadLog* log = Recorder::this_thread();
  if (log == nullptr) return;
  const bool is_wanted = (recorder.wanted() & kWantGc) != 0;
  if (std::strcmp(phase.c_str(), "stop") == 0) {
    if (collecting != log) return;  // a window opened during the collection
    collecting = nullptr;
    log->close_span(kGcKey, now_ticks());
    // Deferred: Python is iterating over the list.
    if (!is_wanted) Py_AddPendingCall(&remove_hook_if_unwanted, nullptr);
    return;
  }
  if (!is_wanted) return;
  static const char* const names[] = {"gc: generation 0", "gc: generation 1", "gc: generation 2"};
  const auto generation = std::min<uint64_t>(nb::cast<uint64_t>(info["generation"]), 2);
  Record* record = log->open_span(kGcKey);
  collecting = log;
  if (record == nullptr) return;
  fill_annotation(*record, RecordKind::kGcPause, name_id(recorder, *log, names[generation]));
  record->ticks = now_ticks();
  log->publish_span();
}

class Collections final : public Source {
 public:
  void configure(uint32_t also) override {
    const bool on = ((Recorder::instance().wanted() | also) & kWantGc) != 0;
    Py_ssize_t at = PyList_GET_SIZE(callbacks_);
    while (--at >= 0 && PyList_GET_ITEM(callbacks_, at) != hook_) continue;
    if (on && at < 0 && PyList_Append(callbacks_, hook_) != 0) PyErr_Clear();
    if (on || at < 0 || is_collecting()) return;
    if (PyList_SetSlice(callbacks_, at, at + 1, nullptr) != 0) PyErr_Clear();
  }

  // `callbacks`: gc.callbacks, always the same list. Both are kept forever.
  void set_up(nb::object callbacks, nb::object hook) {
    callbacks_ = callbacks.release().ptr();
    hook_ = hook.release().ptr();
  }

 private:
  // In a forked child, a collection of another thread never ends.
  bool is_collecting() {
    if (process_ != getpid() && collecting != Recorder::this_thread()) collecting = nullptr;
    process_ = getpid();
    return collecting != nullptr;
  }

  pid_t process_ = getpid();
  PyObject* callbacks_ = nullptr;
  PyObject* hook_ = nullptr;
};

Collections& collections() {
  static auto* source = new Collections;
  return *source;
}

int remove_hook_if_unwanted(void*) {
  collections().configure(0);
  return 0;
}

const ListedSource listed_collections(0, []() -> Source& { return collections(); });

}  // namespace

void bind_collections(nb::module_& module) {
  module.def("gc_callback", &gc_callback, "phase"_a, "info"_a);
  collections().set_up(nb::module_::import_("gc").attr("callbacks"), module.attr("gc_callback"));
}

}  // namespace opscope
