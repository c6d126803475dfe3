// Spans of asyncio task runs: a run is the work of a task between two awaits.
#include <Python.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "interpreter/free_threads.h"
#include "log/clock.h"
#include "log/core_api.h"
#include "log/source.h"
#include "python/asyncio_runs.h"
#include "python/python_calls.h"
#include "python/python_own_code.h"
#include "python/python_running_frame.h"

namespace opscope {

Asyncio asyncio;

bool Asyncio::import() {
  if (run != nullptr) return true;
  const Owned tasks(PyImport_ImportModule("asyncio.tasks"));
  const Owned events(PyImport_ImportModule("asyncio.events"));
  if (!tasks || !events) return false;
  c_task = kept_type(attribute(tasks.get(), "_CTask"));
  python_task = kept_type(attribute(tasks.get(), "_PyTask"));
  handle = kept_type(attribute(events.get(), "Handle"));
  get_coroutine = kept(attribute(reinterpret_cast<PyObject*>(c_task), "get_coro"));
  get_context = kept(attribute(reinterpret_cast<PyObject*>(c_task), "get_context"));
  get_name = kept(attribute(reinterpret_cast<PyObject*>(c_task), "get_name"));
  step = kept(attribute(reinterpret_cast<PyObject*>(python_task), "_Task__step"));
  wakeup = kept(attribute(reinterpret_cast<PyObject*>(python_task), "_Task__wakeup"));
  first_step = kept(attribute(reinterpret_cast<PyObject*>(python_task), "_Task__step_run_and_handle_result"));
  current_tasks = kept(attribute(tasks.get(), "_current_tasks"));
  current_task = kept(attribute(tasks.get(), "_c_current_task"));
  running_loop = kept(attribute(events.get(), "_get_running_loop"));
  all_tasks = kept(attribute(tasks.get(), "all_tasks"));
  run = kept(attribute(reinterpret_cast<PyObject*>(handle), "_run"));
  if (run != nullptr && !PyFunction_Check(run)) Py_CLEAR(run);
  if (current_tasks != nullptr && !PyDict_CheckExact(current_tasks)) Py_CLEAR(current_tasks);
  return run != nullptr;
}

namespace {

constexpr auto kTaskRun = static_cast<RecordKind>(EventKind::kTaskRun);

struct Task {
  Owned reference;  // weak
  Owned name;       // as last seen
  TaskRunPart run{0, 0, kNoName, kHiddenFrame, 0, 0};
};

// Attribute of a task, or result of a method. Runs no Python for any class of task.
Owned task_attribute(PyObject* task, const char* attribute, PyObject* method) {
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

bool is_of_python(PyObject* coroutine) {
  return coroutine != nullptr && (PyCoro_CheckExact(coroutine) || PyGen_CheckExact(coroutine));
}

}  // namespace

Owned coroutine_of(PyObject* task) { return task_attribute(task, "_coro", asyncio.get_coroutine); }

namespace {

// By address; a weak reference shows when another task has the address. Keeps no task alive. [GIL]
class Tasks {
 public:
  // Facts of a task, valid until the next call. A task without weak references is a new one each time.
  const Task& know(PyObject* object) {
    const auto found = by_address_.find(object);
    const bool is_known = found != by_address_.end() && is_alive(found->second, object);
    Task& task = is_known ? found->second : add(object);
    read_name(task, object);
    return task;
  }

  void forget() {
    std::unordered_map<PyObject*, Task> dropped;  // freeing names may run Python
    dropped.swap(by_address_);
    text_of_function_.clear();
    sweep_at_ = kFirstSweep;
  }

 private:
  static bool is_alive(const Task& task, PyObject* object) {
    if (!task.reference) return false;
#if PY_VERSION_HEX >= 0x030D0000
    PyObject* target = nullptr;
    PyWeakref_GetRef(task.reference.get(), &target);
    Py_XDECREF(target);
    return target == object;
#else
    return PyWeakref_GET_OBJECT(task.reference.get()) == object;
#endif
  }

  Task& add(PyObject* object) {
    if (by_address_.size() >= sweep_at_) {  // now and then, so that each add() stays cheap
      std::erase_if(by_address_, [](const auto& entry) { return !is_alive(entry.second, entry.first); });
      sweep_at_ = std::max(kFirstSweep, 2 * by_address_.size());
    }
    Task task{Owned(PyWeakref_NewRef(object, nullptr))};
    if (!task.reference) PyErr_Clear();
    task.run.task = ++last_number_;
    describe(task, object);
    return by_address_.insert_or_assign(object, std::move(task)).first->second;
  }

