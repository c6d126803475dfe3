// Turns the recording of Python calls on and off, and notes for a new window what already runs.
#include <algorithm>
#include <new>
#include <unordered_set>
#include <utility>

#include "cpython/thread_states.h"
#include "interpreter/free_threads.h"
#include "interpreter/turns.h"
#include "log/clock.h"
#include "log/core_api.h"
#include "python/python_calls.h"
#include "python/python_hooks.h"
#include "python/python_module_calls.h"
#include "python/python_own_code.h"
#include "python/python_parameters.h"
#include "python/python_running_threads.h"
#include "python/python_thread_cache.h"
#include "python/python_windows.h"

namespace opscope {

namespace {

void call_when_forked(PyMethodDef* function) {
  PyObject* os = PyImport_ImportModule("os");
  PyObject* registrar = os == nullptr ? nullptr : PyObject_GetAttrString(os, "register_at_fork");
  PyObject* callback = PyCFunction_New(function, nullptr);
  PyObject* none = PyTuple_New(0);
  PyObject* arguments = Py_BuildValue("{sO}", "after_in_child", callback);
  PyObject* done = registrar == nullptr ? nullptr : PyObject_Call(registrar, none, arguments);
  for (PyObject* object : {os, registrar, callback, none, arguments, done}) Py_XDECREF(object);
  PyErr_Clear();
}

PyObject* on_forked(PyObject*, PyObject*) {
  PythonCalls::instance().forked();
  Py_RETURN_NONE;
}
const ListedSource listed_calls(1, []() -> Source& { return PythonCalls::instance(); });
PyMethodDef forked_def = {"opscope_forked", &on_forked, METH_NOARGS, nullptr};

}  // namespace

PythonCalls::PythonCalls() {
  Recorder::instance().set_place_in_python(&place_in_python);
  TablesLock::hold_across_forks();  // after the recorder's: a fork then acquires this lock first
}

PythonCalls& PythonCalls::instance() {
  static auto* calls = new PythonCalls;
  return *calls;
}

void PythonCalls::set_up(const PythonSetup& setup) {
  if (module_function_ == nullptr && optimizer_hook_ == nullptr) call_when_forked(&forked_def);
  frames.hide_files_under(setup.hidden_folder, setup.shown_file, setup.program_file);
  frames.set_libraries(setup.libraries);
  Py_XSETREF(module_function_,
             PyFunction_Check(setup.module_function) ? Py_NewRef(setup.module_function) : nullptr);
  if (module_function_ != nullptr) {
    frames.set_module_code(reinterpret_cast<PyCodeObject*>(PyFunction_GetCode(module_function_)));
  }
  if (PyCode_Check(setup.optimizer_code)) {
    auto* const code = reinterpret_cast<PyCodeObject*>(setup.optimizer_code);
    frames.set_optimizer_code(code);
    Py_XSETREF(optimizer_file_, Py_NewRef(code->co_filename));
  }
  Py_XSETREF(optimizer_hooks_,
             PyDict_Check(setup.optimizer_hooks) ? Py_NewRef(setup.optimizer_hooks) : nullptr);
  Py_XSETREF(optimizer_hook_, Py_NewRef(setup.optimizer_hook));
  set_parameter_reader(setup.parameter_reader);
}

// [GIL] One thread at a time: changing hooks runs Python, so other threads may open and close windows
// during it. The same thread may re-enter (an audit hook or signal handler opens a window), so each step
// reads again what is wanted, and all steps repeat until that is stable.
void PythonCalls::configure(uint32_t also) {
  const OwnCode own;
  const Turn turn(&configuring_);
  const uint32_t pending_before = pending_wants_;
  pending_wants_ |= also;
  uint32_t seen = 0;
  do {
    seen = to_hook();
    hook_modules();
    watch_optimizers();
    hook_calls();
  } while (seen != to_hook());
  pending_wants_ = pending_before;
}

uint32_t PythonCalls::to_hook() const {
  constexpr uint32_t kAll = kWantCalls | kWantModules | kWantNewThreads;
  return (Recorder::instance().wanted() | pending_wants_) & kAll;
}

void PythonCalls::hook_calls() {
  const CallLevel level = level_to_hook();
  const bool on = level != CallLevel::kNone;
  if (level != hooked_calls_) {
    const CallLevel before = hooked_calls_;
    hooked_calls_ = level;
    if (before != CallLevel::kNone) {
      remove_call_hooks();
      removed_ticks_ = now_ticks();
    }
    frames.skip_libraries(level == CallLevel::kOwn);
    Recorder::instance().watch_calls(on);
    if (on) {
      ++installation_, ++generation_;
      install_call_hooks(level);
    } else {
      overlap_ticks_ = 0;
      ++spell_;
    }
  } else if (on && hook_free_threads()) {
    ++installation_, ++generation_;
  }
  const bool threads = on && (to_hook() & kWantNewThreads) != 0;
  if (threads != hooked_new_threads_) hooked_new_threads_ = hook_new_threads(threads);
}

// The level decreases only to none: a lower level would miss the ends of calls that have begun.
CallLevel PythonCalls::level_to_hook() const {
  const uint32_t wanted = to_hook();
  if ((wanted & kWantPython) != 0) return CallLevel::kAll;
  if ((wanted & kWantFunctions) != 0) return std::max<CallLevel>(hooked_calls_, CallLevel::kFunctions);
  return (wanted & kWantOwnFunctions) == 0 ? CallLevel::kNone
                                           : std::max<CallLevel>(hooked_calls_, CallLevel::kOwn);
}

uint64_t PythonCalls::unhooked_threads(const Window& window) const {
  if ((window.wants & kWantCalls) == 0 || hooked_calls_ == CallLevel::kNone) return 0;
  return static_cast<uint64_t>(
      std::count_if(window.slices.begin(), window.slices.end(), [&](const Slice& slice) {
        const uint64_t thread = slice.thread->python_thread;
        return slice.begin < slice.end && thread != 0 && !was_hooked(thread, window.started.ticks);
      }));
}

void PythonCalls::hook_modules() {
  const bool on = (to_hook() & (kWantCalls | kWantModules)) != 0;
  if (module_function_ == nullptr || on == hooked_modules_) return;
  hooked_modules_ = on;
  if (on) {
    hook_module_function(module_function_);
  } else {
    unhook_module_function(module_function_);
  }
}

// Inserts the hook into torch's dict directly: torch's function for this is Python code, which an exception
// from a signal handler can interrupt halfway.
void PythonCalls::watch_optimizers() {
  const bool on = (to_hook() & kWantModules) != 0;
  if (on == watching_optimizers_ || optimizer_hooks_ == nullptr || (!on && is_any_step_running())) return;
  watching_optimizers_ = on;
  OwnCode own;
  int failed = 0;
  at_one_moment([&] {
    failed = on ? PyObject_SetItem(optimizer_hooks_, optimizer_hook_, optimizer_hook_)
                : PyObject_DelItem(optimizer_hooks_, optimizer_hook_);
  });
  if (failed != 0) own.clear_error();
}

// Whether the hook must stay. torch iterates over the dict at the end of each step, which fails if an entry
// is removed during it. A hook that stays does nothing; the next window that closes removes it.
bool PythonCalls::is_any_step_running() const {
  int threads = 0;
  for_each_thread_state([&](PyThreadState*) { ++threads; });
  if (threads > 1) return true;
  RunningFrame frame = RunningFrame::current(PyThreadState_Get());
  for (; frame; frame = frame.caller()) {
    if (optimizer_file_ != nullptr && PyUnicode_Compare(frame.code()->co_filename, optimizer_file_) == 0)
      return true;
  }
  return false;
}

void PythonCalls::begin_window(Window& window, std::vector<InitialStack>& running) {
  window.unrecorded_evaluations = evaluations_unrecorded();
  if ((window.wants & (kWantCalls | kWantModules)) != 0) {
    modules.begin_window();
    optimizers.begin_window();
  }
  PythonThreadCache* cache = PythonThreadCache::get();
  if ((window.wants & kWantCalls) == 0 || cache == nullptr) return;
  const OwnCode own;
  const RunningThreads threads;
  overlap_ticks_ = now_ticks();
  PyThreadState* const current = PyThreadState_Get();
  if (reports_calls(current)) cache->hidden = hidden_since(*cache, RunningFrame::current(current));
  if (threads.inside_tools() != 0) {
    window.notes.push_back({"Python calls",
                            "not recorded: threads inside another tool's function at the start",
                            static_cast<double>(threads.inside_tools())});
  }
  const auto own_thread = static_cast<uint64_t>(current->thread_id);
  // A thread that has not run yet has the ids of its parent; list one stack per thread.
  std::unordered_set<uint64_t> known;
  for (const SeenThread& thread : threads.seen())
    if (!thread.frames.empty()) known.insert(thread.native_thread);
  for (const SeenThread& thread : threads.seen()) {
    if (thread.frames.empty() && !known.insert(thread.native_thread).second) continue;
    const bool is_own = thread.native_thread == own_thread;
    running.push_back(stack_of(thread, frames, is_own ? &cache->log : nullptr));
  }
  ++generation_;
}

// Frames already running when the evaluation hook was installed report no end.
void PythonCalls::before_end(const Window& window) {
  PythonThreadCache* cache = PythonThreadCache::get();
  if ((window.wants & kWantCalls) == 0 || cache == nullptr) return;
  at_one_moment([&] { note_ends_of_initial(window, *cache); });
}

void PythonCalls::end_window(Window& window) {
  window.unrecorded_evaluations = evaluations_unrecorded() - window.unrecorded_evaluations;
  if ((window.wants & kWantCalls) != 0 && window.unrecorded_evaluations != 0) {
    window.notes.push_back({"Python calls", "not recorded: calls of a thread that had too little stack left",
                            static_cast<double>(window.unrecorded_evaluations)});
  }
  if (window.unhooked_threads == 0) window.unhooked_threads = unhooked_threads(window);
}

void PythonCalls::resume_window(const Window& window) {
  before_end(window);
  if ((window.wants & kWantCalls) == 0 || hooked_calls_ == CallLevel::kNone) return;
  ++generation_;
  resumed_ = generation();
  PythonThreadCache* const cache = PythonThreadCache::get();
  if (cache != nullptr && reports_calls(PyThreadState_Get())) catch_up_now(*cache);
}

void PythonCalls::cease(uint32_t wants) {
  PythonThreadCache* const cache = PythonThreadCache::get();
  if ((wants & kWantCalls) == 0 || hooked_calls_ != CallLevel::kNone || cache == nullptr) return;
  at_one_moment([&] {
    const uint64_t ticks = now_ticks();
    cache->log.end_spans(ticks, is_watched_call);
    for (const uint64_t key : Recorder::instance().initial_frames(cache->log, ceased_)) {
      if (is_watched_call(key)) cache->log.append_late_end(key, ticks, cache->log.native_thread);
    }
    for (const auto& [thread, keys] : running_keys()) {
      if (thread == cache->log.native_thread) continue;
      for (const uint64_t key : keys) cache->log.append_end_of(key, ticks, thread);
    }
    ceased_ = generation();
  });
}

void PythonCalls::note_ends_of_initial(const Window& window, PythonThreadCache& cache) {
  auto running = running_keys();
  const uint64_t ticks = now_ticks();  // one time for all, so that no callee outlasts its caller
  for (const InitialStack& stack : window.initial_stacks) {
    const std::unordered_set<uint64_t>& still = running[stack.native_thread];
    for (const InitialFrame& frame : stack.frames) {
      if ((frame.key() & kWatchedCall) != 0 && !still.contains(frame.key()))
        cache.log.append_late_end(frame.key(), ticks, stack.native_thread);
    }
  }
}

void PythonCalls::optimizer_step(PyObject* optimizer) {
  PythonThreadCache* cache = PythonThreadCache::get();
  if (cache == nullptr || cache->busy) return;
  // Were calls reported when the step's code ran? Another thread may have changed that since. Without an
  // expected hook, `stepped` belongs to this step only if calls have been reported ever since.
  const bool was_seen = std::exchange(cache->stepped, nullptr) == optimizer;
  if (was_seen && (cache->stepped_spell == kAnySpell || cache->stepped_spell == spell_)) return;
  if ((Recorder::instance().wanted() & kWantModules) == 0) return;
  const uint32_t row = row_of_instance(optimizers, optimizer, /*is_module=*/false);
  const uint64_t key = reinterpret_cast<uintptr_t>(optimizer);
  begin_call(cache->log, {RecordKind::kOptimizerCall, key, frames.optimizer_row(), -1, row});
  cache->log.close_span(key, now_ticks());
}

// The parent may have forked while another thread was configuring.
void PythonCalls::forked() {
  new (&configuring_) std::recursive_mutex;
  windows_forked();
  pending_wants_ = 0;
  configure(0);
}

void PythonCalls::forget() {
  Recorder::instance().journal().forget();
  frames.forget();
  modules.forget();
  optimizers.forget();
}

}  // namespace opscope
