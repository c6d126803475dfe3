// Iterates over the states of all Python threads without seeing one half created or freed.
//
// The GIL does not ensure that: a thread created in C++ links its new state into the list before it has the
// GIL, on Python 3.11 even before the state is filled in. A state may be deleted without the GIL.
#pragma once

#include <Python.h>

#ifdef __cplusplus
extern "C" {
#endif

void opscope_lock_thread_states(void);
void opscope_unlock_thread_states(void);

#ifdef __cplusplus
}

#include "interpreter/free_threads.h"

namespace opscope {

// [GIL] Calls function(state) for every thread of this interpreter. It must run no Python, create no Python
// object and keep the GIL: threads that begin or end wait for the lock.
template <typename Function>
void for_each_thread_state(Function&& function) {
  struct Lock {
    // While threads are stopped, Python already holds the lock.
    explicit Lock(bool is_needed) : is_needed_(is_needed) {
      if (is_needed_) opscope_lock_thread_states();
    }
    Lock(const Lock&) = delete;
    Lock& operator=(const Lock&) = delete;
    ~Lock() {
      if (is_needed_) opscope_unlock_thread_states();
    }

   private:
    const bool is_needed_;
  };
  PyInterpreterState* const interpreter = PyInterpreterState_Get();
  at_one_moment([&] {
    const Lock lock(!threads_are_free());
    for (PyThreadState* state = PyInterpreterState_ThreadHead(interpreter); state != nullptr;
         state = PyThreadState_Next(state)) {
      function(state);
    }
  });
}

}  // namespace opscope
#endif
