// Raw ticks on the hot path; only decoding a trace converts them to nanoseconds.
//
// The tick source is torch's approximate clock (c10/util/ApproximateClock.h), so ticks are comparable with
// torch's. An anchor pairs ticks with wall and monotonic time; two anchors give the rate. The rate uses the
// monotonic clock, because the wall clock may be stepped while a program runs.
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

// The best of several readings, with the fewest ticks between the two readings of the clock: an interrupt
// between them makes an anchor wrong.
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

// Nanoseconds per tick; 0 if the anchors are too close or ticks decreased.
inline double ns_per_tick(const ClockAnchor& from, const ClockAnchor& to) {
  const auto ticks = static_cast<double>(static_cast<int64_t>(to.ticks - from.ticks));
  const auto elapsed_ns = static_cast<double>(to.monotonic_ns - from.monotonic_ns);
  return ticks > 0 && elapsed_ns > 0 ? elapsed_ns / ticks : 0;
}

// Current rate, exact to 0.1 % or better; takes a millisecond.
inline double recent_ns_per_tick() {
  const ClockAnchor from = read_anchor();
  ClockAnchor to = read_anchor();
  while (to.monotonic_ns - from.monotonic_ns < 1'000'000) to = read_anchor();
  return ns_per_tick(from, to);
}

}  // namespace opscope
