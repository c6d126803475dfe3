#include "sources/python_calls.h"

#include <frameobject.h>

#include <array>
#include <cstring>
#include <memory>

#include "clock.h"
#include "core_api.h"
#include "recorder.h"
#include "sources/python_hooks.h"
#include "sources/python_parameters.h"

namespace opscope {

namespace {

// Small caches in front of the tables, one per thread.
struct ThreadCache {
  struct Code {
    PyCodeObject* code = nullptr;
    uint32_t id = 0;
  };
  struct CFunction {
    const PyMethodDef* method = nullptr;
    PyTypeObject* type = nullptr;
    uint32_t name = 0;
  };
  std::array<Code, 1024> codes;
  std::array<CFunction, 512> functions;
  uint64_t epoch = 0;
  bool busy = false;       // inside one of our own calls into Python: not to be recorded
  uint32_t hidden = 0;     // how many of opscope's own functions are running: what they call is hidden
  uint64_t window = 0;     // as PythonCalls::window when this thread last looked
  size_t older_spans = 0;  // how many spans on this thread's stack began before that window
};

ThreadCache& thread_cache() {
  thread_local std::unique_ptr<ThreadCache> cache;
  if (cache == nullptr) cache = std::make_unique<ThreadCache>();
  return *cache;
}

uint32_t frame_of(ThreadCache& cache, PyCodeObject* code) {
  FrameTable& frames = PythonCalls::instance().frames;
  if (cache.epoch != frames.epoch()) [[unlikely]] {
    cache.codes.fill({});
    cache.epoch = frames.epoch();
  }
  auto& slot = cache.codes[(reinterpret_cast<uintptr_t>(code) >> 5) % cache.codes.size()];
  if (slot.code != code) slot = {code, frames.intern(code)};
  return slot.id;
}

// The first event of a thread after a window opened. Calls that began in earlier windows are known to
// the new one as initial frames; while nobody watched they may have ended, too.
void meet_window(ThreadCache& cache, ThreadLog& log) {
  const PythonCalls& python = PythonCalls::instance();
  if (cache.window < python.first_window) {
    log.abandon_if([](RecordKind kind) {
      return kind == RecordKind::kPythonCall || kind == RecordKind::kCCall ||
             kind == RecordKind::kOptimizerCall;
    });
  }
  cache.window = python.window;
  cache.older_spans = log.depth();
}

ThreadCache& cache_of(ThreadLog& log) {
  ThreadCache& cache = thread_cache();
  if (cache.window != PythonCalls::instance().window) [[unlikely]]
    meet_window(cache, log);
  return cache;
}

// After a call on top of the stack has ended.
void left_call(ThreadCache& cache, ThreadLog& log, uint64_t key, uint64_t ticks) {
  if (log.depth() >= cache.older_spans) [[likely]]
    return;
  cache.older_spans = log.depth();
  log.note_end(key, ticks);
}

uint64_t address_key(const void* address) { return reinterpret_cast<uintptr_t>(address); }

// Bound methods are temporary objects, so a C function is known by its definition and its type; it
// is named as the first one seen printed itself.
uint32_t c_function_name(ThreadCache& cache, PyObject* callable) {
  const PyMethodDef* method = nullptr;
  PyTypeObject* type = nullptr;
  if (PyCFunction_Check(callable)) {
    const auto* function = reinterpret_cast<PyCFunctionObject*>(callable);
    method = function->m_ml;
    type = function->m_self == nullptr ? nullptr : Py_TYPE(function->m_self);
  } else {
    method = reinterpret_cast<PyMethodDescrObject*>(callable)->d_method;
  }
  auto& slot = cache.functions[(address_key(method) >> 4) % cache.functions.size()];
  if (slot.method == method && slot.type == type) return slot.name;
  cache.busy = true;
  PyObject* text = PyObject_Repr(callable);
  cache.busy = false;
  const char* bytes = text == nullptr ? nullptr : PyUnicode_AsUTF8(text);
  if (bytes == nullptr) PyErr_Clear();
  const uint32_t name = Recorder::instance().names().intern(bytes == nullptr ? method->ml_name : bytes);
  Py_XDECREF(text);
  slot = {method, type, name};
  return name;
}

Record* open_call(ThreadLog& log, RecordKind kind, uint64_t key, uint32_t name, int32_t offset) {
  Record* record = log.open_span(key);
  if (record == nullptr) return nullptr;
  record->kind = kind;
  record->scope = 0;
  record->sequence_number = -1;
  record->name = name;
  record->forward_thread = static_cast<uint32_t>(offset);
  return record;
}

void publish(ThreadLog& log, Record* record) {
  if (record == nullptr) return;
  record->ticks = now_ticks();
  log.publish_span();
}

ternaryfunc original_call = nullptr;  // what the tp_call slot of nn.Module classes held

uint32_t row_of_instance(ThreadCache& cache, InstanceTable& table, PyObject* instance, bool is_module) {
  bool is_new = false;
  const uint32_t row = table.intern(instance, &is_new);
  if (is_new) {
    cache.busy = true;
    record_parameters(instance, row, is_module);
    cache.busy = false;
  }
  return row;
}

PyObject* on_module_call(PyObject* self, PyObject* args, PyObject* kwargs) {
  const uint32_t wanted = Recorder::instance().wanted();
  ThreadLog* log = (wanted & (kWantPython | kWantModules)) == 0 ? nullptr : Recorder::this_thread();
  if (log == nullptr) return original_call(self, args, kwargs);
  ThreadCache& cache = thread_cache();
  const uint32_t row = row_of_instance(cache, PythonCalls::instance().modules, self, true);
  const uint64_t key = address_key(self);
  publish(*log, open_call(*log, RecordKind::kModuleCall, key, row, -1));
  PyObject* result = original_call(self, args, kwargs);
  log->close_span(key, now_ticks());
  return result;
}

// The object a method's frame works on: its first argument, called self.
PyObject* self_of(PyFrameObject* frame) {
#if PY_VERSION_HEX >= 0x030C0000
  PyObject* self = PyFrame_GetVarString(frame, "self");
#else
  PyObject* locals = PyObject_GetAttrString(reinterpret_cast<PyObject*>(frame), "f_locals");
  PyObject* self = locals == nullptr ? nullptr : PyMapping_GetItemString(locals, "self");
  Py_XDECREF(locals);
#endif
  if (self == nullptr) PyErr_Clear();
  return self;
}

// nn.Module.__call__ reached without going through the type's slot, as super().__call__ does: a
// class made after recording began. With the slot hooked, the module is on top already.
void enter_module(ThreadCache& cache, ThreadLog& log, PyFrameObject* frame, uint64_t key, int32_t offset) {
  if (log.top_kind() == RecordKind::kModuleCall) return;
  PyObject* self = self_of(frame);
  if (self == nullptr) return;
  const uint32_t row = row_of_instance(cache, PythonCalls::instance().modules, self, true);
  publish(log, open_call(log, RecordKind::kModuleCall, key, row, offset));
  Py_DECREF(self);
}

void enter_optimizer(ThreadCache& cache, ThreadLog& log, PyFrameObject* frame, uint64_t key, int32_t offset) {
  PyObject* self = self_of(frame);
  if (self == nullptr) return;
  PythonCalls& python = PythonCalls::instance();
  const uint32_t row = row_of_instance(cache, python.optimizers, self, false);
  Record* record = open_call(log, RecordKind::kOptimizerCall, key, python.frames.optimizer_row(), offset);
  if (record != nullptr) record->detail = row;
  publish(log, record);
  Py_DECREF(self);
}

}  // namespace

void python_enter(PyCodeObject* code, PyFrameObject* frame, uint64_t key, int32_t caller_offset) {
  ThreadLog* log = Recorder::this_thread();
  if (log == nullptr) return;
  ThreadCache& cache = cache_of(*log);
  if (cache.busy) return;
  const uint32_t id = frame_of(cache, code);
  if (id == kHiddenFrame) ++cache.hidden;
  if (cache.hidden != 0) return;
  if (id < kFirstSpecialFrame) [[likely]] {
    return publish(*log, open_call(*log, RecordKind::kPythonCall, key, id, caller_offset));
  }
  PyFrameObject* current = frame;
  if (current == nullptr) {
    current = PyEval_GetFrame();  // borrowed
    if (current == nullptr) return;
  }
  if (id == kModuleFrame) enter_module(cache, *log, current, key, caller_offset);
  if (id == kOptimizerFrame) enter_optimizer(cache, *log, current, key, caller_offset);
}

void python_leave(PyCodeObject* code, uint64_t key) {
  const uint64_t ticks = now_ticks();
  ThreadLog* log = Recorder::this_thread();
  if (log == nullptr) return;
  ThreadCache& cache = cache_of(*log);
  if (log->close_top(key, ticks)) return left_call(cache, *log, key, ticks);
  if (cache.busy) return;
  const uint32_t id = frame_of(cache, code);
  if (cache.hidden != 0) {
    if (id == kHiddenFrame) --cache.hidden;
    return;
  }
  if (id == kHiddenFrame || id == kModuleFrame) return;
  log->close_span(key, ticks);
  left_call(cache, *log, key, ticks);
}

void python_enter_c(PyObject* callable, int32_t offset) {
  ThreadLog* log = Recorder::this_thread();
  if (log == nullptr) return;
  ThreadCache& cache = cache_of(*log);
  if (cache.busy || cache.hidden != 0) return;
  const uint32_t name = c_function_name(cache, callable);
  publish(*log, open_call(*log, RecordKind::kCCall, address_key(callable) | 1, name, offset));
}

void python_leave_c(PyObject* callable) {
  const uint64_t ticks = now_ticks();
  ThreadLog* log = Recorder::this_thread();
  if (log == nullptr) return;
  cache_of(*log);
  log->close_if_open(address_key(callable) | 1, ticks);
}

PythonCalls& PythonCalls::instance() {
  static auto* calls = new PythonCalls;
  return *calls;
}

void PythonCalls::set_up(const char* hidden_folder, const char* shown_file, PyObject* module_class,
                         PyObject* module_code, PyObject* optimizer_code, PyObject* parameter_reader) {
  frames.hide_files_under(hidden_folder, shown_file);
  if (PyType_Check(module_class)) module_class_ = reinterpret_cast<PyTypeObject*>(module_class);
  if (PyCode_Check(module_code)) frames.set_module_code(reinterpret_cast<PyCodeObject*>(module_code));
  if (PyCode_Check(optimizer_code)) {
    frames.set_optimizer_code(reinterpret_cast<PyCodeObject*>(optimizer_code));
  }
  set_parameter_reader(parameter_reader);
}

void PythonCalls::configure(uint32_t wanted) {
  const bool calls = (wanted & kWantPython) != 0;
  const bool modules = (wanted & (kWantPython | kWantModules)) != 0;
  const bool had_calls = (configured_ & kWantPython) != 0;
  const bool had_modules = (configured_ & (kWantPython | kWantModules)) != 0;
  configured_ = wanted;
  this->modules.begin_window();
  optimizers.begin_window();
  ++window;
  if (calls && !had_calls) first_window = window;
  if (modules != had_modules) hook_modules(modules);
  if (calls != had_calls) hook_calls(calls);
}

void PythonCalls::hook_calls(bool on) {
  occupied_threads_ = on ? install_call_hooks() : (remove_call_hooks(), 0);
}

// Subclasses have a copy of the slot, made when the class was; those made later are met in
// enter_module().
void PythonCalls::hook_modules(bool on) {
  if (module_class_ == nullptr) return;
  if (on) original_call = module_class_->tp_call;
  const ternaryfunc from = on ? original_call : &on_module_call;
  const ternaryfunc to = on ? &on_module_call : original_call;
  std::vector<PyTypeObject*> pending{module_class_};
  while (!pending.empty()) {
    PyTypeObject* type = pending.back();
    pending.pop_back();
    if (type->tp_call == from) type->tp_call = to;
    PyObject* subclasses = PyObject_CallMethod(reinterpret_cast<PyObject*>(type), "__subclasses__", nullptr);
    if (subclasses == nullptr) {
      PyErr_Clear();
      continue;
    }
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(subclasses); ++i) {
      pending.push_back(reinterpret_cast<PyTypeObject*>(PyList_GET_ITEM(subclasses, i)));
    }
    Py_DECREF(subclasses);
  }
}

