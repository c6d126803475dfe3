// What room for records took: pages of memory, and what threads that record computed for that.
//
// It is time of theirs, and faults that the kernel counts of them, for something the program did not do.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "log/clock.h"

namespace opscope {

struct Growth {
  uint64_t pages = 0;
  uint64_t ns = 0;

  Growth operator-(const Growth& earlier) const { return {pages - earlier.pages, ns - earlier.ns}; }
};

// [MT] Of this process, from its start on.
class Growing {
 public:
  static Growth so_far() {
    return {pages_.load(std::memory_order_relaxed), ns_.load(std::memory_order_relaxed)};
  }

  // Counts from here to its end, with so many bytes if they were had.
  explicit Growing(size_t bytes) : bytes_(bytes), since_ns_(clock_ns(CLOCK_THREAD_CPUTIME_ID)) {}
  Growing(const Growing&) = delete;
  Growing& operator=(const Growing&) = delete;
  ~Growing() {
    ns_.fetch_add(static_cast<uint64_t>(clock_ns(CLOCK_THREAD_CPUTIME_ID) - since_ns_),
                  std::memory_order_relaxed);
  }

  void had() { pages_.fetch_add(bytes_ / kPageBytes, std::memory_order_relaxed); }

 private:
  static constexpr size_t kPageBytes = 4096;
  static inline std::atomic<uint64_t> pages_{0};
  static inline std::atomic<uint64_t> ns_{0};

  size_t bytes_;
  int64_t since_ns_;
};

}  // namespace opscope
