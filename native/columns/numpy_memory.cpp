// Makes NumPy allocate arrays from ReusedMemory.
#include <nanobind/nanobind.h>

#include <cstdint>

#include "columns/reused_memory.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace opscope {
namespace {

using columns::ReusedMemory;

// PyDataMem_Handler (version 1) of NumPy's ndarraytypes.h; its layout is part of NumPy's ABI.
struct Handler {
  char name[127];
  uint8_t version;
  void* context;
  void* (*allocate)(void* context, size_t size);
  void* (*allocate_cleared)(void* context, size_t count, size_t size);
  void* (*reallocate)(void* context, void* data, size_t size);
  void (*release)(void* context, void* data, size_t size);
};

Handler handler = {
    "opscope_reused",
    1,
    nullptr,
    [](void*, size_t size) { return ReusedMemory::instance().allocate(size); },
    [](void*, size_t count, size_t size) { return ReusedMemory::instance().allocate_cleared(count, size); },
    [](void*, void* data, size_t size) { return ReusedMemory::instance().reallocate(data, size); },
    [](void*, void* data, size_t) { ReusedMemory::instance().release(data); },
};

// PyDataMem_SetHandler, by its index in NumPy's function table (NEP 49). Indices never change.
using SetHandler = PyObject* (*)(PyObject*);
constexpr size_t kSetHandler = 304;

SetHandler find_set_handler() {
  nb::object numpy;
  try {
    numpy = nb::module_::import_("numpy._core._multiarray_umath");
  } catch (nb::python_error& error) {
    if (!error.matches(PyExc_ImportError)) throw;
    numpy = nb::module_::import_("numpy.core._multiarray_umath");  // before 2.0
  }
  void* const functions = PyCapsule_GetPointer(numpy.attr("_ARRAY_API").ptr(), nullptr);
  if (functions == nullptr) nb::raise_python_error();
  return reinterpret_cast<SetHandler>(static_cast<void**>(functions)[kSetHandler]);
}

// [GIL] While such an object exists, this thread's arrays use reused memory.
class Reusing {
 public:
  Reusing() {
    // No lock during the look-up: it may release the GIL to a thread that would wait here.
    static SetHandler found = nullptr;
    if (found == nullptr) found = find_set_handler();
    set_handler_ = found;
    const nb::capsule ours(&handler, "mem_handler");
    before_ = set_handler_(ours.ptr());
    if (before_ == nullptr) nb::raise_python_error();
    ReusedMemory::instance().begin();
  }
  Reusing(const Reusing&) = delete;
  Reusing& operator=(const Reusing&) = delete;
  ~Reusing() {
    ReusedMemory::instance().end();
    const nb::error_scope raised;
    Py_XDECREF(set_handler_(before_));
    Py_DECREF(before_);
  }

 private:
  SetHandler set_handler_ = nullptr;
  PyObject* before_ = nullptr;
};

nb::object with_reused_memory(nb::handle function, nb::args args, nb::kwargs kwargs) {
  const Reusing reusing;
  return nb::borrow<nb::callable>(function)(*args, **kwargs);
}

}  // namespace

void bind_numpy_memory(nb::module_& m) {
  m.def("with_reused_memory", &with_reused_memory, "function"_a, "args"_a, "kwargs"_a);
  m.def("reused_memory", [] {
    const auto [used, kept] = ReusedMemory::instance().amounts();
    return nb::make_tuple(used, kept);
  });
}

}  // namespace opscope
