// The program's steps: their number and recent durations. One function is called at the end of each step. It
// touches few cache lines: a program evicts the caches between two steps, so each Python function on the way
// would be fetched again.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "log/clock.h"
#include "watch/processor_wait.h"
#include "watch/watch.h"

namespace opscope {

class StepCounter {
 public:
  static constexpr size_t kRemembered = 200;

  // `watch` is notified of every step; may be null.
  explicit StepCounter(Watch* watch) : watch_(watch) {}

  // [GIL] All functions. A step has ended; returns its duration, 0 if its begin is unknown. Steps of an
  // optimizer count until the program announces a step itself; -1 after that.
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
    waited_ns_ = std::min(read_wait_ns(now_ns), took_ns);
    if (took_ns != 0) {
      durations_ns_[known_ % kRemembered] = took_ns;
      own_durations_ns_[known_++ % kRemembered] = took_ns - std::max<int64_t>(waited_ns_, 0);
    }
    ++count_;
    return took_ns;
  }

  // [GIL] Whether to read waits for a CPU, for which a file stays open.
  void read_waits(bool wanted) {
    if (!wanted) return wait_.reset();
    if (!wait_) wait_.emplace();
  }
  // Whether the program announces its steps.
  bool is_announced() const { return is_announced_; }
  uint64_t count() const { return count_; }
  // Wait for a CPU of the last step's thread; -1 if unknown.
  int64_t waited_ns() const { return waited_ns_; }
  // Durations of the newest steps, oldest first.
  std::vector<int64_t> durations_ns() const { return newest_of(durations_ns_); }
  // Durations without waits for a CPU, if known.
  std::vector<int64_t> own_durations_ns() const { return newest_of(own_durations_ns_); }

 private:
  // Reading the kernel counters takes about 2 us. Shorter steps wait little.
  static constexpr int64_t kReadPause_ns = 5'000'000;
  using Durations = std::array<int64_t, kRemembered>;

  std::vector<int64_t> newest_of(const Durations& durations_ns) const {
    std::vector<int64_t> result;
    for (uint64_t i = known_ < kRemembered ? 0 : known_ - kRemembered; i < known_; ++i)
      result.push_back(durations_ns[i % kRemembered]);
    return result;
  }

  // Wait of this thread since the last read.
  int64_t read_wait_ns(int64_t now_ns) {
    if (!wait_) return -1;
    if (now_ns - read_at_ns_ < kReadPause_ns) return 0;
    read_at_ns_ = now_ns;
    return wait_->since_last_ns();
  }

  Watch* const watch_;
  int64_t last_ns_ = 0, read_at_ns_ = 0, waited_ns_ = -1;
  uint64_t count_ = 0, known_ = 0;
  bool is_announced_ = false;
  std::optional<ProcessorWait> wait_;
  Durations durations_ns_{}, own_durations_ns_{};
};

}  // namespace opscope
