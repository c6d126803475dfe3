// A Python function that is running: who called it, and where it is.
//
// From 3.11 on a frame object is made only for code that asks for one, and making it costs more than
// recording the call. So CPython's internal frames are read where their layout is known (3.11 to 3.15): with
// the GIL, or while their thread is stopped or runs this, and never written to.
#pragma once

#include <Python.h>

#include <cstdint>

#include "log/open_spans.h"

#if PY_VERSION_HEX >= 0x030B0000 && PY_VERSION_HEX < 0x03100000
#define OPSCOPE_READS_FRAMES 1
#define Py_BUILD_CORE 1
#if PY_VERSION_HEX >= 0x030E0000
#include <internal/pycore_interpframe_structs.h>
#else
#include <internal/pycore_frame.h>
#endif
#undef Py_BUILD_CORE
#include <opcode.h>
#else
#include <frameobject.h>
#endif

namespace opscope {

// [GIL] `local`: the first local variable of a function that has just begun. Borrowed.
inline PyObject* first_of(const PyCodeObject* code, PyObject* local) {
  if (local != nullptr && PyCell_Check(local)) local = PyCell_GET(local);  // an inner function has it too
  if (code->co_argcount > 0) return local;
  const bool has_arguments = local != nullptr && (code->co_flags & CO_VARARGS) != 0 &&
                             code->co_kwonlyargcount == 0 && PyTuple_Check(local);
  return has_arguments && PyTuple_GET_SIZE(local) > 0 ? PyTuple_GET_ITEM(local, 0) : nullptr;
}

#ifdef OPSCOPE_READS_FRAMES

// What the functions of CPython's headers say, which from 3.14 on are not C++.
#if PY_VERSION_HEX >= 0x030E0000

// A reference of a frame has how it is counted in its lowest bits.
inline PyObject* borrow(_PyStackRef reference) {
  return reinterpret_cast<PyObject*>(reference.bits & ~uintptr_t{3});
}

inline PyCodeObject* code_of_frame(const _PyInterpreterFrame* frame) {
  return reinterpret_cast<PyCodeObject*>(borrow(frame->f_executable));
}

inline const _Py_CODEUNIT* instructions_of(const _PyInterpreterFrame* frame) {
  const PyCodeObject* const code = code_of_frame(frame);
#ifdef Py_GIL_DISABLED
  // Each thread has its own instructions; a thread that comes has a longer list of them made.
  const _PyCodeArray* const by_thread = __atomic_load_n(&code->co_tlbc, __ATOMIC_ACQUIRE);
  return reinterpret_cast<const _Py_CODEUNIT*>(by_thread->entries[frame->tlbc_index]);
#else
  return reinterpret_cast<const _Py_CODEUNIT*>(code->co_code_adaptive);
#endif
}

// C calling Python leaves frames that belong to no function in between, and a function's is not whole yet
// while its cells are made.
inline bool is_incomplete(const _PyInterpreterFrame* frame) {
  if (frame->owner >= FRAME_OWNED_BY_INTERPRETER) return true;
  return frame->owner != FRAME_OWNED_BY_GENERATOR &&
         frame->instr_ptr < instructions_of(frame) + code_of_frame(frame)->_co_firsttraceable;
}

inline int last_instruction_of(const _PyInterpreterFrame* frame) {
  return static_cast<int>(frame->instr_ptr - instructions_of(frame));
}

#else

inline PyObject* borrow(PyObject* reference) { return reference; }

inline PyCodeObject* code_of_frame(_PyInterpreterFrame* frame) {
#if PY_VERSION_HEX >= 0x030D0000
  return _PyFrame_GetCode(frame);
#else
  return frame->f_code;
#endif
}

inline bool is_incomplete(_PyInterpreterFrame* frame) { return _PyFrame_IsIncomplete(frame); }

inline int last_instruction_of(_PyInterpreterFrame* frame) { return _PyInterpreterFrame_LASTI(frame); }

#endif

class RunningFrame {
 public:
  explicit RunningFrame(_PyInterpreterFrame* frame) : frame_(frame) {}
#if PY_VERSION_HEX < 0x030C0000
  explicit RunningFrame(PyFrameObject* frame) : frame_(frame == nullptr ? nullptr : frame->f_frame) {}
#endif

  // The innermost function of this thread.
  static RunningFrame current(PyThreadState* state) {
#if PY_VERSION_HEX >= 0x030D0000
    return RunningFrame(complete(state->current_frame));
#else
    return RunningFrame(complete(state->cframe->current_frame));
#endif
  }

  // [owner of `state`] The same without the GIL, in C code that Python has called: nobody else changes the
  // frames of this thread, and this one does not run Python meanwhile.
  static RunningFrame current_without_gil(PyThreadState* state) { return current(state); }

