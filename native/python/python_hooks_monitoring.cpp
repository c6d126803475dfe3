#include "python/python_hooks.h"

#if PY_VERSION_HEX >= 0x030C0000

#include <array>

#include "interpreter/free_threads.h"
#include "interpreter/lifecycle.h"
#include "python/python_calls.h"
#include "python/python_own_code.h"
#include "python/python_thread_cache.h"

namespace opscope {

namespace {

PyCodeObject* code_of(PyObject* argument) { return reinterpret_cast<PyCodeObject*>(argument); }

RunningFrame current_frame() { return RunningFrame::current(PyThreadState_Get()); }

// Arguments: code, offset, callable and its first argument. A C function is bound to its object; a method of
// a built-in type arrives as a descriptor. Python functions report their own start, so this ignores them.
// From 3.14 on a `with` statement calls a method of opscope as its built-in function.
PyObject* on_call(PyObject*, PyObject* const* args, Py_ssize_t count) {
  if (count >= 4) {
    PyObject* const callable = args[2];
    if (PyCFunction_Check(callable)) {
      if (is_method_of_ours(callable)) Py_RETURN_NONE;
      without_exceptions([&] { python_enter_c(callable, nullptr, current_frame()); });
    } else if (Py_IS_TYPE(callable, &PyMethodDescr_Type)) {
      without_exceptions([&] { python_enter_c(callable, args[3], current_frame()); });
    }
  }
  Py_RETURN_NONE;
}

PyObject* on_c_return(PyObject*, PyObject* const* args, Py_ssize_t count) {
  if (count < 3) Py_RETURN_NONE;
  const bool is_c = PyCFunction_Check(args[2]) && !is_method_of_ours(args[2]);
  if (is_c || Py_IS_TYPE(args[2], &PyMethodDescr_Type)) {
    without_exceptions([&] { python_leave_c(args[2], current_frame()); });
  }
  Py_RETURN_NONE;
}

// Records skipped code that begins if the program calls it. False disables the events of this code: none of
// its calls is recorded any more.
bool skipped_code_begins(PyCodeObject* code, RunningFrame frame, RunningFrame caller) {
  PythonThreadCache* const cache = PythonThreadCache::get();
  if (cache == nullptr || cache->busy) return true;
  const bool by_program = frame_of_call(*cache, code, caller) != kSkippedFrame;
  if (!PythonCalls::instance().frames.may_be_called_again(code, by_program)) return false;
  if (by_program) python_enter(code, frame, caller);
  return true;
}

// The same for its end.
bool skipped_code_ends(PyCodeObject* code, RunningFrame frame) {
  const PythonThreadCache* const cache = PythonThreadCache::existing();
  if (cache == nullptr || cache->busy) return true;
  if (!cache->log.is_open(key_of(frame, code))) return PythonCalls::instance().frames.may_be_called(code);
  python_leave(code, frame);
  return true;
}

// False disables the event at this place: events of calls among libraries take longer than the calls.
bool start(PyObject* const* args) {
  PyCodeObject* const code = code_of(args[0]);
  bool continues = true;
  without_exceptions([&] {
    if (is_skipped(code)) {
      continues = skipped_code_begins(code, current_frame(), current_frame().caller());
    } else {
      python_enter(code, current_frame(), current_frame().caller());
    }
  });
  return continues;
}

bool end(PyObject* const* args) {
  PyCodeObject* const code = code_of(args[0]);
  bool continues = true;
  without_exceptions([&] {
    if (is_skipped(code)) {
      continues = skipped_code_ends(code, current_frame());
    } else {
      python_leave(code, current_frame());
    }
  });
  return continues;
}

// Return value that disables the callback's event at this place in this code.
PyObject* disable() {
  static PyObject* const marker = PyObject_GetAttrString(PySys_GetObject("monitoring"), "DISABLE");
  return Py_NewRef(marker);
}

PyObject* on_start(PyObject*, PyObject* const* args, Py_ssize_t) {
  if (!start(args)) return disable();
  Py_RETURN_NONE;
}

PyObject* on_end(PyObject*, PyObject* const* args, Py_ssize_t) {
  if (!end(args)) return disable();
  Py_RETURN_NONE;
}

// Python cannot disable exception events by place.
PyObject* on_throw(PyObject*, PyObject* const* args, Py_ssize_t) {
  start(args);
  Py_RETURN_NONE;
}

PyObject* on_unwind(PyObject*, PyObject* const* args, Py_ssize_t) {
  end(args);
  Py_RETURN_NONE;
}

using Callback = PyObject* (*)(PyObject*, PyObject* const*, Py_ssize_t);

PyMethodDef method(const char* name, Callback callback) {
  return {name, reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(callback)), METH_FASTCALL,
          nullptr};
}

struct Event {
  const char* name;  // in sys.monitoring.events
  PyMethodDef callback;
  // Created once and never released: Python holds no reference while it calls it.
  PyObject* function = nullptr;
};

std::array<Event, 9> events = {{
    {"PY_START", method("opscope_start", &on_start)},
    {"PY_RESUME", method("opscope_start", &on_start)},
    {"PY_THROW", method("opscope_throw", &on_throw)},
    {"PY_RETURN", method("opscope_end", &on_end)},
    {"PY_YIELD", method("opscope_end", &on_end)},
    {"PY_UNWIND", method("opscope_unwind", &on_unwind)},
    {"CALL", method("opscope_call", &on_call)},
    {"C_RETURN", method("opscope_c_return", &on_c_return)},
    {"C_RAISE", method("opscope_c_return", &on_c_return)},
}};

Shared<int> tool = -1;  // our tool id of sys.monitoring while installed

PyObject* monitoring() { return PySys_GetObject("monitoring"); }  // borrowed

bool drop(PyObject* result) {
  Py_XDECREF(result);
  return result != nullptr;
}

// Ids without a predefined use first, so that cProfile and coverage find theirs free.
int claim_tool(OwnCode& own) {
  for (const int id : {4, 3, 2, 1}) {
    if (drop(own.call([&] { return PyObject_CallMethod(monitoring(), "use_tool_id", "is", id, "opscope"); })))
      return id;
  }
  return -1;
}

long event_bit(PyObject* names, const char* name) {
  PyObject* value = PyObject_GetAttrString(names, name);
  const long bit = value == nullptr ? 0 : PyLong_AsLong(value);
  if (PyErr_Occurred() != nullptr) PyErr_Clear();
  Py_XDECREF(value);
  return bit;
}

// Registers all callbacks or none; `on` false removes them. Returns the events, 0 if an audit hook refused.
long register_callbacks(OwnCode& own, bool on, bool with_c) {
  PyObject* names = PyObject_GetAttrString(monitoring(), "events");
  long set = 0;
  bool succeeded = names != nullptr;
  for (Event& event : events) {
    const long bit = names == nullptr ? 0 : event_bit(names, event.name);
    if (event.function == nullptr) event.function = PyCFunction_New(&event.callback, nullptr);
    PyObject* const function = on ? event.function : Py_None;
    succeeded &= drop(own.call(
        [&] { return PyObject_CallMethod(monitoring(), "register_callback", "ilO", +tool, bit, function); }));
    // CALL includes C_RETURN and C_RAISE, which cannot be set separately.
    const bool is_c = event.name[0] == 'C';
    if (!is_c || (with_c && event.name[1] != '_')) set |= bit;
  }
  if (names == nullptr) PyErr_Clear();
  Py_XDECREF(names);
  return succeeded ? set : 0;
}

bool set_events(OwnCode& own, long set) {
  return drop(own.call([&] { return PyObject_CallMethod(monitoring(), "set_events", "il", +tool, set); }));
}

}  // namespace

