// Pages of memory that are made before they are used, so that no thread waits for one while it records.
#pragma once

#include <sys/mman.h>

#include <cerrno>
#include <cstddef>

namespace opscope {

// Makes the pages of a mapping, in one call where the kernel can (5.14 and later), else by writing to each.
// False where the file that is mapped has no room for them.
inline bool make_pages(void* memory, size_t bytes) {
#ifdef MADV_POPULATE_WRITE
  constexpr int kPopulate = MADV_POPULATE_WRITE;
#else
  constexpr int kPopulate = 23;
#endif
  constexpr size_t kPageBytes = 4096;
  if (madvise(memory, bytes, kPopulate) == 0) return true;
  if (errno != EINVAL) return errno == ENOMEM;
  for (size_t at = 0; at < bytes; at += kPageBytes) {
    volatile char* const byte = static_cast<char*>(memory) + at;
    *byte = *byte;
  }
  return true;
}

}  // namespace opscope
