// A device's nanoseconds and the recorder's ticks, as a straight line between them.
//
// A library that can be given a clock (CUPTI) reads the recorder's ticks through such a line, and decoding
// inverts it: times are exact. Where it keeps its own, the line goes through two comparisons of both clocks.
#pragma once

#include <cstdint>

#include "log/clock.h"

namespace opscope::gpu {

// A line through two points (device ns, ticks), and how far off it can be.
class DeviceClock {
 public:
  struct Point {
    uint64_t device_ns = 0;
    uint64_t ticks = 0;
    uint64_t gap_ticks = 0;  // between the two reads of ticks around the one of the device's clock
  };

  // Both clocks at one moment: of several readings the one that took least.
  static Point read(int (*get_timestamp)(uint64_t* device_ns)) {
    Point best{0, 0, UINT64_MAX};
    for (int attempt = 0; attempt < 32; ++attempt) {
      uint64_t device_ns = 0;
      const uint64_t before = now_ticks();
      get_timestamp(&device_ns);
      const uint64_t gap = now_ticks() - before;
      if (gap < best.gap_ticks) best = {device_ns, before + gap / 2, gap};
    }
    return best;
  }

  DeviceClock() = default;
  DeviceClock(Point from, Point to) : from_(from) {
    const auto elapsed = static_cast<double>(static_cast<int64_t>(to.device_ns - from.device_ns));
    const auto ticks = static_cast<double>(static_cast<int64_t>(to.ticks - from.ticks));
    if (elapsed > 0 && ticks > 0) ticks_per_ns_ = static_cast<int64_t>(ticks / elapsed * kOne);
    ns_per_tick_ = static_cast<int64_t>((static_cast<__int128>(1) << 80) / ticks_per_ns_);
  }

  bool is_set() const { return from_.ticks != 0 || from_.device_ns != 0; }

  uint64_t ticks(uint64_t device_ns) const {
    const auto elapsed = static_cast<int64_t>(device_ns - from_.device_ns);
    return from_.ticks + static_cast<uint64_t>((static_cast<__int128>(elapsed) * ticks_per_ns_) >> 32);
  }
  // A library asks for this twice per call of the program's, so it multiplies by the reciprocal.
  uint64_t device_ns(uint64_t ticks) const {
    const auto elapsed = static_cast<int64_t>(ticks - from_.ticks);
    return from_.device_ns + static_cast<uint64_t>((static_cast<__int128>(elapsed) * ns_per_tick_) >> 48);
  }

 private:
  static constexpr double kOne = 4294967296.0;
  Point from_;
  int64_t ticks_per_ns_ = int64_t{1} << 32;
  int64_t ns_per_tick_ = int64_t{1} << 48;
};

}  // namespace opscope::gpu