  void describe(Task& task, PyObject* object) {
    const Owned coroutine = coroutine_of(object);
    if (!is_of_python(coroutine.get())) {
      task.run.text = text_of(Py_TYPE(coroutine ? coroutine.get() : object)->tp_name);
      return;
    }
    static PyObject* const qualname = PyUnicode_InternFromString("__qualname__");
    Owned function(PyObject_GenericGetAttr(coroutine.get(), qualname));
    if (!function) PyErr_Clear();
    task.run.text = text_of_function(std::move(function));
    const Owned code = code_of(coroutine.get());
    if (code)
      task.run.coroutine = PythonCalls::instance().frames.intern(reinterpret_cast<PyCodeObject*>(code.get()));
    if (task.run.coroutine >= kFirstSpecialFrame) task.run.coroutine = kHiddenFrame;
  }

  static uint32_t text_of(const char* name) {
    return Recorder::instance().names().intern(std::string("asyncio task: ") + name);
  }

  // Coroutines of one function share the string with its name: 1,600 of 5,200 instructions less for each
  // task.
  uint32_t text_of_function(Owned function) {
    const auto found = text_of_function_.find(function.get());
    if (found != text_of_function_.end()) return found->second.second;
    if (text_of_function_.size() >= kMostFunctions) text_of_function_.clear();
    const uint32_t text = text_of(utf8(function.get()));
    PyObject* const address = function.get();
    text_of_function_.emplace(address, std::pair(std::move(function), text));
    return text;
  }

  static void read_name(Task& task, PyObject* object) {
    Owned name = task_attribute(object, "_name", asyncio.get_name);
    if (name.get() == task.name.get() && name) return;
    const char* const text = utf8(name.get());
    task.run.is_numbered = number_in_name(text, "Task-", &task.run.task_name) ? 1 : 0;
    if (task.run.is_numbered == 0) task.run.task_name = Recorder::instance().names().intern(text);
    task.name = std::move(name);
  }

