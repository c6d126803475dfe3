// The flight recorder's ring: open windows that overlap. Each begins a while after the one before, and the
// oldest has everything since its own beginning. What the ring forgets, it forgets by letting go of the
// oldest, so spans that ran at the new beginning are treated as at the opening of any window.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <mutex>

#include "log/recorder.h"

namespace opscope {

class Ring {
 public:
  struct Limits {
    int64_t last_ns = 0;     // what it is to hold at least, once it has been on for so long
    uint64_t max_bytes = 0;  // of records, payloads, texts and held tensors
  };

  explicit Ring(Limits limits) : limits_(limits) {}

  // [MT] A window has opened, at `now_ns` of the monotonic clock.
  void add(uint32_t window, int64_t now_ns) {
    const uint64_t used = Recorder::instance().used_bytes();
    const std::lock_guard lock(mutex_);
    windows_.push_back({window, now_ns});
    used_when_added_ = used;
  }

  // [MT] Discards windows that are no longer needed, or for which there is no memory. Needs no GIL: all
  // windows want the same events, so the remaining ones keep them enabled.
  void trim(int64_t now_ns) {
    Recorder& recorder = Recorder::instance();
    recorder.note_moment();
    const std::lock_guard lock(mutex_);
    while (windows_.size() > 1) {
      const bool is_old = windows_[1].opened_ns <= now_ns - limits_.last_ns;
      const uint64_t used = recorder.used_bytes();
      const bool is_too_much = !is_old && used > limits_.max_bytes;
      if (!is_old && !is_too_much) break;
      recorder.hand_stream_on(windows_.front().id, windows_[1].id);
      recorder.discard_window(windows_.front().id);
      recorder.release_old_tensors();
      windows_.pop_front();
      cut_by_memory_ += is_too_much ? 1 : 0;
      // What went was there when the last window was added.
      const uint64_t left = recorder.used_bytes();
      used_when_added_ -= std::min(used_when_added_, used - std::min(used, left));
    }
  }

  // [MT] Is it time for another window, because a good part of the memory was used since the last one?
  bool wants_window() {
    const uint64_t used = Recorder::instance().used_bytes();
    const std::lock_guard lock(mutex_);
    return used - std::min(used, used_when_added_) > limits_.max_bytes / kParts;
  }

  // [MT] Removes all windows, for the caller to close.
  std::deque<uint32_t> take() {
    const std::lock_guard lock(mutex_);
    std::deque<uint32_t> ids;
    for (const Part& part : windows_) ids.push_back(part.id);
    windows_.clear();
    return ids;
  }
  std::deque<uint32_t> windows() {
    const std::lock_guard lock(mutex_);
    std::deque<uint32_t> ids;
    for (const Part& part : windows_) ids.push_back(part.id);
    return ids;
  }

  // [MT] The window that has most; 0 if there is none.
  uint32_t oldest() {
    const std::lock_guard lock(mutex_);
    return windows_.empty() ? 0 : windows_.front().id;
  }
  // [MT] A closed window with what the ring holds, for a dump; 0 if there is nothing.
  uint32_t snapshot() {
    const std::lock_guard lock(mutex_);
    return windows_.empty() ? 0 : Recorder::instance().snapshot_window(windows_.front().id);
  }
  // [MT] How far back it goes.
  int64_t held_ns(int64_t now_ns) {
    const std::lock_guard lock(mutex_);
    return windows_.empty() ? 0 : now_ns - windows_.front().opened_ns;
  }
  // [MT] How often a window had to go for want of memory.
  uint64_t cut_by_memory() {
    const std::lock_guard lock(mutex_);
    return cut_by_memory_;
  }

 private:
  struct Part {
    uint32_t id;
    int64_t opened_ns;
  };
  static constexpr uint64_t kParts = 8;

  std::mutex mutex_;
  const Limits limits_;
  std::deque<Part> windows_;  // oldest first
  uint64_t used_when_added_ = 0;
  uint64_t cut_by_memory_ = 0;
};

}  // namespace opscope
