// Converts ticks of one window to Unix nanoseconds in spite of a changed wall clock, a sleeping machine
// (ticks continue, stop or restart; the monotonic clock stops), or a virtual machine that moves to another
// host.
//
// Times are counted back from the window's end with the rate of the monotonic clock. So a change of the wall
// clock between two windows moves neither, and a change within a window keeps times in order.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

#include "log/checked_view.h"
#include "log/clock.h"

namespace opscope {

class WindowClock {
 public:
  // `origin`: an earlier reading; the earlier, the better the rate, unless ticks have jumped since. `recent`:
  // a rate just measured, to detect jumps; 0 if unknown.
  WindowClock(const ClockAnchor& origin, const ClockAnchor& started, const ClockAnchor& stopped,
              double recent)
      : stopped_(stopped),
        elapsed_ns_(std::clamp<int64_t>(stopped.monotonic_ns - started.monotonic_ns, 0, kLongest_ns)) {
    const double since_origin = ns_per_tick(origin, stopped);
    const bool is_sound = since_origin > 0 && (recent <= 0 || std::abs(since_origin / recent - 1) < 0.01);
    const double rate = is_sound ? since_origin : recent > 0 ? recent : 1.0;
    ns_per_tick_ = static_cast<int64_t>(std::llround(rate * kOne));
    const int64_t missing = elapsed_ns_ - duration_ns(started.ticks, stopped.ticks);
    if (std::abs(missing) > kTolerance_ns + elapsed_ns_ / (is_sound ? 500 : 100)) jumped_ns_ = missing;
    const int64_t ahead = stopped.unix_ns - started.unix_ns - elapsed_ns_;
    if (std::abs(ahead) > kTolerance_ns + elapsed_ns_ / 1000) set_by_ns_ = ahead;
  }

  // Excess of the window's monotonic duration over its ticks; 0 if they agree.
  int64_t jumped_ns() const { return jumped_ns_; }
  // Forward change of the wall clock within the window.
  int64_t set_by_ns() const { return set_by_ns_; }

  int64_t duration_ns(uint64_t from, uint64_t to) const {
    const auto ticks = static_cast<int64_t>(to - from);
    const __int128 time_ns = (static_cast<__int128>(ticks) * ns_per_tick_) >> 32;
    return static_cast<int64_t>(std::clamp<__int128>(time_ns, -kLongest_ns, kLongest_ns));
  }

  // The same conversion without corrections, for times after the window's end.
  WindowClock continued() const {
    WindowClock clock = *this;
    clock.jumped_ns_ = clock.set_by_ns_ = 0;
    return clock;
  }

  // For a clock read from a file: whether additions to its times cannot overflow.
  bool is_sound() const {
    const int64_t most_ns = 4 * (kLongest_ns - 1);
    return elapsed_ns_ >= 0 && elapsed_ns_ <= kLongest_ns && stopped_.unix_ns <= most_ns &&
           stopped_.unix_ns >= -most_ns;
  }

  int64_t start_ns() const { return stopped_.unix_ns - elapsed_ns_; }
  int64_t end_ns() const { return stopped_.unix_ns; }

  int64_t unix_ns(uint64_t ticks) const {
    const int64_t time = stopped_.unix_ns - duration_ns(ticks, stopped_.ticks);
    return jumped_ns_ == 0 ? time : std::clamp(time, start_ns(), end_ns());
  }
  std::vector<int64_t> unix_ns(const std::vector<uint64_t>& moments) const {
    std::vector<int64_t> times;
    for (const uint64_t ticks : moments) times.push_back(unix_ns(ticks));
    return times;
  }

 private:
  static constexpr double kOne = 4294967296.0;  // 32.32 fixed point keeps nanoseconds over days
  static constexpr int64_t kTolerance_ns = 1'000'000;

  ClockAnchor stopped_;
  int64_t elapsed_ns_;
  int64_t ns_per_tick_;
  int64_t jumped_ns_ = 0;
  int64_t set_by_ns_ = 0;
};

}  // namespace opscope
