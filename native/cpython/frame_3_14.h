// Frames of Python 3.14 and 3.15. The functions for this in their headers are not C++; these are equivalent.
#pragma once

#include <Python.h>
#define Py_BUILD_CORE 1
#include <internal/pycore_interpframe_structs.h>
#undef Py_BUILD_CORE
#include <opcode.h>

#include <cstdint>

namespace opscope::cpython {

using Frame = _PyInterpreterFrame;
inline constexpr bool kReadsWithoutGil = true;

// The lowest bits of a frame's reference show how it is counted.
inline PyObject* borrowed(_PyStackRef reference) {
  return reinterpret_cast<PyObject*>(reference.bits & ~uintptr_t{3});
}

inline Frame* current_frame(const PyThreadState* state) { return state->current_frame; }
inline Frame* previous_of(const Frame* frame) { return frame->previous; }

inline PyCodeObject* code_of(const Frame* frame) {
  return reinterpret_cast<PyCodeObject*>(borrowed(frame->f_executable));
}

inline const _Py_CODEUNIT* instructions_of(const Frame* frame) {
  const PyCodeObject* const code = code_of(frame);
#ifdef Py_GIL_DISABLED
  // Each thread has its own copy of the instructions; a new thread replaces the list by a longer one.
  const _PyCodeArray* const by_thread = __atomic_load_n(&code->co_tlbc, __ATOMIC_ACQUIRE);
  return reinterpret_cast<const _Py_CODEUNIT*>(by_thread->entries[frame->tlbc_index]);
#else
  return reinterpret_cast<const _Py_CODEUNIT*>(code->co_code_adaptive);
#endif
}

// Frames between C and Python have no function. A function's frame is incomplete while it creates its cells.
inline bool is_incomplete(const Frame* frame) {
  if (frame->owner >= FRAME_OWNED_BY_INTERPRETER) return true;
  return frame->owner != FRAME_OWNED_BY_GENERATOR &&
         frame->instr_ptr < instructions_of(frame) + code_of(frame)->_co_firsttraceable;
}

inline int32_t instruction_of(const Frame* frame) {
  return static_cast<int32_t>((frame->instr_ptr - instructions_of(frame)) *
                              static_cast<int>(sizeof(_Py_CODEUNIT)));
}

// Other threads may run between a frame's first instruction and the report of its call.
inline bool may_begin(const Frame* frame) { return frame->instr_ptr->op.code == INSTRUMENTED_RESUME; }

inline PyObject* first_local_of(const Frame* frame) { return borrowed(frame->localsplus[0]); }
inline const void* frame_of_generator(const PyObject* coroutine) {
  return &reinterpret_cast<const PyGenObject*>(coroutine)->gi_iframe;
}

}  // namespace opscope::cpython
