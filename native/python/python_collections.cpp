#include "python/python_collections.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "log/clock.h"
#include "log/core_api.h"
#include "log/source.h"
#include "python/annotation.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace opscope {

namespace {

constexpr uint64_t kGcKey = 1;  // no object has this address

// Whether this thread has a span open for a collection. A window may open or close in the middle of one.
thread_local bool is_open = false;

void end_pause() {
  if (!std::exchange(is_open, false)) return;
  if (ThreadLog* const log = Recorder::this_thread(); log != nullptr) log->close_span(kGcKey, now_ticks());
}

// An entry of gc.callbacks.
void gc_callback(const nb::str& phase, const nb::dict& info) {
  // Also where another collection begins: the end of the last one was not heard if the hook was away then.
  end_pause();
  Recorder& recorder = Recorder::instance();
  if (std::strcmp(phase.c_str(), "stop") == 0 || (recorder.wanted() & kWantGc) == 0) return;
  ThreadLog* log = Recorder::this_thread();
  if (log == nullptr) return;
  static const char* const names[] = {"gc: generation 0", "gc: generation 1", "gc: generation 2"};
  const auto generation = std::min<uint64_t>(nb::cast<uint64_t>(info["generation"]), 2);
  recorder.hear_memory(*log);  // a collection frees tensors
  Record* record = log->open_span(kGcKey);
  is_open = true;
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
    if (on || at < 0) return;
    if (PyList_SetSlice(callbacks_, at, at + 1, nullptr) != 0) PyErr_Clear();
    end_pause();  // in the middle of a collection of this thread's, whose end nobody will hear
  }

  // `callbacks`: gc.callbacks, which stays the same list. Both are kept for ever.
  void set_up(nb::object callbacks, nb::object hook) {
    callbacks_ = callbacks.release().ptr();
    hook_ = hook.release().ptr();
  }

 private:
  PyObject* callbacks_ = nullptr;
  PyObject* hook_ = nullptr;
};

Collections& collections() {
  static auto* source = new Collections;
  return *source;
}

const ListedSource listed(0, []() -> Source& { return collections(); });

}  // namespace

void bind_collections(nb::module_& module) {
  module.def("gc_callback", &gc_callback, "phase"_a, "info"_a);
  collections().set_up(nb::module_::import_("gc").attr("callbacks"), module.attr("gc_callback"));
}

}  // namespace opscope
