// Kernel's id of a thread of which Python knows only the pthread_t, as until 3.10.
#pragma once

#include <pthread.h>

#include <cstdint>

namespace opscope {

// [MT] 0 if the id is unknown or the thread has ended. The C library stores the id behind the pthread_t, and
// returns it only for existing threads; Python may keep the state of a thread that has ended without notice.
int64_t system_thread_id_of(pthread_t thread);

}  // namespace opscope
