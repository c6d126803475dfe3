// The program's steps: how many, and what the last ones took. One function that a program calls at the end of
// each, so that what it costs is a handful of cache lines: between two steps a program uses the caches for
// itself, and every function of Python's on the way here would have to be fetched again.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "log/clock.h"
#include "watch/watch.h"

namespace opscope {

class StepCounter {
 public:
  static constexpr size_t kRemembered = 200;

  // `watch` is told of every step; may be null.
  explicit StepCounter(Watch* watch) : watch_(watch) {}

  // [GIL] All. A step has ended; what it took, 0 where nobody knows when it began. Steps that an optimizer
  // makes count until the first that the program announces itself; -1 after that.
  int64_t ended(bool is_announced) {
    if (is_announced != is_announced_) {
      if (!is_announced) return -1;
      is_announced_ = true;
      last_ns_ = 0;
    }
    if (watch_ != nullptr) watch_->step_ended();
    const int64_t now_ns = clock_ns(CLOCK_MONOTONIC);
    const int64_t took_ns = last_ns_ == 0 ? 0 : now_ns - last_ns_;
    last_ns_ = now_ns;
    if (took_ns != 0) durations_ns_[known_++ % kRemembered] = took_ns;
    ++count_;
    return took_ns;
  }

  uint64_t count() const { return count_; }
  // The newest of those that are known, oldest first.
  std::vector<int64_t> durations_ns() const {
    std::vector<int64_t> result;
    for (uint64_t i = known_ < kRemembered ? 0 : known_ - kRemembered; i < known_; ++i)
      result.push_back(durations_ns_[i % kRemembered]);
    return result;
  }

 private:
  Watch* const watch_;
  int64_t last_ns_ = 0;
  uint64_t count_ = 0, known_ = 0;
  bool is_announced_ = false;
  std::array<int64_t, kRemembered> durations_ns_{};
};

}  // namespace opscope
