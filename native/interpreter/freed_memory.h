// What a process does with memory that it has freed.
#pragma once

#include <cstdlib>

#ifdef __GLIBC__
#include <malloc.h>
#endif

namespace opscope {

// Has the process keep memory that is freed, for what is allocated next. glibc gives a block of many MiB
// back to the kernel, which clears every page of the next one: for columns of millions of rows that takes as
// long as computing them. For processes that are ours alone.
inline void keep_freed_memory() {
#ifdef __GLIBC__
  mallopt(M_MMAP_MAX, 0);
  mallopt(M_TRIM_THRESHOLD, -1);
#endif
}

}  // namespace opscope
