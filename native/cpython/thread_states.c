// CPython takes a lock of its own when it links or unlinks a thread's state. It is taken here as CPython
// does: with the GIL held, also while waiting, because a thread with this lock never waits for the GIL.
//
// In C because CPython's internal headers are.
#define Py_BUILD_CORE_MODULE 1
#include "cpython/thread_states.h"

#if PY_VERSION_HEX < 0x03100000

#include <internal/pycore_runtime.h>

#if PY_VERSION_HEX >= 0x030D0000

#include <sched.h>

// What PyMutex_Lock does may release the GIL, and what CPython itself calls here is not exported.
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

// Where its place is not known, the GIL alone has to do.
void opscope_lock_thread_states(void) {}
void opscope_unlock_thread_states(void) {}

#endif
