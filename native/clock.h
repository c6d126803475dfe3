// Raw ticks on the hot path, nanoseconds only when a trace is decoded.
//
// The tick source is the same one torch calls its approximate clock (c10/util/ApproximateClock.h),
// so ticks can be compared with ticks torch took. An anchor pairs ticks with wall and monotonic
// time; two anchors give the rate. The rate comes from the monotonic clock because the wall clock
// may be stepped while a program runs.
#pragma once

#include <cstdint>
#include <ctime>

#if defined(__x86_64__) || defined(__i386__)
#include <x86intrin.h>
#endif

namespace opscope {

inline int64_t clock_ns(clockid_t clock) {
  timespec time{};
  clock_gettime(clock, &time);
  return static_cast<int64_t>(time.tv_sec) * 1'000'000'000 + time.tv_nsec;
}

inline uint64_t now_ticks() {
#if defined(__x86_64__) || defined(__i386__)
  return __rdtsc();
#elif defined(__aarch64__)
  uint64_t ticks;
  __asm__ __volatile__("mrs %0, cntvct_el0" : "=r"(ticks));
  return ticks;
#else
  return static_cast<uint64_t>(clock_ns(CLOCK_MONOTONIC));
#endif
}

struct ClockAnchor {
  uint64_t ticks = 0;
  int64_t unix_ns = 0;
  int64_t monotonic_ns = 0;
};

// The best of several readings: the one with the fewest ticks between its two clock reads, because
// an interrupt in between is what makes an anchor wrong.
inline ClockAnchor read_anchor() {
  ClockAnchor best;
  uint64_t smallest_gap = UINT64_MAX;
  for (int attempt = 0; attempt < 32; ++attempt) {
    const uint64_t before = now_ticks();
    const int64_t unix_ns = clock_ns(CLOCK_REALTIME);
    const int64_t monotonic_ns = clock_ns(CLOCK_MONOTONIC);
    const uint64_t gap = now_ticks() - before;
    if (gap < smallest_gap) {
      smallest_gap = gap;
      best = {before + gap / 2, unix_ns, monotonic_ns};
    }
  }
  return best;
}

// Converts ticks to Unix nanoseconds around `origin`. 32.32 fixed point keeps nanosecond precision
// over days, which a double would not.
class TickConverter {
 public:
  TickConverter(const ClockAnchor& origin, const ClockAnchor& other) : origin_(origin) {
    const auto ticks = static_cast<double>(static_cast<int64_t>(other.ticks - origin.ticks));
    const auto elapsed_ns = static_cast<double>(other.monotonic_ns - origin.monotonic_ns);
    if (ticks != 0 && elapsed_ns != 0) {
      ns_per_tick_ = static_cast<int64_t>(elapsed_ns / ticks * 4294967296.0);
    }
  }

  int64_t duration_ns(uint64_t from, uint64_t to) const {
    const auto ticks = static_cast<int64_t>(to - from);
    return static_cast<int64_t>((static_cast<__int128>(ticks) * ns_per_tick_) >> 32);
  }

  int64_t unix_ns(uint64_t ticks) const { return origin_.unix_ns + duration_ns(origin_.ticks, ticks); }

 private:
  ClockAnchor origin_;
  int64_t ns_per_tick_ = int64_t{1} << 32;
};

}  // namespace opscope
