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
  end_task_run(task_key(run.task), run.began);
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
  running.push_back({task, begin_task_run(task), static_cast<uint64_t>(pthread_self())});
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

}  // namespace

std::vector<RunningTask> running_tasks(uint64_t* unplaced) {
  std::vector<RunningTask> found;
  const std::vector<RunningCall> handles = running_handles();
  const Owned here = own_loop();
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
    } else if (loop == here.get()) {
      found.push_back({static_cast<uint64_t>(pthread_self()), static_cast<int64_t>(syscall(SYS_gettid)),
                       Owned(), Owned(Py_NewRef(task))});
    } else {
      ++*unplaced;
    }
  }
  PyErr_Clear();
  return found;
}

bool hook_task_runs() {
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

void note_ends_of(const std::vector<RunningTask>&) {}

void note_unseen_runs(Window&) {}

}  // namespace opscope

#endif
