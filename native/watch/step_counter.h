// The program's steps: how many, and what the last ones took. One function that a program calls at the end of
// each, so that what it costs is a handful of cache lines: between two steps a program uses the caches for
// itself, and every function of Python's on the way here would have to be fetched again.
#pragma once

#include <algorithm>
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
    waits_ = took_ns == 0 || watch_ == nullptr
                 ? StepWaits{}
                 : watch_->waits_of_step(last_ns_ - took_ns, last_ns_, typical_ns_);
    if (took_ns != 0) {
      durations_ns_[known_ % kRemembered] = took_ns;
      own_durations_ns_[known_++ % kRemembered] = took_ns - waits_.others_ns;
    }
    if (known_ % kTypicalEvery == 0) typical_ns_ = typical_ns();
    ++count_;
    return took_ns;
  }

  // Whether the program announces them itself.
  bool is_announced() const { return is_announced_; }
  uint64_t count() const { return count_; }
  // What the last one waited for others.
  const StepWaits& waits() const { return waits_; }
  // The newest of those that are known, oldest first.
  std::vector<int64_t> durations_ns() const { return newest_of(durations_ns_); }
  // Likewise without what other programs made of it, where that is known.
  std::vector<int64_t> own_durations_ns() const { return newest_of(own_durations_ns_); }

 private:
  static constexpr uint64_t kTypicalEvery = 16;
  using Durations = std::array<int64_t, kRemembered>;

  std::vector<int64_t> newest_of(const Durations& durations_ns) const {
    std::vector<int64_t> result;
    for (uint64_t i = known_ < kRemembered ? 0 : known_ - kRemembered; i < known_; ++i)
      result.push_back(durations_ns[i % kRemembered]);
    return result;
  }

  // The median of those that are known, found without memory being taken.
  int64_t typical_ns() const {
    Durations durations_ns = own_durations_ns_;
    const auto count = static_cast<ptrdiff_t>(std::min<uint64_t>(known_, kRemembered));
    if (count == 0) return 0;
    const auto middle = durations_ns.begin() + count / 2;
    std::nth_element(durations_ns.begin(), middle, durations_ns.begin() + count);
    return *middle;
  }

  Watch* const watch_;
  int64_t last_ns_ = 0, typical_ns_ = 0;
  uint64_t count_ = 0, known_ = 0;
  bool is_announced_ = false;
  StepWaits waits_;
  Durations durations_ns_{}, own_durations_ns_{};
};

}  // namespace opscope
