#include "python/annotation.h"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>

#include <algorithm>
#include <cstring>
#include <iterator>
#include <optional>
#include <vector>

#include "interpreter/free_threads.h"
#include "log/payload.h"
#include "log/source.h"
#include "python/python_running_frame.h"
#include "python/python_running_threads.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace opscope {

namespace {

// Annotation entered while no window recorded annotations; windows that open later start with it.
struct Begun {
  const void* annotation;
  const char* name;
  uint64_t python_thread;  // Python's unique id of the thread state
  const void* frame;       // of the function that entered the annotation
};

// [TablesLock] In order of entry.
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
      // No thread: it ended with the annotation open, or a fork did not copy it.
      if (const auto thread = running_thread(begun.python_thread)) {
        add_inside(running, thread->native_thread, thread->system_thread_id, running_annotation(begun, *log),
                   begun.frame);
      }
    }
  }
};

// After Python calls: their order gives the annotation its place on the stack.
const ListedSource listed_begun_annotations(3, []() -> Source& {
  static auto* const source = new BegunAnnotations;
  return *source;
});

// [GIL] Notes that the calling thread enters `annotation`. `name` must stay valid until forget_begun().
void note_begun(const void* annotation, const char* name) {
  PyThreadState* const state = PyThreadState_Get();
  const RunningFrame frame = RunningFrame::current(state);
  const TablesLock lock;
  all_begun().push_back({annotation, name, PyThreadState_GetID(state), frame ? frame.address() : nullptr});
}

// [GIL] Removes the latest entry of `annotation`. False: there is no such entry.
bool forget_begun(const void* annotation) {
  const TablesLock lock;
  std::vector<Begun>& all = all_begun();
  const auto last = std::find_if(all.rbegin(), all.rend(),
                                 [annotation](const Begun& begun) { return begun.annotation == annotation; });
  if (last == all.rend()) return false;
  all.erase(std::next(last).base());
  return true;
}

class Annotation {
 public:
  Annotation(nb::str given_name, std::optional<std::string> args)
      : name(std::move(given_name)), args(std::move(args)) {
    if (name.c_str() == nullptr) throw nb::python_error();  // half a surrogate pair has no UTF-8
  }
  Annotation(const Annotation&) = delete;
  Annotation& operator=(const Annotation&) = delete;
  // Ends an annotation that was never left: the stack must not keep the address of a destroyed object.
  ~Annotation() {
    while (exit()) {
    }
  }

  void enter() {
    Recorder& recorder = Recorder::instance();
    if ((recorder.wanted() & kWantAnnotations) == 0) return note_begun(this, name.c_str());
    ThreadLog* log = Recorder::this_thread();
    if (log == nullptr) return;
    Record* record = log->open_span(key());
    ++open_;  // counts dropped records too: they have their place on the stack
    if (record == nullptr) return;
    fill_annotation(*record, RecordKind::kAnnotation, name_id(recorder, *log, name.c_str()));
    if (args && (recorder.wanted() & kWantInputs) != 0) record->annotation.inputs = put_args(log->arena());
    record->ticks = now_ticks();
    log->publish_span();
  }

  // False: the annotation was not entered.
  bool exit() {
    const uint64_t ticks = now_ticks();
    const bool is_recorded = open_ != 0;
    if (!is_recorded && !forget_begun(this)) return false;
    open_ -= is_recorded ? 1 : 0;
    if (!is_recorded && (Recorder::instance().wanted() & kWantAnnotations) == 0)
      return true;  // no window has the annotation
    ThreadLog* const log = Recorder::this_thread();
    if (log == nullptr) return true;
    if (is_recorded) {
      log->close_span(key(), ticks);
    } else {
      log->note_end(key(), ticks);
    }
    return true;
  }

  nb::str name;
  std::optional<std::string> args;

 private:
  uint64_t key() const { return reinterpret_cast<uintptr_t>(this); }

  uint32_t put_args(Arena& arena) const {
    const size_t bytes = std::min(args->size(), kMaxStringBytes);
    const size_t words = (bytes + 7) / 8;
    uint64_t* word = arena.begin() ? arena.reserve(2 + words) : nullptr;
    if (word == nullptr) return kCutArena;
    word[0] = make_head(1, 0);
    word[1] = make_tag(Tag::kString, bytes);
    if (words != 0) word[1 + words] = 0;
    std::memcpy(word + 2, args->data(), bytes);
    arena.advance(2 + words);
    return arena.commit();
  }

  uint32_t open_ = 0;  // a program may enter the same object again before it exits
};

}  // namespace

void bind_annotation(nb::module_& module) {
  nb::class_<Annotation>(module, "Annotation")
      .def(nb::init<nb::str, std::optional<std::string>>(), "name"_a, "args"_a = nb::none())
      .def(
          "__enter__",
          [](nb::handle self) {
            nb::inst_ptr<Annotation>(self)->enter();
            return nb::borrow(self);
          },
          nb::lock_self())
      .def(
          "__exit__", [](Annotation& self, nb::handle, nb::handle, nb::handle) { self.exit(); },
          nb::arg().none(), nb::arg().none(), nb::arg().none(), nb::lock_self())
      .def_ro("name", &Annotation::name)
      .def_ro("args", &Annotation::args);
}

}  // namespace opscope
