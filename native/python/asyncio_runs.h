// Records runs of asyncio tasks, by version of Python.
//
// Python 3.12 and 3.13: asyncio keeps the running task of each loop in a dictionary, and Python reports
// changes of dictionaries (asyncio_runs_dictionary.cpp). This covers tasks of any loop, including tasks that
// begin eagerly within others. Other versions: the loop calls a task as a callback in a context, so opscope
// replaces the C function of contextvars.Context.run (asyncio_runs_context.cpp). Python 3.14 keeps the
// running task elsewhere; a context watcher reports tasks that begin eagerly. A program cannot see any of
// these changes. Each file is empty on other versions.
#pragma once

#include <Python.h>

#include <cstdint>
#include <vector>

#include "log/source.h"
#include "python/owned.h"
#include "python/python_running_threads.h"

#if PY_VERSION_HEX >= 0x030C0000 && PY_VERSION_HEX < 0x030E0000
#define OPSCOPE_WATCHES_RUNNING_TASKS 1
#endif

namespace opscope {

// Objects of asyncio; never released.
struct Asyncio {
  PyTypeObject* c_task = nullptr;       // type of tasks written in C
  PyTypeObject* python_task = nullptr;  // type of tasks written in Python
  PyObject* get_coroutine = nullptr;    // methods of c_task
  PyObject* get_context = nullptr;
  PyObject* get_name = nullptr;
  PyObject* step = nullptr;  // functions of python_task, as callbacks
  PyObject* wakeup = nullptr;
  PyObject* first_step = nullptr;     // of a task that begins eagerly
  PyObject* current_tasks = nullptr;  // dictionary: loop to task
  PyObject* current_task = nullptr;   // C function: task of the calling thread
  PyObject* running_loop = nullptr;   // function: loop of the calling thread
  PyObject* all_tasks = nullptr;      // function: unfinished tasks of a loop
  PyTypeObject* handle = nullptr;
  PyObject* run = nullptr;  // its method
  PyCodeObject* code() const { return reinterpret_cast<PyCodeObject*>(PyFunction_GET_CODE(run)); }
  // False: this version of asyncio is unknown.
  bool import();
};
extern Asyncio asyncio;

// Task that a thread is running.
struct RunningTask {
  uint64_t native_thread;
  int64_t system_thread_id;
  const void* frame;  // of the call that is inside the span
  Owned task;
};

// [GIL] Key of a task's span. The next function returns the start in ticks; 0: there is no span.
uint64_t task_key(const PyObject* task);
uint64_t begin_task_run(PyObject* task);
void end_task_run(uint64_t key, uint64_t began);
// [GIL] Records the end of a run that began before the window and has no span.
void note_task_end(uint64_t key);
bool tasks_are_wanted();

// [GIL] Running calls of Handle._run with their handles. The task that a callback resumes, or null.
std::vector<RunningCall> running_handles();
Owned task_of_callback(PyObject* callback);
Owned task_of(PyObject* handle);
// [GIL] Coroutine of a task. Runs no Python for any class of task.
Owned coroutine_of(PyObject* task);
// [GIL] Frame of the task's coroutine if it runs; nullptr if unknown.
const void* frame_of_task(PyObject* task);
// [GIL] Loop that runs on this thread, or null.
Owned own_loop();
// [GIL] Tasks of this thread's loop that are running inside each other, the outermost first; empty if there
// is at most one. Runs Python code of asyncio only.
std::vector<Owned> nested_tasks();

// [GIL] The following functions depend on the version of Python. False: this Python does not report runs.
bool hook_task_runs();
// Other threads end their open spans themselves.
void unhook_task_runs();
// In a forked child: forgets runs of threads that the fork did not copy.
void forget_task_runs();
// Running tasks of all threads, outermost first. Adds the number of those on unknown threads to `unplaced`.
std::vector<RunningTask> running_tasks(uint64_t* unplaced);
// Adds a note for each kind of run that the window misses.
void note_unseen_runs(Window& window);
// Adds one such note, unless `count` is 0.
void note_unseen(Window& window, const char* what, uint64_t count);

}  // namespace opscope
