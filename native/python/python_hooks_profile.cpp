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
    return 0;  // in a forked child, or in a thread that is ending
  without_exceptions([&] { record_event(object, what, arg); });
  return 0;
}

// Sets the profile function as sys.setprofile does, but for any thread and without running Python. The audit
// event of sys.setprofile is raised once for all threads.
void set_profile(PyThreadState* state, Py_tracefunc function) {
  state->c_profilefunc = function;
  Py_CLEAR(state->c_profileobj);  // null, or the function that begins a thread, which is immortal
  const bool is_used = function != nullptr || state->c_tracefunc != nullptr;
#if PY_VERSION_HEX >= 0x030B0000
  state->cframe->use_tracing = is_used && state->tracing == 0 ? 255 : 0;
#else
  state->cframe->use_tracing = is_used;
#endif
}

// [GIL] Threads that have had our hook since its installation, by Python's unique id of the state. Value:
// ticks since when, for threads that ran without it before.
std::unordered_map<uint64_t, uint64_t>& hooked_threads() {
  static auto& threads = *new std::unordered_map<uint64_t, uint64_t>;
  return threads;
}
constexpr uint64_t kFromTheBeginning = 0;

// Hooks threads without any hook. True if some of them had ours before.
bool hook_free_threads_as_of(uint64_t ticks) {
  bool has_come_back = false;
  for_each_thread_state([&](PyThreadState* state) {
    if (!installed || state->c_profilefunc != nullptr) return;
    set_profile(state, &on_event);
    has_come_back |= !hooked_threads().try_emplace(PyThreadState_GetID(state), ticks).second;
  });
  return has_come_back;
}

// Handles the end of the sys.setprofile call of a thread hooked before it got this function.
void end_of_setprofile(PyObject* event) {
  PyObject* const what = PyTuple_GET_SIZE(event) == 3 ? PyTuple_GET_ITEM(event, 1) : nullptr;
  if (what == nullptr || !PyUnicode_Check(what) || PyUnicode_CompareWithASCIIString(what, "c_return") != 0)
    return;
  python_leave_c(PyTuple_GET_ITEM(event, 2), RunningFrame::current(PyThreadState_Get()));
}

// Function for threading.setprofile: replaces itself by the native hook at a new thread's first event.
// `event`: the first event.
PyObject* begin_thread(PyObject*, PyObject* event) {
  PyThreadState* const state = PyThreadState_Get();
  set_profile(state, installed ? &on_event : nullptr);
  without_exceptions([state] {
    if (installed) hooked_threads().try_emplace(PyThreadState_GetID(state), kFromTheBeginning);
  });
  without_exceptions([event] {
    if (installed) end_of_setprofile(event);
    std::vector<RunningFrame> running;  // frames of threading around the program's function
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

// [GIL] Argument for threading.setprofile. Never released: threads that begin may still hold it.
PyObject* thread_hook() {
  static PyObject* const hook = PyCFunction_New(&begin_thread_def, nullptr);
  return hook;
}

// Attribute that threading.setprofile sets and threading.getprofile returns. Written directly: in those
// functions an exception of a signal handler would leave the hook set, or unset.
constexpr const char* kThreadHook = "_profile_hook";

bool is_set_for_threads(PyObject* threading, PyObject* hook) {
  PyObject* current = PyObject_GetAttrString(threading, kThreadHook);
  Py_XDECREF(current);  // threading holds another reference
  return current != nullptr && current == hook;
}

// Whether the thread's events are recorded, from its first event on.
bool is_hooked(const PyThreadState* state) {
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
  if (uses_evaluation_hook()) return occupied;
  for_each_thread_state([&](PyThreadState* state) {
    const bool had_ours = hooked_threads().contains(PyThreadState_GetID(state));
    occupied += !installed || (!is_hooked(state) && (had_ours || state->c_profilefunc != nullptr));
  });
  return occupied;
}

void remove_call_hooks() {
  if (uses_evaluation_hook()) remove_evaluation_hook();
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
  if (on && is_set_for_threads(threading, Py_None)) {  // does not replace a hook of the program
    is_hooked = PyObject_SetAttrString(threading, kThreadHook, thread_hook()) == 0;
  } else if (!on && is_set_for_threads(threading, thread_hook())) {
    PyObject_SetAttrString(threading, kThreadHook, Py_None);
  }
  own.clear_error();
  Py_DECREF(threading);
  return is_hooked;
}

bool was_hooked(uint64_t python_thread, uint64_t since_ticks) {
  if (uses_evaluation_hook()) return true;
  const auto hooked = hooked_threads().find(python_thread);
  return hooked != hooked_threads().end() && hooked->second <= since_ticks;
}

bool reports_calls(PyThreadState* state) {
  return uses_evaluation_hook() || (installed && state->c_profilefunc == &on_event && state->tracing == 0);
}

// Calls of a tracing function are not reported, and are indistinguishable from the traced calls.
bool will_report_ends(PyThreadState* state) {
  const bool is_in_ours = state->tracing == 0 || state->c_tracefunc == nullptr;
  return uses_evaluation_hook() || (installed && state->c_profilefunc == &on_event && is_in_ours);
}

bool is_inside_a_tool(PyThreadState* state) {
  return installed && state->c_profilefunc == &on_event && !will_report_ends(state);
}

}  // namespace opscope

#endif
