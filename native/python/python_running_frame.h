// Frame of a running Python function, its caller and its instruction.
#pragma once

#include <Python.h>

#include <cstdint>

#include "cpython/frame.h"
#include "log/open_spans.h"

namespace opscope {

class RunningFrame {
 public:
  explicit RunningFrame(cpython::Frame* frame) : frame_(frame) {}

  static RunningFrame current(PyThreadState* state) {
    return RunningFrame(complete(cpython::current_frame(state)));
  }

  // [owner of `state`] The same without the GIL, in C code called from Python: no other thread changes this
  // thread's frames, and this thread runs no Python during the read. Null if the frames need the GIL.
  static RunningFrame current_without_gil([[maybe_unused]] PyThreadState* state) {
    if constexpr (cpython::kReadsWithoutGil) {
      return current(state);
    } else {
      return RunningFrame(nullptr);
    }
  }

  explicit operator bool() const { return frame_ != nullptr; }
  RunningFrame caller() const { return RunningFrame(complete(cpython::previous_of(frame_))); }
  PyCodeObject* code() const { return cpython::code_of(frame_); }
  // Offset of the current instruction, as PyCode_Addr2Line expects it.
  int32_t instruction() const { return cpython::instruction_of(frame_); }
  const void* address() const { return frame_; }
  // Whether the call may not have been reported yet.
  bool may_begin() const { return cpython::may_begin(frame_); }
  // First argument of a function that begins now, or nullptr. A new reference.
  PyObject* first_argument() const { return Py_XNewRef(first_of(code(), cpython::first_local_of(frame_))); }

 private:
  static cpython::Frame* complete(cpython::Frame* frame) {
    while (frame != nullptr && cpython::is_incomplete(frame)) frame = cpython::previous_of(frame);
    return frame;
  }

  // `local`: first local variable. Borrowed.
  static PyObject* first_of(const PyCodeObject* code, PyObject* local) {
    if (local != nullptr && PyCell_Check(local)) local = PyCell_GET(local);  // an inner function uses it too
    if (code->co_argcount > 0) return local;
    const bool has_arguments = local != nullptr && (code->co_flags & CO_VARARGS) != 0 &&
                               code->co_kwonlyargcount == 0 && PyTuple_Check(local);
    return has_arguments && PyTuple_GET_SIZE(local) > 0 ? PyTuple_GET_ITEM(local, 0) : nullptr;
  }

  cpython::Frame* frame_;
};

// Key of this call's span, unique among running calls.
inline uint64_t key_of(const RunningFrame& frame, const PyCodeObject* code) {
  return kWatchedCall |
         (reinterpret_cast<uintptr_t>(frame.address()) ^ reinterpret_cast<uintptr_t>(code) << 16);
}

}  // namespace opscope
