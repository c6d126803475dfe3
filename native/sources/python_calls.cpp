// What happens at each call: the functions that the hooks call.
#include "sources/python_calls.h"

#include <cstdio>
#include <map>
#include <memory>
#include <unordered_set>
#include <utility>

#include "clock.h"
#include "core_api.h"
#include "sources/python_hooks.h"
#include "sources/python_parameters.h"
#include "sources/python_thread_cache.h"

namespace opscope {

namespace {

uint64_t address_key(const void* address) { return reinterpret_cast<uintptr_t>(address); }
uint64_t c_key(const void* callable) { return address_key(callable) | 1; }

// A C function is named as it prints itself; a method of a built-in type as it would once bound to
// `self`, which is how versions of Python before 3.12 report it.
uint32_t intern_c_function(PythonThreadCache& cache, PyObject* callable, const PyMethodDef* method,
                           PyObject* self) {
  NameTable& names = Recorder::instance().names();
  if (self != nullptr) {
    char text[512];
    std::snprintf(text, sizeof(text), "<built-in method %s of %s object at %p>", method->ml_name,
                  Py_TYPE(self)->tp_name, static_cast<void*>(self));
    return names.intern(text);
  }
  cache.busy = true;
  PyObject* text = PyObject_Repr(callable);
  cache.busy = false;
  const char* bytes = text == nullptr ? nullptr : PyUnicode_AsUTF8(text);
  if (bytes == nullptr) PyErr_Clear();
  const uint32_t name = names.intern(bytes == nullptr ? method->ml_name : bytes);
  Py_XDECREF(text);
  return name;
}

struct KnownFunction {
  // Tell when the addresses have come to mean something else.
  const char* method_name = nullptr;
  const char* type_name = nullptr;
  uint32_t name = 0;
};

// [GIL] Names carry addresses of objects and are kept for good, so each function has one for the
// life of the process: one per thread, window or collision in a thread's cache would add up.
uint32_t known_name(PythonThreadCache& cache, PyObject* callable, const PyMethodDef* method,
                    PyTypeObject* type, PyObject* self) {
  static auto& functions = *new std::map<std::pair<const void*, const void*>, KnownFunction>;
  const char* type_name = type == nullptr ? nullptr : type->tp_name;
  const auto found = functions.find({method, type});
  if (found != functions.end() && found->second.method_name == method->ml_name &&
      found->second.type_name == type_name) {
    return found->second.name;
  }
  const uint32_t name = intern_c_function(cache, callable, method, self);
  functions[{method, type}] = {method->ml_name, type_name, name};
  return name;
}

// Bound methods are temporary objects, so a C function is known by its definition and by the type
// it is called on; the name is that of the first one seen.
uint32_t c_function_name(PythonThreadCache& cache, PyObject* callable, PyObject* self) {
  const PyMethodDef* method = nullptr;
  PyTypeObject* type = self == nullptr ? nullptr : Py_TYPE(self);
  if (PyCFunction_Check(callable)) {
    const auto* function = reinterpret_cast<PyCFunctionObject*>(callable);
    method = function->m_ml;
    if (function->m_self != nullptr) type = Py_TYPE(function->m_self);
  } else {
    method = reinterpret_cast<PyMethodDescrObject*>(callable)->d_method;
  }
  const uint64_t hash = address_key(method) >> 4 ^ address_key(type) >> 6;
  auto& slot = cache.functions[hash % cache.functions.size()];
  if (slot.method != method || slot.type != type) [[unlikely]] {
    slot = {method, type, known_name(cache, callable, method, type, self)};
  }
  return slot.name;
}

// The object a method's frame works on: its first argument, called self. A new reference.
PyObject* self_of_current_frame() {
  PyFrameObject* frame = PyEval_GetFrame();  // borrowed
  if (frame == nullptr) return nullptr;
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

// `module`: what the hooked nn.Module.__call__ was given. Code that calls the function directly, as
// super().__call__(x) does, passes it by on Python 3.11.
void enter_module(PythonThreadCache& cache, PyObject* module, uint64_t key, int32_t offset) {
  PyObject* self = module == nullptr ? self_of_current_frame() : Py_NewRef(module);
  if (self == nullptr) return;
  const uint32_t row = row_of_instance(PythonCalls::instance().modules, self, /*is_module=*/true);
  publish_call(cache.log, open_call(cache.log, RecordKind::kModuleCall, key, row, offset));
  Py_DECREF(self);
}

void enter_optimizer(PythonThreadCache& cache, uint64_t key, int32_t offset) {
  PyObject* self = self_of_current_frame();
  if (self == nullptr) return;
  PythonCalls& python = PythonCalls::instance();
  const uint32_t row = row_of_instance(python.optimizers, self, /*is_module=*/false);
  Record* record =
      open_call(cache.log, RecordKind::kOptimizerCall, key, python.frames.optimizer_row(), offset);
  if (record != nullptr) record->detail = row;
  publish_call(cache.log, record);
  Py_DECREF(self);
}

// How many of opscope's own functions are running, inside the program if that runs in one of them.
// One that opened a window still calls others before it returns.
uint32_t hidden_depth(PythonThreadCache& cache, RunningFrame frame) {
  uint32_t depth = 0;
  for (; frame; frame = frame.caller()) {
    const uint32_t id = frame_of(cache, frame.code());
    if (id == kProgramFrame) break;
    depth += id == kHiddenFrame;
  }
  return depth;
}

// The hooks were away: what ended meanwhile is still on the stack. A C function is running if
// something is that it called.
[[gnu::noinline]] void catch_up(PythonThreadCache& cache, RunningFrame frame) {
  cache.installation = PythonCalls::installation();
  cache.hidden = hidden_depth(cache, frame);
  if (cache.log.depth() == 0) return;
  std::unordered_set<uint64_t> running;
  for (; frame; frame = frame.caller()) running.insert(key_of(frame, frame.code()));
  bool has_running_callee = false;
  cache.log.leave_spans(now_ticks(), [&](uint64_t key, const Record& record) {
    if (record.kind == RecordKind::kCCall) return !has_running_callee;
    if (!is_frame_key(key)) return false;
    const bool is_running = running.contains(key);
    has_running_callee |= is_running;
    return !is_running;
  });
}

// The cache, unless this call is not to be recorded.
PythonThreadCache* begin_event(RunningFrame frame) {
  PythonThreadCache* cache = PythonThreadCache::get();
  if (cache == nullptr || cache->busy) [[unlikely]]
    return nullptr;
  if (cache->installation != PythonCalls::installation()) [[unlikely]]
    catch_up(*cache, frame);
  return cache;
}

int32_t instruction_of(RunningFrame frame) { return frame ? frame.instruction() : -1; }

}  // namespace

// A thread's caches go with it. The pointer is apart because it can be read even after that.
struct PythonThreadCacheOwner {
  ~PythonThreadCacheOwner() {
    PythonThreadCache* cache = PythonThreadCache::this_cache_;
    PythonThreadCache::this_cache_ = nullptr;
    delete cache;
  }
};

PythonThreadCache* PythonThreadCache::make() {
  thread_local PythonThreadCacheOwner owner;
  (void)&owner;  // odr-use: constructs it, so that its destructor runs
  ThreadLog* log = Recorder::this_thread();
  if (log != nullptr) this_cache_ = new PythonThreadCache(*log);
  return this_cache_;
}

uint32_t frame_of(PythonThreadCache& cache, PyCodeObject* code) {
  FrameTable& frames = PythonCalls::instance().frames;
  if (cache.epoch != frames.epoch()) [[unlikely]] {
    cache.codes.fill({});
    cache.functions.fill({});
    cache.epoch = frames.epoch();
  }
  auto& slot = cache.codes[(address_key(code) >> 5) % cache.codes.size()];
  if (slot.code != code) slot = {code, frames.intern(code)};
  return slot.id;
}

Record* open_call(ThreadLog& log, RecordKind kind, uint64_t key, uint32_t name, int32_t offset) {
  Recorder::instance().hear_memory(log);
  Record* record = log.open_span(key);
  if (record == nullptr) return nullptr;
  record->kind = kind;
  record->scope = 0;
  record->sequence_number = -1;
  record->name = name;
  record->forward_thread = static_cast<uint32_t>(offset);
  return record;
}

void publish_call(ThreadLog& log, Record* record) {
  if (record == nullptr) return;
  record->ticks = now_ticks();
  log.publish_span();
}

void python_enter(PyCodeObject* code, RunningFrame frame) {
  const RunningFrame caller = frame.caller();
  PythonThreadCache* cache = begin_event(caller);
  if (cache == nullptr) return;
  PyObject* const module = cache->module;
  cache->module = nullptr;
  const uint32_t id = frame_of(*cache, code);
  if (id < kFirstSpecialFrame && cache->hidden == 0) [[likely]] {
    return publish_call(cache->log, open_call(cache->log, RecordKind::kPythonCall, key_of(frame, code), id,
                                              instruction_of(caller)));
  }
  if (id == kHiddenFrame) ++cache->hidden;
  if (id == kProgramFrame) cache->hidden = 0;
  if (cache->hidden != 0 || id == kProgramFrame) return;
  const int32_t offset = instruction_of(caller);
  if (id == kModuleFrame) enter_module(*cache, module, key_of(frame, code), offset);
  if (id == kOptimizerFrame) enter_optimizer(*cache, key_of(frame, code), offset);
}

void python_leave(PyCodeObject* code, RunningFrame frame) {
  const uint64_t ticks = now_ticks();
  PythonThreadCache* cache = begin_event(frame);
  if (cache == nullptr) return;
  const uint64_t key = key_of(frame, code);
  const uint64_t overlap_ticks = PythonCalls::overlap_ticks();
  if (cache->log.is_top(key)) [[likely]] {
    const bool is_in_two_windows = cache->log.top_start() < overlap_ticks;
    cache->log.close_span(key, ticks);
    if (is_in_two_windows) [[unlikely]]
      cache->log.note_end(key, ticks);
    return;
  }
  const uint32_t id = frame_of(*cache, code);
  if (id == kHiddenFrame && cache->hidden != 0) --cache->hidden;
  if (id == kHiddenFrame || id == kProgramFrame || cache->hidden != 0) return;
  cache->log.close_span(key, ticks, EndOf::kPythonCall);
  if (overlap_ticks != 0) cache->log.note_end(key, ticks);
}

void python_enter_c(PyObject* callable, PyObject* self, RunningFrame caller) {
  PythonThreadCache* cache = begin_event(caller);
  if (cache == nullptr || cache->hidden != 0) return;
  const uint32_t name = c_function_name(*cache, callable, self);
  const int32_t offset = caller.instruction();
  publish_call(cache->log, open_call(cache->log, RecordKind::kCCall, c_key(callable), name, offset));
}

// One that began before the hooks did has no span.
void python_leave_c(PyObject* callable, RunningFrame caller) {
  const uint64_t ticks = now_ticks();
  PythonThreadCache* cache = begin_event(caller);
  if (cache == nullptr || cache->hidden != 0) return;
  cache->log.close_if_open(c_key(callable), ticks);
}

}  // namespace opscope
