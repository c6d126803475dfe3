// How runs of asyncio's tasks reach the recorder on this version of Python.
//
// asyncio notes in a dictionary which task each loop is running, and Python 3.12 and 3.13 tell of a
// dictionary's changes (asyncio_runs_dictionary.cpp): that shows tasks of any loop, also those that begin
// eagerly within others. Elsewhere a task runs as a callback that its loop calls in a context, and the C
// function that is contextvars.Context.run is exchanged (asyncio_runs_context.cpp); from Python 3.14 on,
// which keeps the running task elsewhere, contexts tell of tasks that begin eagerly. None of this changes
// anything that a program could look at. Each file is empty where it does not apply.
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

// What asyncio is made of; kept for good.
struct Asyncio {
  PyTypeObject* c_task = nullptr;       // tasks written in C
  PyTypeObject* python_task = nullptr;  // and those written in Python
  PyObject* get_coroutine = nullptr;    // methods of the first
  PyObject* get_context = nullptr;
  PyObject* get_name = nullptr;
  PyObject* step = nullptr;  // functions of the second, as callbacks
  PyObject* wakeup = nullptr;
  PyObject* first_step = nullptr;     // of one that begins eagerly
  PyObject* current_tasks = nullptr;  // by loop
  PyObject* current_task = nullptr;   // a function: the calling thread's, if it is written in C
  PyObject* running_loop = nullptr;   // likewise
  PyObject* all_tasks = nullptr;      // of a loop, those that are not done
  PyTypeObject* handle = nullptr;
  PyObject* run = nullptr;  // its method
  PyCodeObject* code() const { return reinterpret_cast<PyCodeObject*>(PyFunction_GET_CODE(run)); }
  // False: this is not the asyncio that is known.
  bool import();
};
extern Asyncio asyncio;

// A task that a thread is in the middle of running.
struct RunningTask {
  uint64_t native_thread;
  int64_t system_thread_id;
  const void* frame;  // of the call that its span is around
  Owned task;
};

// [GIL] The key of its span, and when it began, in ticks; 0: there is no span of it.
uint64_t task_key(const PyObject* task);
uint64_t begin_task_run(PyObject* task);
void end_task_run(uint64_t key, uint64_t began);
// [GIL] The end of one that began before a window opened, and has no span.
void note_task_end(uint64_t key);
bool tasks_are_wanted();

// [GIL] Calls of Handle._run that are running, with the handle; and the task that the callback of a handle
// goes on with: none where it is another callback.
std::vector<RunningCall> running_handles();
Owned task_of_callback(PyObject* callback);
Owned task_of(PyObject* handle);
// [GIL] The coroutine of a task, without running Python, whatever its class is.
Owned coroutine_of(PyObject* task);
// [GIL] Where its coroutine runs, if it does; nullptr where that does not say.
const void* frame_of_task(PyObject* task);
// [GIL] The loop that runs on this thread; none.
Owned own_loop();
// [GIL] Those of its tasks that this thread is in the middle of running, where there may be several, the
// outermost first. Runs Python, if only asyncio's own.
std::vector<Owned> nested_tasks();

// [GIL] What a version of Python has its own way of. False: this Python does not tell of runs.
bool hook_task_runs();
// Spans that other threads have open are ended by those.
void unhook_task_runs();
// In a forked child: what other threads were running has gone with them.
void forget_task_runs();
// What runs on which thread, the outermost first. How many cannot be placed is added to `unplaced`.
std::vector<RunningTask> running_tasks(uint64_t* unplaced);
// What a window does not see.
void note_unseen_runs(Window& window);
// For those: nothing for 0.
void note_unseen(Window& window, const char* what, uint64_t count);

}  // namespace opscope
