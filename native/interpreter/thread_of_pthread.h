// The kernel's number of a thread that Python knows by its pthread_t alone, as it does until 3.10.
#pragma once

#include <pthread.h>

#include <cstdint>

namespace opscope {

// [MT] 0 where it cannot be told, or the thread has ended. The C library has the number in what a pthread_t
// points to, and offers it only where that surely is there; Python may keep the state of a thread that left
// without a word.
int64_t system_thread_id_of(pthread_t thread);

}  // namespace opscope