void install_call_hooks(CallLevel level) {
  OwnCode own;
  tool = claim_tool(own);
  if (tool < 0) return;
  const long set = register_callbacks(own, true, level == CallLevel::kAll);
  if (set == 0 || !set_events(own, set)) return remove_call_hooks();
  // Enables events of code that was skipped at another level.
  PythonCalls::instance().frames.reset_disabled_events();
  drop(own.call([] { return PyObject_CallMethod(monitoring(), "restart_events", nullptr); }));
}

void remove_call_hooks() {
  if (tool < 0) return;
  OwnCode own;
  set_events(own, 0);
  register_callbacks(own, false, false);
  drop(own.call([] { return PyObject_CallMethod(monitoring(), "free_tool_id", "i", +tool); }));
  tool = -1;
}

bool uses_evaluation_hook() { return false; }
uint64_t evaluations_unrecorded() { return 0; }

// From Python 3.12 on a tool covers all threads.
bool hook_free_threads() { return false; }
uint64_t occupied_threads() { return tool < 0; }
bool hook_new_threads(bool on) { return on; }
bool was_hooked(uint64_t, uint64_t) { return true; }

bool reports_calls(PyThreadState* state) { return tool >= 0 && state->tracing == 0; }

// A call that is being reported looks like one that was reported: see RunningFrame::may_begin.
bool will_report_ends(PyThreadState* state) { return reports_calls(state); }

bool is_inside_a_tool(PyThreadState* state) { return tool >= 0 && state->tracing != 0; }

}  // namespace opscope

#endif
