// Creates pages of memory before their use, so that no recording thread has a page fault.
#pragma once

#include <sys/mman.h>

#include <cerrno>
#include <cstddef>

namespace opscope {

// Creates the pages of a mapping: in one call if the kernel can (5.14 and later), otherwise by writing to
// each. False if the mapped file has no room.
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
