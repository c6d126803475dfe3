// Runs of asyncio's tasks as spans: a run is what a task does between two awaits.
//
// asyncio notes in a dictionary which task each loop is running, and from Python 3.12 on a dictionary can
// be watched: that shows tasks of any loop, also those that begin eagerly within others. Before, a task
// runs as a callback that its loop calls in a context: the C function that is contextvars.Context.run is
// exchanged then. Neither changes anything that a program could look at.
#include <Python.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstring>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "interpreter/free_threads.h"
#include "log/clock.h"
#include "log/core_api.h"
#include "log/source.h"
#include "python/owned.h"
#include "python/python_calls.h"
#include "python/python_own_code.h"
#include "python/python_running_threads.h"
#include "python/weak_table.h"

#if PY_VERSION_HEX >= 0x030C0000 && PY_VERSION_HEX < 0x030E0000
#define OPSCOPE_WATCHES_TASKS 1
#endif

namespace opscope {

namespace {

// What asyncio is made of; kept for good.
struct Asyncio {
  PyTypeObject* c_task = nullptr;       // tasks written in C
  PyTypeObject* python_task = nullptr;  // and those written in Python
  PyObject* get_coroutine = nullptr;    // methods of the first
  PyObject* get_name = nullptr;
  PyObject* step = nullptr;  // functions of the second, as callbacks
  PyObject* wakeup = nullptr;
  PyObject* current_tasks = nullptr;  // by loop
  PyObject* running_loop = nullptr;   // a function: the calling thread's
  PyTypeObject* handle = nullptr;
  PyObject* run = nullptr;  // its method
  PyCodeObject* code() const { return reinterpret_cast<PyCodeObject*>(PyFunction_GET_CODE(run)); }
  bool import() {
    if (run != nullptr) return true;
    const Owned tasks(PyImport_ImportModule("asyncio.tasks"));
    const Owned events(PyImport_ImportModule("asyncio.events"));
    if (!tasks || !events) return false;
    c_task = kept_type(attribute(tasks.get(), "_CTask"));
    python_task = kept_type(attribute(tasks.get(), "_PyTask"));
    handle = kept_type(attribute(events.get(), "Handle"));
    get_coroutine = kept(attribute(reinterpret_cast<PyObject*>(c_task), "get_coro"));
    get_name = kept(attribute(reinterpret_cast<PyObject*>(c_task), "get_name"));
    step = kept(attribute(reinterpret_cast<PyObject*>(python_task), "_Task__step"));
    wakeup = kept(attribute(reinterpret_cast<PyObject*>(python_task), "_Task__wakeup"));
    current_tasks = kept(attribute(tasks.get(), "_current_tasks"));
    running_loop = kept(attribute(events.get(), "_get_running_loop"));
    run = kept(attribute(reinterpret_cast<PyObject*>(handle), "_run"));
    if (run != nullptr && !PyFunction_Check(run)) Py_CLEAR(run);
    if (current_tasks != nullptr && !PyDict_CheckExact(current_tasks)) Py_CLEAR(current_tasks);
    return run != nullptr;
  }
};

constexpr auto kTaskRun = static_cast<RecordKind>(EventKind::kTaskRun);

Asyncio asyncio;

struct Task {
  Owned name;  // as it was last seen
  TaskRunPart run{0, 0, kNoName, kHiddenFrame, 0, 0};
};

// What a task has under this attribute, or says by this method; runs no Python, whatever the task's class is.
Owned told_by(PyObject* task, const char* attribute, PyObject* method) {
  PyObject* found = nullptr;
  if (is_a(task, asyncio.c_task) && method != nullptr) {
    found = PyObject_CallOneArg(method, task);
  } else if (is_a(task, asyncio.python_task)) {
    const Owned name(PyUnicode_InternFromString(attribute));
    found = name ? PyObject_GenericGetAttr(task, name.get()) : nullptr;
  }
  if (found == nullptr) PyErr_Clear();
  return Owned(found);
}

class Tasks {
 public:
  // What is known of a task, which is good until the next call.
  const Task& know(PyObject* object) {
    Task* known = tasks_.find(object);
    if (known == nullptr) {
      Task task;
      task.run.task = ++last_number_;
      describe(task, object);
      known = &tasks_.add(object, std::move(task));
    }
    read_name(*known, object);
    return *known;
  }

