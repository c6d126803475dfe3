#include "python/compiled_code.h"

#include <nanobind/stl/string.h>
#include <structmember.h>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <string>
#include <unordered_set>

#include "interpreter/free_threads.h"
#include "log/clock.h"
#include "python/annotation.h"
#include "python/python_calls.h"
#include "python/python_hooks.h"
#include "python/python_thread_cache.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace opscope {

namespace {

// A compiled graph that runs on this thread. It lives on the stack of the C function that runs it, so its
// address is a unique key while it runs.
struct RunningGraph {
  const PyCodeObject* code;
  const RunningGraph* outer;

  uint64_t key() const { return reinterpret_cast<uintptr_t>(this); }
};

constexpr int kMostFramesBetween = 16;

thread_local const RunningGraph* running_graph = nullptr;

// Log of the span; nullptr if no window wants it.
ThreadLog* log_for(uint32_t wanted_by) {
  if ((Recorder::instance().wanted() & wanted_by) == 0) [[likely]]
    return nullptr;
  const PythonThreadCache* const cache = PythonThreadCache::existing();
  return cache != nullptr && cache->busy ? nullptr : Recorder::this_thread();
}

SpanState state_after(const PyObject* result) {
  return result == nullptr ? SpanState::kRaised : SpanState::kClosed;
}

// Replaces a function of generated code: a kernel, or the function that runs a graph.
struct RecordedFunction {
  PyObject_HEAD vectorcallfunc call;
  PyObject* function;           // owned
  const char* name;             // of its spans; never freed
  Shared<uint32_t> row;         // of a graph, in the table of functions
  std::atomic<uint64_t> epoch;  // of that table when `row` was read
};

uint32_t row_of(RecordedFunction& graph, PyCodeObject* code) {
  FrameTable& frames = PythonCalls::instance().frames;
  const uint64_t epoch = frames.epoch();
  if (graph.epoch.load(std::memory_order_acquire) != epoch) {
    graph.row = frames.plain_row(code);
    graph.epoch.store(epoch, std::memory_order_release);
  }
  return graph.row;
}

PyObject* run_graph(PyObject* object, PyObject* const* args, size_t flags, PyObject* names) {
  auto* const graph = reinterpret_cast<RecordedFunction*>(object);
  ThreadLog* const log = log_for(kWantCompiled);
  if (log == nullptr) return PyObject_Vectorcall(graph->function, args, flags, names);
  auto* const code = reinterpret_cast<PyCodeObject*>(PyFunction_GET_CODE(graph->function));
  const RunningGraph running{code, running_graph};
  without_exceptions([&] {
    const uint32_t name = name_id(Recorder::instance(), *log, graph->name);
    begin_call(*log, {RecordKind::kCompiledGraph, running.key(), row_of(*graph, code), -1, name});
  });
  running_graph = &running;
  ++log->graphs_running;
  PyObject* const result = PyObject_Vectorcall(graph->function, args, flags, names);
  const uint64_t ticks = now_ticks();
  --log->graphs_running;
  running_graph = running.outer;
  log->close_span(running.key(), ticks, EndOf::kSpan, state_after(result));
  return result;
}

PyObject* run_kernel(PyObject* object, PyObject* const* args, size_t flags, PyObject* names) {
  auto* const kernel = reinterpret_cast<RecordedFunction*>(object);
  ThreadLog* const log = log_for(kWantOperators);
  if (log == nullptr) return PyObject_Vectorcall(kernel->function, args, flags, names);
  const uint64_t key = reinterpret_cast<uintptr_t>(&kernel);  // unique per running call
  const uint32_t place = place_in_python(log);
  Recorder& recorder = Recorder::instance();
  const uint32_t name = name_id(recorder, *log, kernel->name);
  if (Record* const record = log->open_span(key); record != nullptr) {
    record->kind = RecordKind::kOperator;
    record->scope = RecordScope::kFunction;
    record->op.sequence_number = -1;
    record->op.name = name;
    record->op.inputs = kNoArena;
    record->op.forward_thread = 0;
    record->op.place = place;
    record->ticks = now_ticks();
    log->publish_span();
  }
  PyObject* const result = PyObject_Vectorcall(kernel->function, args, flags, names);
  log->close_span(key, now_ticks(), EndOf::kSpan, state_after(result));
  return result;
}

int visit_function(PyObject* self, visitproc visit, void* arg) {
  Py_VISIT(reinterpret_cast<RecordedFunction*>(self)->function);
  Py_VISIT(Py_TYPE(self));
  return 0;
}

int clear_function(PyObject* self) {
  Py_CLEAR(reinterpret_cast<RecordedFunction*>(self)->function);
  return 0;
}

void free_function(PyObject* self) {
  PyTypeObject* const type = Py_TYPE(self);
  PyObject_GC_UnTrack(self);
  clear_function(self);
  type->tp_free(self);
  Py_DECREF(reinterpret_cast<PyObject*>(type));
}

// Attributes come from the replaced function.
PyObject* attribute_of_function(PyObject* self, PyObject* name) {
  return PyObject_GetAttr(reinterpret_cast<RecordedFunction*>(self)->function, name);
}

PyMemberDef function_members[] = {
    {"__vectorcalloffset__", T_PYSSIZET, offsetof(RecordedFunction, call), READONLY, nullptr},
    {nullptr, 0, 0, 0, nullptr},
};

PyType_Slot function_slots[] = {
    {Py_tp_dealloc, reinterpret_cast<void*>(&free_function)},
    {Py_tp_traverse, reinterpret_cast<void*>(&visit_function)},
    {Py_tp_clear, reinterpret_cast<void*>(&clear_function)},
    {Py_tp_call, reinterpret_cast<void*>(&PyVectorcall_Call)},
    {Py_tp_getattro, reinterpret_cast<void*>(&attribute_of_function)},
    {Py_tp_members, function_members},
    {0, nullptr},
};

PyType_Spec function_spec = {
    "opscope._native.RecordedFunction", sizeof(RecordedFunction), 0,
    Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_HAVE_VECTORCALL | Py_TPFLAGS_DISALLOW_INSTANTIATION,
    function_slots};

// [GIL] nullptr with an error set if memory is short.
PyTypeObject* function_type() {
  static auto* type = reinterpret_cast<PyTypeObject*>(PyType_FromSpec(&function_spec));
  return type;
}

// Never freed: the recorder keeps names for the life of the process.
const char* kept_text(const std::string& text) {
  static auto& texts = *new std::unordered_set<std::string>;
  const TablesLock lock;
  return texts.insert(text).first->c_str();
}

nb::object recorded(nb::handle function, const std::string& name, vectorcallfunc call) {
  PyTypeObject* const type = function_type();
  PyObject* const object = type == nullptr ? nullptr : type->tp_alloc(type, 0);
  if (object == nullptr) throw nb::python_error();
  auto* const made = reinterpret_cast<RecordedFunction*>(object);
  made->call = call;
  made->function = Py_NewRef(function.ptr());
  made->name = kept_text(name);
  made->row = 0;
  made->epoch = 0;
  return nb::steal(object);
}

nb::object recorded_kernel(nb::handle function, const std::string& name) {
  return recorded(function, name, &run_kernel);
}

// The function that runs a graph is a Python function with the code of the generated file.
nb::object recorded_graph(nb::handle function, const std::string& name) {
  if (!PyFunction_Check(function.ptr())) throw nb::type_error("not a Python function");
  return recorded(function, name, &run_graph);
}

nb::object unrecorded(nb::handle object) {
  const bool is_ours = Py_TYPE(object.ptr()) == function_type();
  return nb::borrow(is_ours ? reinterpret_cast<RecordedFunction*>(object.ptr())->function : object.ptr());
}

}  // namespace

uint32_t place_in_generated_code(uint64_t innermost_key) {
  if (running_graph == nullptr || running_graph->key() != innermost_key) return 0;
  PyThreadState* const state = PyGILState_GetThisThreadState();
  if (state == nullptr) return 0;
  RunningFrame frame = RunningFrame::current_without_gil(state);
  // Operators without a function of their own are called through one of torch's functions.
  for (int depth = 0; frame && frame.code() != running_graph->code; ++depth) {
    if (depth == kMostFramesBetween) return 0;
    frame = frame.caller();
  }
  if (!frame) return 0;
  return static_cast<uint32_t>(std::max(frame.instruction(), -1) + 1);
}

void bind_compiled_code(nb::module_& module) {
  module.def("recorded_kernel", &recorded_kernel, "function"_a, "name"_a);
  module.def("recorded_graph", &recorded_graph, "function"_a, "name"_a);
  module.def("unrecorded", &unrecorded, "function"_a);
}

}  // namespace opscope
