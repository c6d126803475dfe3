#include "sources/python_module_calls.h"

#include "clock.h"
#include "core_api.h"
#include "sources/python_calls.h"
#include "sources/python_hooks.h"
#include "sources/python_parameters.h"
#include "sources/python_thread_cache.h"

namespace opscope {

namespace {

vectorcallfunc original_call = nullptr;  // the function's own way of being called

PyObject* record_call(PythonThreadCache& cache, PyObject* function, PyObject* const* args, size_t flags,
                      PyObject* names) {
  const uint32_t row = row_of_instance(PythonCalls::instance().modules, args[0], /*is_module=*/true);
  const uint64_t key = reinterpret_cast<uintptr_t>(args[0]);
  publish_call(cache.log, open_call(cache.log, RecordKind::kModuleCall, key, row, -1));
  PyObject* result = original_call(function, args, flags, names);
  cache.log.close_span(key, now_ticks());
  return result;
}

PyObject* on_module_call(PyObject* function, PyObject* const* args, size_t flags, PyObject* names) {
  const uint32_t wanted = Recorder::instance().wanted();
  const bool is_wanted = (wanted & (kWantPython | kWantModules)) != 0 && PyVectorcall_NARGS(flags) > 0;
  PythonThreadCache* cache = is_wanted ? PythonThreadCache::get() : nullptr;
  if (cache == nullptr || cache->busy) return original_call(function, args, flags, names);
  // Where calls are reported the module is the frame that begins now, so that it ends as that does.
  if ((wanted & kWantPython) == 0 || !reports_calls(PyThreadState_Get())) {
    return record_call(*cache, function, args, flags, names);
  }
  cache->module = args[0];
  return original_call(function, args, flags, names);
}

}  // namespace

void hook_module_function(PyObject* object) {
  auto* function = reinterpret_cast<PyFunctionObject*>(object);
  original_call = function->vectorcall;
#if PY_VERSION_HEX >= 0x030C0000
  PyFunction_SetVectorcall(function, &on_module_call);
#else
#if PY_VERSION_HEX >= 0x030B0000
  function->func_version = 0;  // so that no call site believes it knows what the function does
#endif
  function->vectorcall = &on_module_call;
#endif
}

void unhook_module_function(PyObject* object) {
  auto* function = reinterpret_cast<PyFunctionObject*>(object);
  if (function->vectorcall == &on_module_call) function->vectorcall = original_call;
}

uint32_t row_of_instance(InstanceTable& table, PyObject* instance, bool is_module) {
  bool is_new = false;
  const uint32_t row = table.intern(instance, &is_new);
  PythonThreadCache* cache = PythonThreadCache::get();
  if (is_new && cache != nullptr) {
    cache->busy = true;
    record_parameters(instance, row, is_module);
    cache->busy = false;
  }
  return row;
}

}  // namespace opscope
