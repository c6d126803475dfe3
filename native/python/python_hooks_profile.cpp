#include "python/python_hooks.h"

#if PY_VERSION_HEX < 0x030C0000

#include <unordered_map>
#include <vector>

#include "cpython/thread_states.h"
#include "log/clock.h"
#include "python/python_own_code.h"

namespace opscope {

namespace {

bool installed = false;

void record_event(PyFrameObject* object, int what, PyObject* arg) {
  const RunningFrame frame(cpython::frame_of(object));
  switch (what) {
    case PyTrace_CALL:
      python_enter(frame.code(), frame, frame.caller());
      break;
    case PyTrace_RETURN:
      python_leave(frame.code(), frame);
      break;
    case PyTrace_C_CALL:
      if (PyCFunction_Check(arg)) python_enter_c(arg, nullptr, frame);
      break;
    case PyTrace_C_RETURN:
    case PyTrace_C_EXCEPTION:
      python_leave_c(arg, frame);
      break;
    default:
      break;
  }
}

int on_event(PyObject*, PyFrameObject* object, int what, PyObject* arg) {
  if (!installed) [[unlikely]]
    return 0;  // in a forked child, or a thread on its way out
  without_exceptions([&] { record_event(object, what, arg); });
  return 0;
}

// Sets the profile function as sys.setprofile does, but for a thread that may be another, without
// running Python: what sys.setprofile tells audit hooks is said once for all threads.
void set_profile(PyThreadState* state, Py_tracefunc function) {
  state->c_profilefunc = function;
  Py_CLEAR(state->c_profileobj);  // none, or what begins a thread, which stays
  const bool is_used = function != nullptr || state->c_tracefunc != nullptr;
#if PY_VERSION_HEX >= 0x030B0000
  state->cframe->use_tracing = is_used && state->tracing == 0 ? 255 : 0;
#else
  state->cframe->use_tracing = is_used;
#endif
}

// [GIL] Threads that have had our hook since it was installed, by Python's id of their state; and since when,
// in ticks, those that ran without it before.
std::unordered_map<uint64_t, uint64_t>& hooked_threads() {
  static auto& threads = *new std::unordered_map<uint64_t, uint64_t>;
  return threads;
}
constexpr uint64_t kFromTheBeginning = 0;

// Threads that have no hook, nor another tool's, get ours. True if some of them had it before.
bool hook_free_threads_as_of(uint64_t ticks) {
  bool has_come_back = false;
  for_each_thread_state([&](PyThreadState* state) {
    if (!installed || state->c_profilefunc != nullptr) return;
    set_profile(state, &on_event);
    has_come_back |= !hooked_threads().try_emplace(PyThreadState_GetID(state), ticks).second;
  });
  return has_come_back;
}

// A thread that was hooked before it got this function has begun the call of sys.setprofile, whose end is
// reported to this function.
void end_of_setprofile(PyObject* event) {
  PyObject* const what = PyTuple_GET_SIZE(event) == 3 ? PyTuple_GET_ITEM(event, 1) : nullptr;
  if (what == nullptr || !PyUnicode_Check(what) || PyUnicode_CompareWithASCIIString(what, "c_return") != 0)
    return;
  python_leave_c(PyTuple_GET_ITEM(event, 2), RunningFrame::current(PyThreadState_Get()));
}

// threading.setprofile's function: runs once in a new thread and puts the native hook in its place. `event`:
// the first that this thread has for it.
PyObject* begin_thread(PyObject*, PyObject* event) {
  PyThreadState* const state = PyThreadState_Get();
  set_profile(state, installed ? &on_event : nullptr);
  without_exceptions([state] {
    if (installed) hooked_threads().try_emplace(PyThreadState_GetID(state), kFromTheBeginning);
  });
  without_exceptions([event] {
    if (installed) end_of_setprofile(event);
    std::vector<RunningFrame> running;  // what threading itself runs around the program's function
    for (RunningFrame frame = RunningFrame::current(PyThreadState_Get()); frame; frame = frame.caller()) {
      running.push_back(frame);
    }
    for (auto frame = running.rbegin(); installed && frame != running.rend(); ++frame) {
      python_enter_if_new(frame->code(), *frame, frame->caller());
    }
  });
  Py_RETURN_NONE;
}
PyMethodDef begin_thread_def = {"opscope_begin_thread", &begin_thread, METH_VARARGS, nullptr};

// [GIL] What threading.setprofile would be given. Kept for good: threads that begin may still have it.
PyObject* thread_hook() {
  static PyObject* const hook = PyCFunction_New(&begin_thread_def, nullptr);
  return hook;
}

// What threading.setprofile sets and threading.getprofile returns. Not through those: an exception of a
// signal handler in there would leave the hook, or keep it from being set.
constexpr const char* kThreadHook = "_profile_hook";

bool is_set_for_threads(PyObject* threading, PyObject* hook) {
  PyObject* current = PyObject_GetAttrString(threading, kThreadHook);
  Py_XDECREF(current);  // threading keeps it
  return current != nullptr && current == hook;
}

// Whether its events are recorded, from its first event on.
bool is_heard(const PyThreadState* state) {
  return state->c_profilefunc == &on_event || state->c_profileobj == thread_hook();
}

}  // namespace

void install_call_hooks(CallLevel level) {
  if (level != CallLevel::kAll) return install_evaluation_hook();
  OwnCode own;
  installed = PySys_Audit("sys.setprofile", nullptr) == 0;
  if (!installed) own.clear_error();
  hook_free_threads_as_of(kFromTheBeginning);
}

bool hook_free_threads() { return hook_free_threads_as_of(now_ticks()); }

uint64_t occupied_threads() {
  uint64_t occupied = 0;
  if (hears_evaluations()) return occupied;
  for_each_thread_state([&](PyThreadState* state) {
    const bool had_ours = hooked_threads().contains(PyThreadState_GetID(state));
    occupied += !installed || (!is_heard(state) && (had_ours || state->c_profilefunc != nullptr));
  });
  return occupied;
}

void remove_call_hooks() {
  if (hears_evaluations()) remove_evaluation_hook();
  installed = false;
  hooked_threads().clear();
  for_each_thread_state([](PyThreadState* state) {
    if (state->c_profilefunc == &on_event) set_profile(state, nullptr);
  });
}

bool hook_new_threads(bool on) {
  OwnCode own;
  PyObject* threading = own.call([] { return PyImport_ImportModule("threading"); });
  if (threading == nullptr) return false;
  bool is_hooked = false;
  if (on && is_set_for_threads(threading, Py_None)) {  // the program's own goes first
    is_hooked = PyObject_SetAttrString(threading, kThreadHook, thread_hook()) == 0;
  } else if (!on && is_set_for_threads(threading, thread_hook())) {
    PyObject_SetAttrString(threading, kThreadHook, Py_None);
  }
  own.clear_error();
  Py_DECREF(threading);
  return is_hooked;
}

bool was_hooked(uint64_t python_thread, uint64_t since_ticks) {
  if (hears_evaluations()) return true;
  const auto hooked = hooked_threads().find(python_thread);
  return hooked != hooked_threads().end() && hooked->second <= since_ticks;
}

bool reports_calls(PyThreadState* state) {
  return hears_evaluations() || (installed && state->c_profilefunc == &on_event && state->tracing == 0);
}

// Calls of a tracing function are not reported, and cannot be distinguished from the traced calls.
bool will_report_ends(PyThreadState* state) {
  const bool is_in_ours = state->tracing == 0 || state->c_tracefunc == nullptr;
  return hears_evaluations() || (installed && state->c_profilefunc == &on_event && is_in_ours);
}

bool is_inside_a_tool(PyThreadState* state) {
  return installed && state->c_profilefunc == &on_event && !will_report_ends(state);
}

}  // namespace opscope

#endif
