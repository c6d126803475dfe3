#include "python/python_module_calls.h"

#include "log/clock.h"
#include "log/core_api.h"
#include "python/python_calls.h"
#include "python/python_hooks.h"
#include "python/python_parameters.h"
#include "python/python_thread_cache.h"

namespace opscope {

namespace {

vectorcallfunc original_call = nullptr;  // the function's own vectorcall

// The module: the function's first argument, by position or by name. nullptr if it is missing or given twice;
// then the call fails. Borrowed from the call.
PyObject* module_of_call(PyObject* const* args, size_t flags, PyObject* names) {
  const Py_ssize_t count = PyVectorcall_NARGS(flags);
  const Py_ssize_t keywords = names == nullptr ? 0 : PyTuple_GET_SIZE(names);
  for (Py_ssize_t i = 0; i < keywords; ++i) {
    if (PyUnicode_CompareWithASCIIString(PyTuple_GET_ITEM(names, i), "self") != 0) continue;
    return count == 0 ? args[i] : nullptr;
  }
  return count == 0 ? nullptr : args[0];
}

PyObject* record_call(PythonThreadCache& cache, PyObject* module, PyObject* function, PyObject* const* args,
                      size_t flags, PyObject* names) {
  const uint64_t key = reinterpret_cast<uintptr_t>(module);
  bool is_open = false;
  without_exceptions([&] {
    const uint32_t row = row_of_instance(PythonCalls::instance().modules, module, /*is_module=*/true);
    begin_call(cache.log,
               {RecordKind::kModuleCall, key, PythonCalls::instance().frames.module_row(), -1, row});
    is_open = true;
  });
  // Another thread may enable call events for this one before the frame begins.
  const PythonThreadCache::ModuleCall outer = cache.module_call;
  if (is_open) cache.module_call = {module, RunningFrame::current(PyThreadState_Get()).address()};
  PyObject* result = original_call(function, args, flags, names);
  cache.module_call = outer;
  if (is_open) without_exceptions([&] { cache.log.close_span(key, now_ticks()); });
  return result;
}

PyObject* on_module_call(PyObject* function, PyObject* const* args, size_t flags, PyObject* names) {
  const uint32_t wanted = Recorder::instance().wanted();
  const bool is_wanted = (wanted & (kWantCalls | kWantModules)) != 0;
  PyObject* const module = is_wanted ? module_of_call(args, flags, names) : nullptr;
  PythonThreadCache* cache = module == nullptr ? nullptr : PythonThreadCache::get();
  if (cache == nullptr || cache->busy) return original_call(function, args, flags, names);
  // If calls are reported, the frame that begins now records the module call.
  if ((wanted & kWantCalls) != 0 && reports_calls(PyThreadState_Get())) {
    without_exceptions([&] { catch_up_now(*cache); });  // spans of functions that run already come first
    const size_t depth = cache->log.depth();
    PyObject* result = original_call(function, args, flags, names);
    // Calls may no longer be reported; then the span is still open.
    if (cache->log.depth() > depth) [[unlikely]]
      cache->log.leave_calls_above(depth, now_ticks());
    return result;
  }
  return record_call(*cache, module, function, args, flags, names);
}

}  // namespace

void hook_module_function(PyObject* object) {
  auto* function = reinterpret_cast<PyFunctionObject*>(object);
#if PY_VERSION_HEX >= 0x030E0000
  original_call = function->vectorcall;
  PyFunction_SetVectorcall(function, &on_module_call);  // stops all threads itself
#else
  at_one_moment([function] {
    original_call = function->vectorcall;
#if PY_VERSION_HEX >= 0x030C0000
    PyFunction_SetVectorcall(function, &on_module_call);
#else
#if PY_VERSION_HEX >= 0x030B0000
    function->func_version = 0;  // invalidates call sites that cached the function
#endif
    function->vectorcall = &on_module_call;
#endif
  });
#endif
}

void unhook_module_function(PyObject* object) {
  auto* function = reinterpret_cast<PyFunctionObject*>(object);
  at_one_moment([function] {
    if (function->vectorcall == &on_module_call) function->vectorcall = original_call;
  });
}

uint32_t row_of_instance(InstanceTable& table, PyObject* instance, bool is_module) {
  bool is_new = false;
  const uint32_t row = table.intern(instance, &is_new);
  if (!is_new) [[likely]]
    return row;
  PyObject* rows = nullptr;
  const bool was_read = read_parameters(instance, &rows);
  // Reading runs Python, so the table may have been emptied.
  const uint32_t row_now = table.intern(instance, &is_new);
  if (!was_read) table.read_again(instance);
  record_parameters(rows, row_now, is_module);
  Py_XDECREF(rows);
  return row_now;
}

}  // namespace opscope
