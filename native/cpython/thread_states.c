// CPython locks its list of thread states for changes. This acquires that lock as CPython does: with the GIL,
// even while waiting, because a thread with this lock never waits for the GIL.
//
// In C, like CPython's internal headers.
#define Py_BUILD_CORE_MODULE 1
#include "cpython/thread_states.h"

#if PY_VERSION_HEX < 0x03100000

#include <internal/pycore_runtime.h>

#if PY_VERSION_HEX >= 0x030D0000

#include <sched.h>

// Replaces PyMutex_Lock, which may release the GIL; CPython's own function for this is not exported.
void opscope_lock_thread_states(void) {
  const uint8_t kLocked = 1;
  uint8_t* const bits = &_PyRuntime.interpreters.mutex._bits;
  while ((__atomic_fetch_or(bits, kLocked, __ATOMIC_ACQUIRE) & kLocked) != 0) sched_yield();
}
void opscope_unlock_thread_states(void) { PyMutex_Unlock(&_PyRuntime.interpreters.mutex); }

#else

void opscope_lock_thread_states(void) { PyThread_acquire_lock(_PyRuntime.interpreters.mutex, WAIT_LOCK); }
void opscope_unlock_thread_states(void) { PyThread_release_lock(_PyRuntime.interpreters.mutex); }

#endif

#else

// The lock's location is unknown; the GIL alone protects.
void opscope_lock_thread_states(void) {}
void opscope_unlock_thread_states(void) {}

#endif
