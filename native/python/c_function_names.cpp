// Names of C functions; each is stored once per process.
#include "python/c_function_names.h"

#include <cstdio>
#include <map>
#include <string>
#include <utility>

#include "interpreter/free_threads.h"
#include "log/core_api.h"
#include "log/recorder.h"
#include "python/python_thread_cache.h"

namespace opscope {

namespace {

uint64_t address_key(const void* address) { return reinterpret_cast<uintptr_t>(address); }

// Name of a C function as its repr gives it. A method of a built-in type is named as if bound to `self`, as
// Python before 3.12 reports it.
std::string text_of_c_function(const PyMethodDef* method, PyObject* self) {
  if (self == nullptr || PyModule_Check(self))
    return std::string("<built-in function ") + method->ml_name + ">";
  char address[32];
  std::snprintf(address, sizeof(address), "%p", static_cast<void*>(self));
  return std::string("<built-in method ") + method->ml_name + " of " + Py_TYPE(self)->tp_name +
         " object at " + address + ">";
}

struct KnownFunction {
  // A different name shows that the addresses now belong to other objects.
  std::string method_name;
  std::string type_name;
  uint32_t name = 0;
};

// [GIL] Names contain object addresses and are never freed, so each function has one per process: one per
// thread, window or cache collision would add up.
uint32_t known_name(const PyMethodDef* method, PyTypeObject* type, PyObject* self) {
  static auto& functions = *new std::map<std::pair<const void*, const void*>, KnownFunction>;
  const TablesLock lock;
  const char* type_name = type == nullptr ? "" : type->tp_name;
  const auto [entry, is_new] = functions.try_emplace({method, type});
  KnownFunction& known = entry->second;
  if (is_new || known.method_name != method->ml_name || known.type_name != type_name) {
    const uint32_t name = Recorder::instance().names().intern(text_of_c_function(method, self).c_str());
    known = {method->ml_name, type_name, name};
  }
  return known.name;
}

}  // namespace

// Bound methods are temporary objects, so the key of a C function is its definition and the type that it is
// called on. The name is that of the first one seen.
uint32_t c_function_name(PythonThreadCache& cache, PyObject* callable, PyObject* self) {
  const PyMethodDef* method = nullptr;
  if (PyCFunction_Check(callable)) {
    const auto* function = reinterpret_cast<PyCFunctionObject*>(callable);
    method = function->m_ml;
    self = function->m_self;
  } else {
    method = reinterpret_cast<PyMethodDescrObject*>(callable)->d_method;
  }
  PyTypeObject* type = self == nullptr ? nullptr : Py_TYPE(self);
  const uint64_t hash = address_key(method) >> 4 ^ address_key(type) >> 6;
  auto& slot = cache.functions[hash % cache.functions.size()];
  const unsigned version = type == nullptr ? 0 : __atomic_load_n(&type->tp_version_tag, __ATOMIC_RELAXED);
  const bool is_known = slot.method == method && slot.type == type && slot.version == version &&
                        (version != 0 || type == nullptr);
  if (!is_known) [[unlikely]] {
    slot = {method, type, version, known_name(method, type, self)};
  }
  return slot.name;
}

}  // namespace opscope
