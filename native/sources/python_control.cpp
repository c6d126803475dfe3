// Turning the recording of Python calls on and off, and what a window needs to know of what is
// running already.
#include <pthread.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <unordered_set>

#include "clock.h"
#include "core_api.h"
#include "sources/python_calls.h"
#include "sources/python_hooks.h"
#include "sources/python_module_calls.h"
#include "sources/python_parameters.h"
#include "sources/python_thread_cache.h"

namespace opscope {

namespace {

// While one exists, what this thread runs is not recorded.
class Unrecorded {
 public:
  Unrecorded() : cache_(PythonThreadCache::get()), was_busy_(cache_ != nullptr && cache_->busy) {
    if (cache_ != nullptr) cache_->busy = true;
  }
  Unrecorded(const Unrecorded&) = delete;
  Unrecorded& operator=(const Unrecorded&) = delete;
  ~Unrecorded() {
    if (cache_ != nullptr) cache_->busy = was_busy_;
  }

 private:
  PythonThreadCache* cache_;
  bool was_busy_;
};

template <typename Function>
void for_each_thread(Function&& function) {
  for (PyThreadState* state = PyInterpreterState_ThreadHead(PyInterpreterState_Get()); state != nullptr;
       state = PyThreadState_Next(state)) {
    function(state);
  }
}

RunningFrame innermost_frame(PyThreadState* state) {
  PyFrameObject* frame = PyThreadState_GetFrame(state);
  Py_XDECREF(reinterpret_cast<PyObject*>(frame));  // its thread keeps it
  return RunningFrame(frame);
}

int64_t system_thread_id(PyThreadState* state, bool is_current) {
  if (is_current) return static_cast<int64_t>(syscall(SYS_gettid));
#if PY_VERSION_HEX >= 0x030B0000
  return static_cast<int64_t>(state->native_thread_id);
#else
  (void)state;
  return 0;
#endif
}

// Without our own functions and what they called: their returns are not recorded either.
InitialStack stack_of(PyThreadState* state, PythonThreadCache& cache, FrameTable& frames) {
  const bool is_current = state == PyThreadState_Get();
  InitialStack stack{static_cast<uint64_t>(state->thread_id), system_thread_id(state, is_current), {}};
  uint32_t hidden = 0;
  for (RunningFrame frame = innermost_frame(state); frame; frame = frame.caller()) {
    PyCodeObject* code = frame.code();
    uint32_t id = frame_of(cache, code);
    if (id == kProgramFrame) break;
    if (id == kHiddenFrame) {
      ++hidden;
      stack.frames.clear();
    }
    if (id == kModuleFrame) id = frames.module_row();
    if (id == kOptimizerFrame) id = frames.optimizer_row();
    if (id >= kFirstSpecialFrame) continue;
    const RunningFrame caller = frame.caller();
    stack.frames.push_back({id, key_of(frame, code), caller ? caller.instruction() : -1});
  }
  if (is_current) cache.hidden = hidden;
  std::reverse(stack.frames.begin(), stack.frames.end());
  return stack;
}

void call_when_forked(PyMethodDef* function) {
  PyObject* os = PyImport_ImportModule("os");
  PyObject* registrar = os == nullptr ? nullptr : PyObject_GetAttrString(os, "register_at_fork");
  PyObject* callback = PyCFunction_New(function, nullptr);
  PyObject* none = PyTuple_New(0);
  PyObject* arguments = Py_BuildValue("{sO}", "after_in_child", callback);
  PyObject* done = registrar == nullptr ? nullptr : PyObject_Call(registrar, none, arguments);
  for (PyObject* object : {os, registrar, callback, none, arguments, done}) Py_XDECREF(object);
  PyErr_Clear();
}

PyObject* on_forked(PyObject*, PyObject*) {
  PythonCalls::instance().forked();
  Py_RETURN_NONE;
}
PyMethodDef forked_def = {"opscope_forked", &on_forked, METH_NOARGS, nullptr};

}  // namespace

PythonCalls& PythonCalls::instance() {
  static auto* calls = new PythonCalls;
  return *calls;
}

// A decoding thread may hold the tables' locks while another forks.
PythonCalls::PythonCalls() {
  const auto lock = [] {
    PythonCalls& calls = instance();
    for (std::mutex* mutex : {&calls.frames.mutex(), &calls.modules.mutex(), &calls.optimizers.mutex()})
      mutex->lock();
  };
  const auto unlock = [] {
    PythonCalls& calls = instance();
    for (std::mutex* mutex : {&calls.frames.mutex(), &calls.modules.mutex(), &calls.optimizers.mutex()})
      mutex->unlock();
  };
  pthread_atfork(lock, unlock, unlock);
}

void PythonCalls::set_up(const PythonSetup& setup) {
  if (module_function_ == nullptr && optimizer_watcher_ == nullptr) call_when_forked(&forked_def);
  frames.hide_files_under(setup.hidden_folder, setup.shown_file, setup.program_file);
  Py_XSETREF(module_function_,
             PyFunction_Check(setup.module_function) ? Py_NewRef(setup.module_function) : nullptr);
  if (module_function_ != nullptr) {
    frames.set_module_code(reinterpret_cast<PyCodeObject*>(PyFunction_GetCode(module_function_)));
  }
  if (PyCode_Check(setup.optimizer_code)) {
    frames.set_optimizer_code(reinterpret_cast<PyCodeObject*>(setup.optimizer_code));
  }
  Py_XSETREF(optimizer_watcher_, Py_NewRef(setup.watch_optimizers));
  set_parameter_reader(setup.parameter_reader);
}

void PythonCalls::configure(uint32_t wanted) {
  const Unrecorded unrecorded;
  const bool calls = (wanted & kWantPython) != 0;
  const bool had_calls = (configured_ & kWantPython) != 0;
  const bool modules = (wanted & (kWantPython | kWantModules)) != 0;
  const bool had_modules = (configured_ & (kWantPython | kWantModules)) != 0;
  configured_ = wanted;
  if (modules != had_modules) hook_modules(modules);
  watch_optimizers((wanted & kWantModules) != 0);
  if (calls != had_calls) hook_calls(calls);
  if (calls) hook_new_threads((wanted & kWantNewThreads) != 0);
}

void PythonCalls::hook_calls(bool on) {
  if (on) {
    ++installation_;
    occupied_threads_ = install_call_hooks();
  } else {
    remove_call_hooks();
    occupied_threads_ = 0;
    overlap_ticks_ = 0;
  }
}

void PythonCalls::hook_modules(bool on) {
  if (module_function_ == nullptr) return;
  if (on) {
    hook_module_function(module_function_);
  } else {
    unhook_module_function(module_function_);
  }
}

void PythonCalls::watch_optimizers(bool on) {
  if (on == watching_optimizers_ || optimizer_watcher_ == nullptr || optimizer_watcher_ == Py_None) return;
  watching_optimizers_ = on;
  PyObject* done = PyObject_CallFunctionObjArgs(optimizer_watcher_, on ? Py_True : Py_False, nullptr);
  if (done == nullptr) PyErr_Clear();
  Py_XDECREF(done);
}

std::vector<InitialStack> PythonCalls::begin_window(uint32_t wants) {
  std::vector<InitialStack> stacks;
  if ((wants & (kWantPython | kWantModules)) != 0) {
    modules.begin_window();
    optimizers.begin_window();
  }
  PythonThreadCache* cache = PythonThreadCache::get();
  if ((wants & kWantPython) == 0 || cache == nullptr) return stacks;
  const bool collected = PyGC_Disable() != 0;  // it would run the program's code between two threads
  // Of a thread that reports nothing it would never be known when these functions end.
  for_each_thread([&](PyThreadState* state) {
    if (!reports_calls(state)) return;
    InitialStack stack = stack_of(state, *cache, frames);
    if (!stack.frames.empty()) stacks.push_back(std::move(stack));
  });
  if (collected) PyGC_Enable();
  overlap_ticks_ = now_ticks();
  return stacks;
}

void PythonCalls::resume_window(const Window& window) {
  PythonThreadCache* cache = PythonThreadCache::get();
  if ((window.wants & kWantPython) == 0 || cache == nullptr) return;
  std::unordered_set<uint64_t> running;
  for_each_thread([&](PyThreadState* state) {
    for (RunningFrame frame = innermost_frame(state); frame; frame = frame.caller()) {
      running.insert(key_of(frame, frame.code()));
    }
  });
  for (const InitialStack& stack : window.initial_stacks) {
    for (const InitialFrame& frame : stack.frames) {
      if (!running.contains(frame.key)) cache->log.note_end(frame.key, now_ticks());
    }
  }
}

void PythonCalls::optimizer_step(PyObject* optimizer) {
  PythonThreadCache* cache = PythonThreadCache::get();
  const uint32_t wanted = Recorder::instance().wanted();
  if (cache == nullptr || cache->busy || (wanted & kWantModules) == 0) return;
  if ((wanted & kWantPython) != 0 && reports_calls(PyThreadState_Get())) return;  // its code is seen
  const uint32_t row = row_of_instance(optimizers, optimizer, /*is_module=*/false);
  const uint64_t key = reinterpret_cast<uintptr_t>(optimizer);
  Record* record = open_call(cache->log, RecordKind::kOptimizerCall, key, frames.optimizer_row(), -1);
  if (record != nullptr) record->detail = row;
  publish_call(cache->log, record);
  cache->log.close_span(key, now_ticks());
}

void PythonCalls::forked() { configure(0); }

void PythonCalls::forget() {
  frames.forget();
  modules.forget();
  optimizers.forget();
}

}  // namespace opscope