  explicit operator bool() const { return frame_ != nullptr; }
  RunningFrame caller() const { return RunningFrame(complete(frame_->previous)); }
  PyCodeObject* code() const { return code_of_frame(frame_); }
  PyCodeObject* code_without_gil() const { return code(); }
  RunningFrame caller_without_gil() const { return caller(); }
  // Offset of its instruction, as PyCode_Addr2Line takes it.
  int32_t instruction() const {
    return static_cast<int32_t>(last_instruction_of(frame_) * static_cast<int>(sizeof(_Py_CODEUNIT)));
  }
  const void* address() const { return frame_; }
  // Whether its call may not have been reported yet: Python 3.11 and those from 3.13 on let other threads run
  // between a frame's first instruction and the report, 3.12 does not.
  bool may_begin() const {
#if PY_VERSION_HEX < 0x030C0000
    const int opcode = _Py_OPCODE(*frame_->prev_instr);
    return opcode == RESUME || opcode == RESUME_QUICK;
#elif PY_VERSION_HEX >= 0x030D0000
    return frame_->instr_ptr->op.code == INSTRUMENTED_RESUME;
#else
    return false;
#endif
  }
  // What a function that begins now was given first; nullptr: nothing. A new reference.
  PyObject* first_argument() const { return Py_XNewRef(first_of(code(), borrow(frame_->localsplus[0]))); }

 private:
  static _PyInterpreterFrame* complete(_PyInterpreterFrame* frame) {
    while (frame != nullptr && is_incomplete(frame)) frame = frame->previous;
    return frame;
  }
  _PyInterpreterFrame* frame_;
};

#else

// Through the public interface. A caller's frame object lives as long as its callee's.
class RunningFrame {
 public:
  explicit RunningFrame(PyFrameObject* frame) : frame_(frame) {}

  static RunningFrame current(PyThreadState* state) {
    PyFrameObject* frame = PyThreadState_GetFrame(state);
    Py_XDECREF(reinterpret_cast<PyObject*>(frame));  // its thread keeps it
    return RunningFrame(frame);
  }
  // Without the GIL nothing may be counted, and from 3.11 on there is no other way: nothing is known then.
  static RunningFrame current_without_gil([[maybe_unused]] PyThreadState* state) {
#if PY_VERSION_HEX < 0x030B0000
    return RunningFrame(state->frame);
#else
    return RunningFrame(nullptr);
#endif
  }

  explicit operator bool() const { return frame_ != nullptr; }
  RunningFrame caller() const {
    PyFrameObject* back = PyFrame_GetBack(frame_);
    Py_XDECREF(reinterpret_cast<PyObject*>(back));
    return RunningFrame(back);
  }
  PyCodeObject* code() const {
    PyCodeObject* code = PyFrame_GetCode(frame_);
    Py_DECREF(reinterpret_cast<PyObject*>(code));  // the frame keeps it
    return code;
  }
  PyCodeObject* code_without_gil() const {
#if PY_VERSION_HEX < 0x030B0000
    return frame_->f_code;
#else
    return nullptr;
#endif
  }
  RunningFrame caller_without_gil() const {
#if PY_VERSION_HEX < 0x030B0000
    return RunningFrame(frame_->f_back);
#else
    return RunningFrame(nullptr);
#endif
  }
  int32_t instruction() const {
#if PY_VERSION_HEX >= 0x030B0000
    return PyFrame_GetLasti(frame_);
#else
    return frame_->f_lasti * 2;  // counted in instructions until 3.10, in bytes since
#endif
  }
  const void* address() const { return frame_; }
  bool may_begin() const {
#if PY_VERSION_HEX < 0x030B0000
    return frame_->f_lasti < 0;
#else
    return false;
#endif
  }
  // What a function that begins now was given first; nullptr: nothing. A new reference.
  PyObject* first_argument() const {
#if PY_VERSION_HEX >= 0x030B0000
    PyCodeObject* const function = code();
    PyObject* const names = PyCode_GetVarnames(function);
    PyObject* const local = names == nullptr || PyTuple_GET_SIZE(names) == 0
                                ? nullptr
                                : PyFrame_GetVar(frame_, PyTuple_GET_ITEM(names, 0));
    if (local == nullptr) PyErr_Clear();
    PyObject* const first = Py_XNewRef(first_of(function, local));
    Py_XDECREF(local);
    Py_XDECREF(names);
    return first;
#else
    return Py_XNewRef(first_of(code(), first_local()));
#endif
  }

 private:
#if PY_VERSION_HEX < 0x030B0000
  PyObject* first_local() const {
    const PyCodeObject* const function = code();
    const Py_ssize_t* const shared = function->co_cell2arg;  // with inner functions, by cell
    for (Py_ssize_t i = 0; shared != nullptr && i < PyTuple_GET_SIZE(function->co_cellvars); ++i) {
      if (shared[i] == 0) return frame_->f_localsplus[function->co_nlocals + i];
    }
    return frame_->f_localsplus[0];
  }
#endif

  PyFrameObject* frame_;
};

#endif

// The key of this call's span: no other call that is running now has it.
inline uint64_t key_of(const RunningFrame& frame, const PyCodeObject* code) {
  return kWatchedCall |
         (reinterpret_cast<uintptr_t>(frame.address()) ^ reinterpret_cast<uintptr_t>(code) << 16);
}

}  // namespace opscope
