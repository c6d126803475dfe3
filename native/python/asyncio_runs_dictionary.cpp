#include "python/asyncio_runs.h"

#ifdef OPSCOPE_WATCHES_RUNNING_TASKS

#include <pthread.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <unordered_map>
#include <utility>

#include "interpreter/free_threads.h"
#include "python/python_calls.h"

namespace opscope {

namespace {

struct Run {
  PyObject* task;  // used as an address only
  uint64_t began;  // in ticks; 0: there is no span
  uint64_t native_thread;
};

bool hooked = false;
int watcher = -1;

// By address of the loop: the tasks that it is running; an eager task follows the task that began it.
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
  end_task_run(task_key(run.task), run.began);
}

void end_all(PyObject* loop) {
  const auto found = runs().find(loop);
  if (found == runs().end()) return;
  while (!found->second.empty()) end_last(found->second);
  runs().erase(found);
  // Deferred: the dictionary is changing now.
  if (!hooked && runs().empty()) Py_AddPendingCall(&unwatch, nullptr);
}

void begin_or_go_back(PyObject* loop, PyObject* task) {
  std::vector<Run>& running = runs()[loop];
  const size_t depth = running.size();
  if (depth >= 2 && running[depth - 2].task == task) return end_last(running);
  if (depth >= 1 && running[depth - 1].task == task) return;
  running.push_back({task, begin_task_run(task), static_cast<uint64_t>(pthread_self())});
}

// Watches the dictionary from loops to their running tasks.
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

// Count of threads that were running nested tasks when the watch began; tasks between them may be missing.
uint64_t missed_threads = 0;

struct Place {
  uint64_t native_thread;  // 0 if unknown
  int64_t system_thread_id;
};

Place place_of(PyObject* loop, const std::vector<Run>& running, const std::vector<RunningCall>& handles) {
  if (loop == own_loop().get())
    return {static_cast<uint64_t>(pthread_self()), static_cast<int64_t>(syscall(SYS_gettid))};
  for (const RunningCall& handle : handles) {
    if (attribute(handle.first_argument.get(), "_loop").get() == loop)
      return {handle.native_thread, handle.system_thread_id};
  }
  for (const Run& run : running) {
    if (run.native_thread != 0) return {run.native_thread, 0};
  }
  return {0, 0};
}

// Tasks that a loop was running when the watch began. `nested`: nested tasks of this thread.
std::vector<Run> running_of(PyObject* loop, PyObject* task, const std::vector<Owned>& nested) {
  std::vector<Run> running;
  const bool is_own = loop == own_loop().get();
  for (const Owned& outer : nested) {
    if (is_own && outer.get() != task) running.push_back({outer.get(), 0, 0});
  }
  const bool is_known = !running.empty();
  for (const RunningCall& handle : running_handles()) {
    if (is_known || attribute(handle.first_argument.get(), "_loop").get() != loop) continue;
    const Owned outer = task_of(handle.first_argument.get());
    if (outer && outer.get() != task) running.push_back({outer.get(), 0, 0});
  }
  if (!is_own && !running.empty()) ++missed_threads;
  running.push_back({task, 0, 0});
  return running;
}

}  // namespace

std::vector<RunningTask> running_tasks(uint64_t* unplaced) {
  std::vector<RunningTask> found;
  const std::vector<RunningCall> handles = running_handles();
  for (const auto& [loop, running] : runs()) {
    const Place place = place_of(loop, running, handles);
    if (place.native_thread == 0) {
      *unplaced += running.size();
      continue;
    }
    for (const Run& run : running) {
      found.push_back(
          {place.native_thread, place.system_thread_id, frame_of_task(run.task), Owned(Py_NewRef(run.task))});
    }
  }
  PyErr_Clear();
  return found;
}

bool hook_task_runs() {
  if (asyncio.current_tasks == nullptr || threads_are_free()) return false;
  const std::vector<Owned> nested = nested_tasks();
  if (watcher < 0) watcher = PyDict_AddWatcher(&on_change);
  if (watcher < 0 || PyDict_Watch(watcher, asyncio.current_tasks) != 0) return false;
  hooked = true;
  missed_threads = 0;
  PyObject *loop = nullptr, *task = nullptr;
  for (Py_ssize_t at = 0; PyDict_Next(asyncio.current_tasks, &at, &loop, &task) != 0;) {
    if (runs()[loop].empty()) runs()[loop] = running_of(loop, task, nested);
  }
  PyErr_Clear();
  return true;
}

void unhook_task_runs() {
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

void forget_task_runs() { runs().clear(); }

void note_unseen_runs(Window& window) {
  note_unseen(window, "not recorded: first runs of eager tasks, possibly under way at the start",
              std::exchange(missed_threads, 0));
}

}  // namespace opscope

#endif
