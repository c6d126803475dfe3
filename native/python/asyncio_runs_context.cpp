#include "python/asyncio_runs.h"

#ifndef OPSCOPE_WATCHES_RUNNING_TASKS

#include <pthread.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <unordered_map>
#include <utility>

#include "interpreter/free_threads.h"
#include "python/python_calls.h"

namespace opscope {

namespace {

using ContextRun = PyObject* (*)(PyObject*, PyObject* const*, Py_ssize_t, PyObject*);
ContextRun original_run = nullptr;  // C function of contextvars.Context.run

// [GIL] Runs inside on_context_run(), of all threads; they end also after windows closed and opened.
// Each entry lies on its thread's stack.
struct ActiveRun {
  uint64_t key;
  pthread_t thread = pthread_self();
  ActiveRun* next = nullptr;
  ActiveRun* previous = nullptr;
};
ActiveRun* active_runs = nullptr;

void link(ActiveRun& run) {
  run.next = active_runs;
  if (run.next != nullptr) run.next->previous = &run;
  active_runs = &run;
}

void unlink(const ActiveRun& run) {
  (run.previous != nullptr ? run.previous->next : active_runs) = run.next;
  if (run.next != nullptr) run.next->previous = run.previous;
}

bool is_active(uint64_t key) {
  const ActiveRun* run = active_runs;
  while (run != nullptr && run->key != key) run = run->next;
  return run != nullptr;
}

// In a forked child: keeps the entries of this thread; the stacks of other threads may be reused.
void forget_active_runs() {
  ActiveRun* run = std::exchange(active_runs, nullptr);
  while (run != nullptr) {
    ActiveRun& kept = *run;
    run = run->next;
    kept.previous = kept.next = nullptr;
    if (pthread_equal(kept.thread, pthread_self()) != 0) link(kept);
  }
}

PyObject* on_context_run(PyObject* self, PyObject* const* args, Py_ssize_t count, PyObject* names) {
  const ContextRun run = original_run;  // a collection here may close the last window and so unhook
  const Owned task = count > 0 && tasks_are_wanted() ? task_of_callback(args[0]) : Owned();
  const uint64_t began = task ? begin_task_run(task.get()) : 0;
  if (began == 0) return run(self, args, count, names);
  ActiveRun task_run{task_key(task.get())};
  link(task_run);
  PyObject* const result = run(self, args, count, names);
  unlink(task_run);
  without_exceptions([&] { end_task_run(task_run.key, began); });
  return result;
}

// Definition of Context.run; nullptr if its calling convention is unknown.
PyMethodDef* context_run() {
  const Owned method = attribute(reinterpret_cast<PyObject*>(&PyContext_Type), "run");
  if (!method || Py_TYPE(method.get()) != &PyMethodDescr_Type) return nullptr;
  PyMethodDef* const found = reinterpret_cast<PyMethodDescrObject*>(method.get())->d_method;
  return found->ml_flags == (METH_FASTCALL | METH_KEYWORDS) ? found : nullptr;
}

// Weak references to handles that were running when a window opened: a run ends when its handle is freed.
std::unordered_map<PyObject*, std::pair<PyObject*, uint64_t>>& running_references() {
  static auto& all = *new std::unordered_map<PyObject*, std::pair<PyObject*, uint64_t>>;
  return all;
}

// Whether the task's run began before the recording and has not ended.
bool ends_with_handle(uint64_t key) {
  return std::any_of(running_references().begin(), running_references().end(),
                     [key](const auto& entry) { return entry.second.second == key; });
}

PyObject* on_handle_gone(PyObject*, PyObject* reference) {
  const auto found = running_references().find(reference);
  if (found == running_references().end()) Py_RETURN_NONE;
  const uint64_t key = found->second.second;
  running_references().erase(found);
  note_task_end(key);
  Py_DECREF(reference);
  Py_RETURN_NONE;
}
PyMethodDef on_handle_gone_def = {"opscope_run_ended", &on_handle_gone, METH_O, nullptr};

// Watches handles whose runs began before the recording, to record the ends of these runs.
void note_handles() {
  static PyObject* const callback = PyCFunction_New(&on_handle_gone_def, nullptr);
  for (const RunningCall& running : running_handles()) {
    const Owned task = task_of(running.first_argument.get());
    const uint64_t key = task ? task_key(task.get()) : 0;
    if (!task || is_active(key) || ends_with_handle(key)) continue;
    PyObject* const reference = PyWeakref_NewRef(running.first_argument.get(), callback);
    if (reference == nullptr) {
      PyErr_Clear();
    } else {
      running_references().emplace(reference, std::pair(reference, key));
    }
  }
}

#if PY_VERSION_HEX >= 0x030E0000

// A task that begins eagerly runs inside another task's run, without a callback. Python sets it as the
// running task, then sets its context as current, then starts its coroutine.

struct EagerRun {
  Owned task;
  Owned coroutine;
  uint64_t began;  // in ticks; 0: there is no span
  int64_t system_thread_id;
};

bool is_hooked = false;
int watcher = -1;

// By thread, the outermost first.
std::unordered_map<uint64_t, std::vector<EagerRun>>& eager_runs() {
  static auto& all = *new std::unordered_map<uint64_t, std::vector<EagerRun>>;
  return all;
}

uint64_t this_thread() { return static_cast<uint64_t>(pthread_self()); }

int unwatch(void*) {
  if (is_hooked || watcher < 0 || !eager_runs().empty()) return 0;
  PyContext_ClearWatcher(watcher);
  watcher = -1;
  PyErr_Clear();
  return 0;
}

enum class Coroutine { kUnknown, kRuns, kWaits };

Coroutine state_of(PyObject* coroutine) {
  if (coroutine == nullptr || !(PyCoro_CheckExact(coroutine) || PyGen_CheckExact(coroutine)))
    return Coroutine::kUnknown;
  const Owned runs = attribute(coroutine, PyCoro_CheckExact(coroutine) ? "cr_running" : "gi_running");
  return runs.get() == Py_True ? Coroutine::kRuns : Coroutine::kWaits;
}

// Task that this thread's loop is running, or null.
Owned current_task() {
  const Owned loop = own_loop();
  if (!loop || loop.get() == Py_None || asyncio.current_task == nullptr) return Owned();
  PyObject* const task = PyObject_CallNoArgs(asyncio.current_task);
  if (task == nullptr) PyErr_Clear();
  Owned found(task);
  return is_a(found.get(), asyncio.c_task) ? std::move(found) : Owned();
}

// Ends eager runs of this thread whose coroutines wait or are done.
void end_eager_runs() {
  const auto found = eager_runs().find(this_thread());
  if (found == eager_runs().end()) return;
  std::vector<EagerRun>& running = found->second;
  while (!running.empty() && state_of(running.back().coroutine.get()) == Coroutine::kWaits) {
    const EagerRun run = std::move(running.back());
    running.pop_back();
    end_task_run(task_key(run.task.get()), run.began);
  }
  if (!running.empty()) return;
  eager_runs().erase(found);
  // Deferred: Python is calling this watcher now.
  if (!is_hooked && eager_runs().empty()) Py_AddPendingCall(&unwatch, nullptr);
}

void push_eager_run(Owned task, Owned coroutine, uint64_t began) {
  eager_runs()[this_thread()].push_back(
      {std::move(task), std::move(coroutine), began, static_cast<int64_t>(syscall(SYS_gettid))});
}

// Count of tasks that may have begun eagerly: their coroutines do not report whether they run.
uint64_t unknown_coroutines = 0;

// Begins an eager run of the running task if its coroutine has not yet started in this context.
void begin_eager_run(PyObject* context) {
  Owned task = current_task();
  if (!task || asyncio.get_context == nullptr) return;
  const Owned its_context(PyObject_CallOneArg(asyncio.get_context, task.get()));
  if (!its_context) PyErr_Clear();
  if (its_context.get() != context) return;
  Owned coroutine = coroutine_of(task.get());
  const Coroutine state = state_of(coroutine.get());
  if (state == Coroutine::kUnknown) ++unknown_coroutines;
  if (state != Coroutine::kWaits) return;
  const uint64_t began = begin_task_run(task.get());
  push_eager_run(std::move(task), std::move(coroutine), began);
}

int on_context_switch(PyContextEvent, PyObject* context) {
  PyObject* const error = PyErr_GetRaisedException();
  without_exceptions([&] {
    end_eager_runs();
    if (is_hooked) begin_eager_run(context);
  });
  PyErr_SetRaisedException(error);
  return 0;
}

// Count of threads that were running tasks when the hooks were installed; any may have an eager run.
uint64_t threads_with_unseen_runs = 0;

void hook_eager_runs() {
  if (watcher < 0) watcher = PyContext_AddWatcher(&on_context_switch);
  is_hooked = watcher >= 0;
  PyErr_Clear();
  const std::vector<RunningCall> handles = running_handles();
  threads_with_unseen_runs =
      static_cast<uint64_t>(std::count_if(handles.begin(), handles.end(), [](const auto& call) {
        return call.native_thread != this_thread() && task_of(call.first_argument.get());
      }));
  if (!is_hooked || eager_runs().contains(this_thread())) return;
  for (Owned& task : nested_tasks()) {
    const bool is_of_handle = std::any_of(handles.begin(), handles.end(), [&task](const RunningCall& call) {
      return task_of(call.first_argument.get()).get() == task.get();
    });
    Owned coroutine = coroutine_of(task.get());
    if (!is_of_handle) push_eager_run(std::move(task), std::move(coroutine), 0);
  }
}

// Other threads end their open spans themselves.
void unhook_eager_runs() {
  is_hooked = false;
  const auto found = eager_runs().find(this_thread());
  if (found != eager_runs().end()) {
    std::vector<EagerRun> running = std::move(found->second);
    eager_runs().erase(found);
    for (auto run = running.rbegin(); run != running.rend(); ++run)
      end_task_run(task_key(run->task.get()), run->began);
  }
  unwatch(nullptr);
}

// Adds this thread's run even if it began before the recording.
void add_eager_runs(std::vector<RunningTask>& found) {
  Owned own = current_task();
  const bool is_known = !own || std::any_of(found.begin(), found.end(), [&](const RunningTask& running) {
    return running.task.get() == own.get();
  });
  const auto here = eager_runs().find(this_thread());
  const bool is_noted =
      here != eager_runs().end() && !here->second.empty() && here->second.back().task.get() == own.get();
  if (!is_known && !is_noted && is_hooked) {
    Owned coroutine = coroutine_of(own.get());
    if (state_of(coroutine.get()) == Coroutine::kRuns) {
      push_eager_run(std::move(own), std::move(coroutine), 0);
    } else {
      ++unknown_coroutines;
    }
  }
  for (const auto& [thread, running] : eager_runs()) {
    for (const EagerRun& run : running) {
      found.push_back(
          {thread, run.system_thread_id, frame_of_task(run.task.get()), Owned(Py_NewRef(run.task.get()))});
    }
  }
}

void note_unseen_eager_runs(Window& window) {
  note_unseen(window, "not recorded: first runs of eager tasks, possibly under way at the start",
              std::exchange(threads_with_unseen_runs, 0));
  note_unseen(window,
              "not recorded: possibly first runs of eager tasks whose coroutine is not a Python coroutine",
              std::exchange(unknown_coroutines, 0));
  note_unseen(window, "not recorded: first runs of eager tasks", is_hooked ? 0 : 1);
}

void forget_eager_runs() {
  auto kept = eager_runs().extract(this_thread());
  eager_runs().clear();
  if (!kept.empty()) eager_runs().insert(std::move(kept));
}

#else

void hook_eager_runs() {}
void unhook_eager_runs() {}
void forget_eager_runs() {}
void note_unseen_eager_runs(Window&) {}
void add_eager_runs(std::vector<RunningTask>&) {}

#endif

}  // namespace

std::vector<RunningTask> running_tasks(uint64_t*) {
  std::vector<RunningTask> found;
  for (RunningCall& running : running_handles()) {
    Owned task = task_of(running.first_argument.get());
    if (!task) continue;
    if (ends_with_handle(task_key(task.get()))) {  // after Handle._run
      found.push_back({running.native_thread, running.system_thread_id, running.frame, std::move(task)});
    } else {
      const void* const frame = frame_of_task(task.get());
      found.push_back({running.native_thread, running.system_thread_id, frame, std::move(task)});
    }
  }
  add_eager_runs(found);
  return found;
}

bool hook_task_runs() {
  PyMethodDef* const method = context_run();
  if (method == nullptr || threads_are_free()) return false;
  original_run = reinterpret_cast<ContextRun>(reinterpret_cast<void (*)()>(method->ml_meth));
  method->ml_meth = reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(&on_context_run));
  note_handles();
  hook_eager_runs();
  return true;
}

void unhook_task_runs() {
  if (original_run == nullptr) return;
  context_run()->ml_meth = reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(original_run));
  original_run = nullptr;
  unhook_eager_runs();
}

void forget_task_runs() {
  running_references().clear();
  forget_active_runs();
  forget_eager_runs();
}

void note_unseen_runs(Window& window) {
  const bool has_uvloop = PyDict_GetItemString(PyImport_GetModuleDict(), "uvloop") != nullptr;
  note_unseen(window, "not recorded: tasks of uvloop, which need Python 3.12 or 3.13", has_uvloop ? 1 : 0);
  note_unseen_eager_runs(window);
}

}  // namespace opscope

#endif