std::vector<InitialStack> PythonCalls::capture_stacks() {
  std::vector<InitialStack> stacks;
  ThreadCache& cache = thread_cache();
  PyInterpreterState* interpreter = PyInterpreterState_Get();
  for (PyThreadState* state = PyInterpreterState_ThreadHead(interpreter); state != nullptr;
       state = PyThreadState_Next(state)) {
    InitialStack stack{static_cast<uint64_t>(state->thread_id), 0, {}};
#if PY_VERSION_HEX >= 0x030B0000
    stack.system_thread_id = static_cast<int64_t>(state->native_thread_id);
#endif
    const bool is_current = state == PyThreadState_Get();
    if (is_current) cache.hidden = 0;
    PyFrameObject* frame = PyThreadState_GetFrame(state);
    while (frame != nullptr) {
      PyCodeObject* code = PyFrame_GetCode(frame);
      PyFrameObject* back = PyFrame_GetBack(frame);
      uint32_t id = frame_of(cache, code);
      // The functions of ours that are opening this window will return in it.
      if (is_current && id == kHiddenFrame && stack.frames.empty()) ++cache.hidden;
      if (id == kModuleFrame) id = frames.module_row();
      if (id < kFirstSpecialFrame) {
        stack.frames.insert(stack.frames.begin(), {id, frame_key(frame, code), instruction_of(back)});
      }
      Py_DECREF(reinterpret_cast<PyObject*>(code));
      Py_DECREF(reinterpret_cast<PyObject*>(frame));
      frame = back;
    }
    if (!stack.frames.empty()) stacks.push_back(std::move(stack));
  }
  return stacks;
}

void PythonCalls::forget() {
  frames.forget();
  modules.forget();
  optimizers.forget();
}

}  // namespace opscope