  void forget() { tasks_.clear(); }

 private:
  static void describe(Task& task, PyObject* object) {
    const Owned coroutine = told_by(object, "_coro", asyncio.get_coroutine);
    std::string text = "asyncio task: ";
    if (coroutine && (PyCoro_CheckExact(coroutine.get()) || PyGen_CheckExact(coroutine.get()))) {
      text += utf8(reinterpret_cast<PyGenObject*>(coroutine.get())->gi_qualname);
      const Owned code = code_of(coroutine.get());
      if (code)
        task.run.coroutine =
            PythonCalls::instance().frames.intern(reinterpret_cast<PyCodeObject*>(code.get()));
    } else {
      text += Py_TYPE(coroutine ? coroutine.get() : object)->tp_name;
    }
    if (task.run.coroutine >= kFirstSpecialFrame) task.run.coroutine = kHiddenFrame;
    task.run.text = Recorder::instance().names().intern(text);
  }

  static void read_name(Task& task, PyObject* object) {
    Owned name = told_by(object, "_name", asyncio.get_name);
    if (name.get() == task.name.get() && name) return;
    const char* const text = utf8(name.get());
    task.run.is_numbered = number_in_name(text, "Task-", &task.run.task_name) ? 1 : 0;
    if (task.run.is_numbered == 0) task.run.task_name = Recorder::instance().names().intern(text);
    task.name = std::move(name);
  }

