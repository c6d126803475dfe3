// The states of all Python threads, so that none is seen half made or freed meanwhile.
//
// The GIL does not see to that: a thread that C++ made links a new state into the list before it has
// the GIL, on Python 3.11 even before the state is filled in, and a state may be deleted without it.
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

// [GIL] Calls function(state) for every thread of this interpreter. It must run no Python, make no
// Python object and not let go of the GIL: threads that begin or end wait for it.
template <typename Function>
void for_each_thread_state(Function&& function) {
  struct Lock {
    // While threads are stopped Python has the lock already.
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
