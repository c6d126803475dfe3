// Calls of Python functions through the frame evaluation hook: https://peps.python.org/pep-0523/.
//
// A profile function takes the interpreter off its fast path at every instruction; this hook costs only at
// calls. An interpreter has one such hook. Other tools (torch.compile) replace it at any time and call the
// previous hook. So does this one, and it stays in such a chain, without effect, if it cannot be removed.
#include "python/python_hooks.h"

#if PY_VERSION_HEX < 0x030C0000

#include <pthread.h>

#include <algorithm>
#include <utility>

namespace opscope {

namespace {

using cpython::Frame;

bool is_on = false;
_PyFrameEvalFunction next = &_PyEval_EvalFrameDefault;  // the previous hook
uint64_t skipped = 0;

// The previous hook may evaluate the frame again through our hook, which then must not record it again.
PyObject* pass_on(PythonThreadCache* cache, PyThreadState* state, Frame* frame, int throwing) {
  if (next == &_PyEval_EvalFrameDefault || cache == nullptr || cache->passed_on == frame) [[likely]]
    return _PyEval_EvalFrameDefault(state, frame, throwing);
  const void* const outer = std::exchange(cache->passed_on, frame);
  PyObject* const result = next(state, frame, throwing);
  cache->passed_on = outer;
  return result;
}

// Lowest stack address that leaves a reserve; 1 if unknown.
[[gnu::noinline]] uintptr_t end_of_stack() {
  constexpr size_t kToSpare = 256 * 1024;
  pthread_attr_t attributes;
  void* lowest = nullptr;
  size_t size = 0;
  if (pthread_getattr_np(pthread_self(), &attributes) != 0) return 1;
  const bool is_known = pthread_attr_getstack(&attributes, &lowest, &size) == 0;
  pthread_attr_destroy(&attributes);
  return is_known ? reinterpret_cast<uintptr_t>(lowest) + std::min(kToSpare, size / 4) : 1;
}

// With the hook, Python functions that call each other use the C stack; without it they do not.
bool is_stack_short(PythonThreadCache& cache) {
  if (cache.end_of_stack == 0) [[unlikely]]
    cache.end_of_stack = end_of_stack();
  return reinterpret_cast<uintptr_t>(__builtin_frame_address(0)) < cache.end_of_stack;
}

PyObject* on_evaluation(PyThreadState* state, Frame* frame, int throwing);

// A call of a generator function only creates the generator; no code of the program runs.
bool only_makes_generator([[maybe_unused]] const Frame* frame, [[maybe_unused]] const PyCodeObject* code) {
#if PY_VERSION_HEX >= 0x030B0000
  constexpr int kMakesOne = CO_GENERATOR | CO_COROUTINE | CO_ASYNC_GENERATOR;
  return (code->co_flags & kMakesOne) != 0 && frame->owner != FRAME_OWNED_BY_GENERATOR;
#else
  return false;
#endif
}

PyInterpreterState* interpreter() { return PyInterpreterState_Get(); }
bool is_ours() { return _PyInterpreterState_GetEvalFrameFunc(interpreter()) == &on_evaluation; }

// Does not record this function and its callees. Until it returns, other threads run unrecorded too.
[[gnu::noinline]] PyObject* evaluate_unhooked(PythonThreadCache& cache, PyThreadState* state, Frame* frame,
                                              int throwing) {
  ++skipped;
  const bool was_ours = is_ours();
  if (was_ours) _PyInterpreterState_SetEvalFrameFunc(interpreter(), next);
  PyObject* const result = pass_on(&cache, state, frame, throwing);
  if (was_ours && is_on && _PyInterpreterState_GetEvalFrameFunc(interpreter()) == next)
    _PyInterpreterState_SetEvalFrameFunc(interpreter(), &on_evaluation);
  return result;
}

PyObject* on_evaluation(PyThreadState* state, Frame* frame, int throwing) {
  PythonThreadCache* const cache = PythonThreadCache::get();
  const bool is_hooked = is_on && cache != nullptr && !cache->busy && cache->passed_on != frame;
  if (!is_hooked) [[unlikely]]
    return pass_on(cache, state, frame, throwing);
  if (is_stack_short(*cache)) [[unlikely]]
    return evaluate_unhooked(*cache, state, frame, throwing);
  const RunningFrame running(frame);
  PyCodeObject* const code = running.code();
  if (only_makes_generator(frame, code)) [[unlikely]]
    return pass_on(cache, state, frame, throwing);
  const uint64_t key = key_of(running, code);
  bool is_recorded = true;
  without_exceptions(
      [&] { is_recorded = evaluation_begins(*cache, running, code, key, RunningFrame::current(state)); });
  PyObject* const result = pass_on(cache, state, frame, throwing);
  if (!cache->busy) [[likely]]
    without_exceptions(
        [&] { is_recorded ? evaluation_ends(*cache, key, state) : evaluation_passed(*cache, state); });
  return result;
}

}  // namespace

void install_evaluation_hook() {
  is_on = true;
  if (is_ours()) return;
  next = _PyInterpreterState_GetEvalFrameFunc(interpreter());
  _PyInterpreterState_SetEvalFrameFunc(interpreter(), &on_evaluation);
}

void remove_evaluation_hook() {
  is_on = false;
  if (is_ours()) _PyInterpreterState_SetEvalFrameFunc(interpreter(), next);
}

bool uses_evaluation_hook() { return is_on; }

uint64_t evaluations_unrecorded() { return skipped; }

}  // namespace opscope

#endif