  WeakTable<Task> tasks_;
  uint64_t last_number_ = 0;
};

Tasks& tasks() {
  static auto* all = new Tasks;
  return *all;
}

uint64_t key_of(const PyObject* task) { return reinterpret_cast<uintptr_t>(task); }
bool is_wanted() { return (Recorder::instance().wanted() & kWantAsyncio) != 0; }

// A run that began before this is known to a window as one that it found running.
uint64_t overlap_ticks = 0;

// When it began, in ticks; 0: there is no span of it.
uint64_t begin_run(PyObject* object) {
  ThreadLog* const log = is_wanted() ? Recorder::this_thread() : nullptr;
  if (log == nullptr) return 0;
  uint64_t ticks = 0;
  without_exceptions([&] {
    const Task& task = tasks().know(object);
    Recorder::instance().hear_memory(*log);
    Record* const record = log->open_span(key_of(object));
    ticks = now_ticks();
    if (record == nullptr) return;
    record->kind = kTaskRun;
    record->scope = 0;
    record->task = task.run;
    record->task.end = key_of(object);
    record->ticks = ticks;
    log->publish_span();
  });
  return ticks;
}

void end_run(uint64_t key, uint64_t began) {
  const uint64_t ticks = now_ticks();
  ThreadLog* const log = Recorder::this_thread();
  if (log == nullptr) return;
  if (began != 0) log->close_span(key, ticks);
  if (began < overlap_ticks) log->note_end(key, ticks);
}

std::vector<RunningCall> running_handles() {
  std::vector<RunningCall> found = running_calls(asyncio.code());
  std::erase_if(found,
                [](const RunningCall& call) { return !is_a(call.first_argument.get(), asyncio.handle); });
  return found;
}

// The task that a callback goes on with; none where it is another callback.
Owned task_of_callback(PyObject* callback) {
  if (callback == nullptr) return Owned();
  if (PyCFunction_CheckExact(callback)) {
    auto* const function = reinterpret_cast<PyCFunctionObject*>(callback);
    const bool is_wakeup = std::strcmp(function->m_ml->ml_name, "task_wakeup") == 0;
    return Owned(is_wakeup && is_a(function->m_self, asyncio.c_task) ? Py_NewRef(function->m_self) : nullptr);
  }
  if (PyMethod_Check(callback)) {
    PyObject* const function = PyMethod_GET_FUNCTION(callback);
    const bool is_step = function == asyncio.step || function == asyncio.wakeup;
    return Owned(is_step ? Py_NewRef(PyMethod_GET_SELF(callback)) : nullptr);
  }
  static PyTypeObject* step_type = nullptr;  // asyncio's own, which it does not name
  if (step_type == nullptr && std::strstr(Py_TYPE(callback)->tp_name, "TaskStepMethWrapper") != nullptr) {
    step_type = Py_TYPE(callback);
    Py_INCREF(reinterpret_cast<PyObject*>(step_type));
  }
  return step_type != nullptr && Py_TYPE(callback) == step_type ? attribute(callback, "__self__") : Owned();
}

Owned task_of(PyObject* handle) { return task_of_callback(attribute(handle, "_callback").get()); }

struct RunningTask {
  uint64_t native_thread;
  int64_t system_thread_id;
  Owned handle;
  Owned task;
};

void add_to(std::vector<InitialStack>& stacks, const RunningTask& running) {
  InitialFrame frame;
  frame.span.kind = kTaskRun;
  frame.span.task = tasks().know(running.task.get()).run;
  frame.span.task.end = key_of(running.task.get());
  // One that is over when its handle goes ends after the function that runs the handle.
  const uint32_t inside =
      running.handle ? PythonCalls::instance().frames.intern(asyncio.code()) : frame.span.task.coroutine;
  add_running(stacks, running.native_thread, running.system_thread_id, frame, inside);
}

#ifdef OPSCOPE_WATCHES_TASKS

struct Run {
  PyObject* task;  // an address
  uint64_t began;  // in ticks; 0: there is no span of it
  uint64_t native_thread;
};

bool hooked = false;
int watcher = -1;

// What each loop is running, by address; a task that another begins eagerly is after that.
std::unordered_map<PyObject*, std::vector<Run>>& runs() {
  static auto& all = *new std::unordered_map<PyObject*, std::vector<Run>>;
  return all;
}

int unwatch(void*) {
  if (!hooked) PyDict_Unwatch(watcher, asyncio.current_tasks);
  PyErr_Clear();
  return 0;
}

void end_last(std::vector<Run>& running) {
  const Run run = running.back();
  running.pop_back();
  end_run(key_of(run.task), run.began);
}

void end_all(PyObject* loop) {
  const auto found = runs().find(loop);
  if (found == runs().end()) return;
  while (!found->second.empty()) end_last(found->second);
  runs().erase(found);
  // Not here: the dictionary is in the middle of a change.
  if (!hooked && runs().empty()) Py_AddPendingCall(&unwatch, nullptr);
}

void begin_or_go_back(PyObject* loop, PyObject* task) {
  std::vector<Run>& running = runs()[loop];
  const size_t depth = running.size();
  if (depth >= 2 && running[depth - 2].task == task) return end_last(running);
  if (depth >= 1 && running[depth - 1].task == task) return;
  running.push_back({task, begin_run(task), static_cast<uint64_t>(pthread_self())});
}

// Of the dictionary that has the task that each loop is running.
int on_change(PyDict_WatchEvent event, PyObject* dictionary, PyObject* loop, PyObject* task) {
  if (dictionary != asyncio.current_tasks || loop == nullptr) return 0;
  PyObject* const error = PyErr_GetRaisedException();
  without_exceptions([&] {
    if (event == PyDict_EVENT_ADDED || event == PyDict_EVENT_DELETED) end_all(loop);
    const bool is_set = event == PyDict_EVENT_ADDED || event == PyDict_EVENT_MODIFIED;
    if (is_set && hooked) begin_or_go_back(loop, task);
  });
  PyErr_SetRaisedException(error);
  return 0;
}

// What runs on which thread, the outermost first. How many cannot be told is added to `unplaced`.
std::vector<RunningTask> running_tasks(uint64_t* unplaced) {
  std::vector<RunningTask> found;
  const std::vector<RunningCall> handles = running_handles();
  const Owned own_loop(asyncio.running_loop == nullptr ? nullptr : PyObject_CallNoArgs(asyncio.running_loop));
  PyObject *loop = nullptr, *task = nullptr;
  for (Py_ssize_t at = 0; PyDict_Next(asyncio.current_tasks, &at, &loop, &task) != 0;) {
    const size_t before = found.size();
    for (const RunningCall& running : handles) {
      if (attribute(running.first_argument.get(), "_loop").get() != loop) continue;
      Owned outer = task_of(running.first_argument.get());
      if (outer)
        found.push_back({running.native_thread, running.system_thread_id, Owned(), std::move(outer)});
    }
    if (found.size() > before && found.back().task.get() == task) continue;
    if (found.size() > before) {
      found.push_back(
          {found.back().native_thread, found.back().system_thread_id, Owned(), Owned(Py_NewRef(task))});
    } else if (loop == own_loop.get()) {
      found.push_back({static_cast<uint64_t>(pthread_self()), static_cast<int64_t>(syscall(SYS_gettid)),
                       Owned(), Owned(Py_NewRef(task))});
    } else {
      ++*unplaced;
    }
  }
  PyErr_Clear();
  return found;
}

bool hook() {
  if (asyncio.current_tasks == nullptr || threads_are_free()) return false;
  if (watcher < 0) watcher = PyDict_AddWatcher(&on_change);
  if (watcher < 0 || PyDict_Watch(watcher, asyncio.current_tasks) != 0) return false;
  hooked = true;
  PyObject *loop = nullptr, *task = nullptr;
  for (Py_ssize_t at = 0; PyDict_Next(asyncio.current_tasks, &at, &loop, &task) != 0;) {
    std::vector<Run>& running = runs()[loop];
    if (!running.empty()) continue;
    for (const RunningCall& handle : running_handles()) {
      const Owned outer = task_of(handle.first_argument.get());
      const bool is_outer = outer && outer.get() != task;
      if (is_outer && attribute(handle.first_argument.get(), "_loop").get() == loop)
        running.push_back({outer.get(), 0, 0});
    }
    running.push_back({task, 0, 0});
  }
  return true;
}

// Spans that other threads have open are ended by those.
void unhook() {
  hooked = false;
  const auto here = static_cast<uint64_t>(pthread_self());
  for (auto entry = runs().begin(); entry != runs().end();) {
    std::vector<Run>& running = entry->second;
    while (!running.empty() && (running.back().began == 0 || running.back().native_thread == here))
      end_last(running);
    entry = running.empty() ? runs().erase(entry) : std::next(entry);
  }
  if (runs().empty()) unwatch(nullptr);
}

// In a forked child: what other threads were running has gone with them.
void forget_runs() { runs().clear(); }

void note_ends(const std::vector<RunningTask>&) {}

#else

using ContextRun = PyObject* (*)(PyObject*, PyObject* const*, Py_ssize_t, PyObject*);
ContextRun original_run = nullptr;  // what contextvars.Context.run is in C

PyObject* on_context_run(PyObject* self, PyObject* const* args, Py_ssize_t count, PyObject* names) {
  const ContextRun run = original_run;  // collecting garbage here may close the last window, and unhook
  const Owned task = count > 0 && is_wanted() ? task_of_callback(args[0]) : Owned();
  const uint64_t began = task ? begin_run(task.get()) : 0;
  PyObject* const result = run(self, args, count, names);
  if (began != 0) without_exceptions([&] { end_run(key_of(task.get()), began); });
  return result;
}

// The definition of Context.run, nullptr where it is not as it is known to be.
PyMethodDef* context_run() {
  PyObject* const method = PyDict_GetItemString(PyContext_Type.tp_dict, "run");
  if (method == nullptr || Py_TYPE(method) != &PyMethodDescr_Type) return nullptr;
  PyMethodDef* const found = reinterpret_cast<PyMethodDescrObject*>(method)->d_method;
  return found->ml_flags == (METH_FASTCALL | METH_KEYWORDS) ? found : nullptr;
}

// Handles that were running when a window opened tell by going when their run is over.
std::unordered_map<PyObject*, std::pair<PyObject*, uint64_t>>& running_references() {
  static auto& all = *new std::unordered_map<PyObject*, std::pair<PyObject*, uint64_t>>;
  return all;
}

PyObject* on_handle_gone(PyObject*, PyObject* reference) {
  const auto found = running_references().find(reference);
  if (found == running_references().end()) Py_RETURN_NONE;
  const uint64_t key = found->second.second;
  running_references().erase(found);
  if (ThreadLog* const log = Recorder::this_thread(); log != nullptr) log->note_end(key, now_ticks());
  Py_DECREF(reference);
  Py_RETURN_NONE;
}
PyMethodDef on_handle_gone_def = {"opscope_run_ended", &on_handle_gone, METH_O, nullptr};

std::vector<RunningTask> running_tasks(uint64_t*) {
  std::vector<RunningTask> found;
  for (RunningCall& running : running_handles()) {
    Owned task = task_of(running.first_argument.get());
    if (!task) continue;
    found.push_back({running.native_thread, running.system_thread_id, std::move(running.first_argument),
                     std::move(task)});
  }
  return found;
}

void note_ends(const std::vector<RunningTask>& running) {
  static PyObject* const callback = PyCFunction_New(&on_handle_gone_def, nullptr);
  for (const RunningTask& run : running) {
    PyObject* const reference = PyWeakref_NewRef(run.handle.get(), callback);
    if (reference == nullptr) {
      PyErr_Clear();
    } else {
      running_references().emplace(reference, std::pair(reference, key_of(run.task.get())));
    }
  }
}

bool hook() {
  PyMethodDef* const method = context_run();
  if (method == nullptr) return false;
  original_run = reinterpret_cast<ContextRun>(reinterpret_cast<void (*)()>(method->ml_meth));
  method->ml_meth = reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(&on_context_run));
  return true;
}

void unhook() {
  if (original_run == nullptr) return;
  context_run()->ml_meth = reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(original_run));
  original_run = nullptr;
}

