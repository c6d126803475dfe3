// Mutual exclusion of threads that run Python.
#pragma once

#include <Python.h>
#include <sched.h>

#include <mutex>

#include "interpreter/without_gil.h"

namespace opscope {

inline bool is_ending() {
#if PY_VERSION_HEX >= 0x030D0000
  return Py_IsFinalizing() != 0;
#else
  return _Py_IsFinalizing() != 0;
#endif
}

// [GIL] While one exists, this thread has the mutex; it may acquire it again. Waits without the GIL. Does not
// wait during finalization, when Python may have ended the holder.
class Turn {
 public:
  // nullptr: no mutex.
  explicit Turn(std::recursive_mutex* mutex)
      : mutex_(mutex), is_held_(mutex != nullptr && mutex->try_lock()) {
    while (mutex_ != nullptr && !is_held_ && !is_ending()) {
      {
        const WithoutGil without_gil;
        sched_yield();
      }
      is_held_ = mutex_->try_lock();
    }
  }
  Turn(const Turn&) = delete;
  Turn& operator=(const Turn&) = delete;
  ~Turn() {
    if (is_held_) mutex_->unlock();
  }

 private:
  std::recursive_mutex* mutex_;
  bool is_held_;
};

}  // namespace opscope
