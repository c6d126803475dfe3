// The flight recorder's ring: open windows that overlap. Each window begins some time after the previous one;
// the oldest has everything since its begin. To forget, the ring discards its oldest window, so spans that
// ran at the new begin are treated as at the opening of any window.
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
    int64_t last_ns = 0;     // minimum duration once the recorder has run for so long
    uint64_t max_bytes = 0;  // limit for records, payloads, texts and held tensors
  };

  explicit Ring(Limits limits) : limits_(limits) {}

  // [MT] Adds a window that opened at `now_ns` of the monotonic clock.
  void add(uint32_t window, int64_t now_ns) {
    const uint64_t used = Recorder::instance().used_bytes();
    const std::lock_guard lock(mutex_);
    windows_.push_back({window, now_ns});
    used_when_added_ = used;
  }

  // [MT] Discards windows that are too old or exceed the memory limit. Needs no GIL: all windows want the
  // same events, so the remaining ones keep them enabled.
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
      // The freed memory was in use when the last window was added.
      const uint64_t left = recorder.used_bytes();
      used_when_added_ -= std::min(used_when_added_, used - std::min(used, left));
    }
  }

  // [MT] Whether to open another window, because much memory was used since the last one.
  bool wants_window() {
    const uint64_t used = Recorder::instance().used_bytes();
    const std::lock_guard lock(mutex_);
    return used - std::min(used, used_when_added_) > limits_.max_bytes / kParts;
  }

  // [MT] Removes all windows; the caller closes them.
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

  // [MT] The oldest window; 0 without windows.
  uint32_t oldest() {
    const std::lock_guard lock(mutex_);
    return windows_.empty() ? 0 : windows_.front().id;
  }
  // [MT] A closed window with the content of the ring, for a dump; 0 without content.
  uint32_t snapshot() {
    const std::lock_guard lock(mutex_);
    return windows_.empty() ? 0 : Recorder::instance().snapshot_window(windows_.front().id);
  }
  // [MT] Duration of the ring's content.
  int64_t held_ns(int64_t now_ns) {
    const std::lock_guard lock(mutex_);
    return windows_.empty() ? 0 : now_ns - windows_.front().opened_ns;
  }
  // [MT] Number of windows that were discarded because of the memory limit.
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