void forget_runs() { running_references().clear(); }

#endif

class AsyncioTasks final : public Source {
 public:
  void configure(uint32_t also) override {
    const bool on = ((Recorder::instance().wanted() | also) & kWantAsyncio) != 0;
    if (process_ != getpid()) {
      process_ = getpid();
      forget_runs();
    }
    if (on == is_on_) return;
    OwnCode own;
    is_on_ = on;
    if (!on) {
      unhook();
      overlap_ticks = 0;
    } else {
      is_hooked_ = asyncio.import() && hook();
    }
    own.clear_error();
  }

  void begin_window(Window& window, std::vector<InitialStack>& running) override {
    if ((window.wants & kWantAsyncio) == 0 || !is_hooked_) return;
    overlap_ticks = now_ticks();
    uint64_t unplaced = 0;  // it is not known where these run
    const std::vector<RunningTask> found = running_tasks(&unplaced);
    note(window, "not seen: running already, on a thread that is not known", unplaced);
    for (const RunningTask& task : found) add_to(running, task);
    note_ends(found);
  }

  void end_window(Window& window) override {
    if ((window.wants & kWantAsyncio) == 0) return;
    note(window,
         threads_are_free() ? "not seen: they are with PYTHON_GIL=1 alone"
                            : "not seen: this Python does not tell of them",
         is_hooked_ ? 0 : 1);
#ifndef OPSCOPE_WATCHES_TASKS
    const bool has_uvloop = PyDict_GetItemString(PyImport_GetModuleDict(), "uvloop") != nullptr;
    note(window, "not seen: those of uvloop, which Python tells of in 3.12 and 3.13 only",
         has_uvloop ? 1 : 0);
    note(window, "not seen: first runs of eager tasks", PY_VERSION_HEX >= 0x030C0000 ? 1 : 0);
#endif
  }

  void forget() override { tasks().forget(); }

 private:
  static void note(Window& window, const char* what, uint64_t value) {
    if (value != 0) window.notes.push_back({"asyncio tasks", what, static_cast<double>(value)});
  }

  pid_t process_ = getpid();
  bool is_on_ = false;
  bool is_hooked_ = false;
};

const ListedSource listed_tasks(2, []() -> Source& {
  static auto* source = new AsyncioTasks;
  return *source;
});

}  // namespace

}  // namespace opscope