  static constexpr size_t kMostFunctions = 4096;
  static constexpr size_t kFirstSweep = 1024;
  std::unordered_map<PyObject*, Task> by_address_;
  size_t sweep_at_ = kFirstSweep;
  std::unordered_map<PyObject*, std::pair<Owned, uint32_t>> text_of_function_;  // by string, kept alive
  uint64_t last_number_ = 0;
};

Tasks& tasks() {
  static auto* all = new Tasks;
  return *all;
}

// Windows list a run that began before this time as already running.
uint64_t overlap_ticks = 0;

}  // namespace

uint64_t task_key(const PyObject* task) { return reinterpret_cast<uintptr_t>(task); }

bool tasks_are_wanted() { return (Recorder::instance().wanted() & kWantAsyncio) != 0; }

uint64_t begin_task_run(PyObject* object) {
  ThreadLog* const log = tasks_are_wanted() ? Recorder::this_thread() : nullptr;
  if (log == nullptr) return 0;
  uint64_t ticks = 0;
  without_exceptions([&] {
    const Task& task = tasks().know(object);
    Record* const record = log->open_span(task_key(object));
    ticks = now_ticks();
    if (record == nullptr) return;
    record->kind = kTaskRun;
    record->scope = 0;
    record->task = task.run;
    record->task.end = task_key(object);
    record->ticks = ticks;
    log->publish_span();
  });
  return ticks;
}

void end_task_run(uint64_t key, uint64_t began) {
  const uint64_t ticks = now_ticks();
  ThreadLog* const log = Recorder::this_thread();
  if (log == nullptr) return;
  if (began != 0) log->close_span(key, ticks);
  if (began < overlap_ticks) log->note_end(key, ticks);
}

void note_task_end(uint64_t key) {
  if (ThreadLog* const log = Recorder::this_thread(); log != nullptr) log->note_end(key, now_ticks());
}

std::vector<RunningCall> running_handles() {
  std::vector<RunningCall> found = running_calls(asyncio.code());
  std::erase_if(found,
                [](const RunningCall& call) { return !is_a(call.first_argument.get(), asyncio.handle); });
  return found;
}

Owned task_of_callback(PyObject* callback) {
  if (callback == nullptr) return Owned();
  if (PyCFunction_CheckExact(callback)) {
    auto* const function = reinterpret_cast<PyCFunctionObject*>(callback);
    const bool is_wakeup = std::strcmp(function->m_ml->ml_name, "task_wakeup") == 0;
    return Owned(is_wakeup && is_a(function->m_self, asyncio.c_task) ? Py_NewRef(function->m_self) : nullptr);
  }
  if (PyMethod_Check(callback)) {
    PyObject* const function = PyMethod_GET_FUNCTION(callback);
    const bool is_step =
        function == asyncio.step || function == asyncio.wakeup || function == asyncio.first_step;
    return Owned(is_step ? Py_NewRef(PyMethod_GET_SELF(callback)) : nullptr);
  }
  static PyTypeObject* step_type = nullptr;  // asyncio's own type, which has no public name
  if (step_type == nullptr && std::strstr(Py_TYPE(callback)->tp_name, "TaskStepMethWrapper") != nullptr) {
    step_type = Py_TYPE(callback);
    Py_INCREF(reinterpret_cast<PyObject*>(step_type));
  }
  if (step_type == nullptr || Py_TYPE(callback) != step_type) return Owned();
  static PyObject* const self = PyUnicode_InternFromString("__self__");
  return Owned(PyObject_GenericGetAttr(callback, self));
}

Owned task_of(PyObject* handle) { return task_of_callback(attribute(handle, "_callback").get()); }

Owned own_loop() {
  PyObject* const loop =
      asyncio.running_loop == nullptr ? nullptr : PyObject_CallNoArgs(asyncio.running_loop);
  if (loop == nullptr) PyErr_Clear();
  return Owned(loop);
}

namespace {

bool is_running_here(const void* wanted) {
  RunningFrame frame = RunningFrame::current(PyThreadState_Get());
  while (frame && frame.address() != wanted) frame = frame.caller();
  return static_cast<bool>(frame);
}

}  // namespace

const void* frame_of_task(PyObject* task) {
  const Owned coroutine = coroutine_of(task);
  if (!is_of_python(coroutine.get())) return nullptr;
  const void* const frame = cpython::frame_of_generator(coroutine.get());
  // A task written in Python runs its coroutine in a function of its own.
  const bool has_function = is_a(task, asyncio.python_task) && asyncio.first_step != nullptr &&
                            PyFunction_Check(asyncio.first_step) && is_running_here(frame);
  if (!has_function) return frame;
  const RunningFrame caller = RunningFrame(static_cast<cpython::Frame*>(const_cast<void*>(frame))).caller();
  const auto* const function = reinterpret_cast<PyCodeObject*>(PyFunction_GET_CODE(asyncio.first_step));
  return caller && caller.code() == function ? caller.address() : frame;
}

std::vector<Owned> nested_tasks() {
  constexpr int kOfGenerator = CO_COROUTINE | CO_GENERATOR;
  std::unordered_map<const void*, size_t> depths;  // 0 is the innermost
  for (RunningFrame frame = RunningFrame::current(PyThreadState_Get()); frame; frame = frame.caller()) {
    if ((frame.code()->co_flags & kOfGenerator) != 0) depths.emplace(frame.address(), depths.size());
  }
  const Owned loop = own_loop();
  if (depths.size() < 2 || !loop || loop.get() == Py_None || asyncio.all_tasks == nullptr) return {};
  std::vector<std::pair<size_t, Owned>> found;
  const Owned tasks(PyObject_CallOneArg(asyncio.all_tasks, loop.get()));
  const Owned iterator(tasks ? PyObject_GetIter(tasks.get()) : nullptr);
  while (Owned task{iterator ? PyIter_Next(iterator.get()) : nullptr}) {
    const Owned coroutine = coroutine_of(task.get());
    if (!is_of_python(coroutine.get())) continue;
    const auto depth = depths.find(cpython::frame_of_generator(coroutine.get()));
    if (depth != depths.end()) found.emplace_back(depth->second, std::move(task));
  }
  PyErr_Clear();
  std::sort(found.begin(), found.end(), [](const auto& a, const auto& b) { return a.first > b.first; });
  std::vector<Owned> nested;
  for (auto& [depth, task] : found) nested.push_back(std::move(task));
  return nested;
}

void note_unseen(Window& window, const char* what, uint64_t count) {
  if (count != 0) window.notes.push_back({"asyncio tasks", what, static_cast<double>(count)});
}

namespace {

void add_to(std::vector<InitialStack>& stacks, const RunningTask& running) {
  InitialFrame frame;
  frame.span.kind = kTaskRun;
  frame.span.task = tasks().know(running.task.get()).run;
  frame.span.task.end = task_key(running.task.get());
  add_running(stacks, running.native_thread, running.system_thread_id, frame, running.frame);
}

class AsyncioTasks final : public Source {
 public:
  void configure(uint32_t also) override {
    const bool on = ((Recorder::instance().wanted() | also) & kWantAsyncio) != 0;
    if (process_ != getpid()) {
      process_ = getpid();
      forget_task_runs();
    }
    if (on == is_on_) return;
    OwnCode own;
    is_on_ = on;
    if (!on) {
      unhook_task_runs();
      overlap_ticks = 0;
    } else {
      is_hooked_ = asyncio.import() && hook_task_runs();
    }
    own.clear_error();
  }

  void begin_window(Window& window, std::vector<InitialStack>& running) override {
    if ((window.wants & kWantAsyncio) == 0 || !is_hooked_) return;
    overlap_ticks = now_ticks();
    uint64_t unplaced = 0;  // runs on unknown threads
    const std::vector<RunningTask> found = running_tasks(&unplaced);
    note_unseen(window, "not recorded: tasks under way at the start, on an unknown thread", unplaced);
    for (const RunningTask& task : found) add_to(running, task);
  }

  void end_window(Window& window) override {
    if ((window.wants & kWantAsyncio) == 0) return;
    note_unseen(window,
                threads_are_free() ? "not recorded: this needs PYTHON_GIL=1"
                                   : "not recorded: not supported for this Python",
                is_hooked_ ? 0 : 1);
    note_unseen_runs(window);
  }

  void forget() override { tasks().forget(); }

 private:
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
