#include "python/begun_annotations.h"

#include <Python.h>

#include <algorithm>
#include <iterator>
#include <optional>
#include <vector>

#include "interpreter/free_threads.h"
#include "log/source.h"
#include "python/annotation.h"
#include "python/python_running_frame.h"
#include "python/python_running_threads.h"

namespace opscope {

namespace {

struct Begun {
  const void* annotation;
  const char* name;
  uint64_t python_thread;  // Python's id of its state: never that of another one
  const void* frame;       // of the function that entered it
};

// [TablesLock] In the order in which they were entered.
std::vector<Begun>& all_begun() {
  static auto* const begun = new std::vector<Begun>;
  return *begun;
}

InitialFrame running_annotation(const Begun& begun, ThreadLog& log) {
  InitialFrame frame;
  fill_annotation(frame.span, RecordKind::kAnnotation, name_id(Recorder::instance(), log, begun.name));
  frame.span.span.end = reinterpret_cast<uintptr_t>(begun.annotation);
  return frame;
}

class BegunAnnotations final : public Source {
 public:
  void configure(uint32_t) override {}

  void begin_window(Window& window, std::vector<InitialStack>& running) override {
    ThreadLog* const log = Recorder::this_thread();
    if ((window.wants & kWantAnnotations) == 0 || log == nullptr) return;
    for (const Begun& begun : all_begun()) {
      // None: it was left open on a thread that has ended, or that a fork did not copy.
      if (const auto thread = running_thread(begun.python_thread)) {
        add_inside(running, thread->native_thread, thread->system_thread_id, running_annotation(begun, *log),
                   begun.frame);
      }
    }
  }
};

// After Python calls, whose order says where an annotation belongs.
const ListedSource listed_begun_annotations(3, []() -> Source& {
  static auto* const source = new BegunAnnotations;
  return *source;
});

}  // namespace

void note_begun(const void* annotation, const char* name) {
  PyThreadState* const state = PyThreadState_Get();
  const RunningFrame frame = RunningFrame::current(state);
  const TablesLock lock;
  all_begun().push_back({annotation, name, PyThreadState_GetID(state), frame ? frame.address() : nullptr});
}

bool forget_begun(const void* annotation) {
  const TablesLock lock;
  std::vector<Begun>& all = all_begun();
  const auto last = std::find_if(all.rbegin(), all.rend(),
                                 [annotation](const Begun& begun) { return begun.annotation == annotation; });
  if (last == all.rend()) return false;
  all.erase(std::next(last).base());
  return true;
}

}  // namespace opscope
