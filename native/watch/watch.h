// A thread that needs no GIL. It trims the ring, receives signals, and detects a standstill or a jump in
// memory. It reports these to a Python thread, which decides. If that thread does not respond within
// `patience`, because the GIL is held, this thread writes a dump itself.
#pragma once

#include <sys/types.h>

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "log/clock.h"
#include "watch/ring.h"
#include "watch/spool.h"

namespace opscope {

enum class News : int { kNothing = 0, kStopped, kRotate, kRequest, kSignal, kStandstill, kMemory };

class Watch {
 public:
  struct Settings {
    Ring::Limits ring;
    int64_t patience_ns = 0;
    int64_t standstill_ns = 0;      // 0: off
    bool needs_steps = true;        // only a program with steps can stand still
    int64_t memory_jump_bytes = 0;  // growth of the resident set within memory_jump_ns; 0: off
    int64_t memory_jump_ns = 0;
  };
  struct Report {
    News news = News::kNothing;
    int64_t value = 0;   // request number, signal number, ns of standstill, or bytes
    int64_t age_ns = 0;  // time between detection and take()
  };

  explicit Watch(Settings settings);
  Watch(const Watch&) = delete;
  Watch& operator=(const Watch&) = delete;
  ~Watch() { stop(); }

  // [GIL]
  void start();
  // [MT] Like leave_to_parent() in a forked child.
  void stop();
  // [GIL] In a forked child, where the thread does not exist and may have held any lock: ignores its signals.
  // Afterwards the object must not be used or destroyed.
  void leave_to_parent();

  Ring& ring() { return ring_; }
  void step_ended() {
    const int64_t now = clock_ns(CLOCK_MONOTONIC);
    const int64_t last = last_step_ns_.exchange(now, std::memory_order_relaxed);
    if (last != 0 && now - last > longest_step_ns_.load(std::memory_order_relaxed)) {
      longest_step_ns_.store(now - last, std::memory_order_relaxed);
    }
    steps_.fetch_add(1, std::memory_order_release);
  }
  // [MT] Requests a dump from Python's thread; `number` is the caller's, `reason` JSON. False: too many
  // requests wait.
  bool request(int64_t number, std::string reason);
  // [MT] Returns 0 or an errno.
  int catch_signal(int number);
  void ignore_signal(int number);
  // [MT] Input of a dump if Python does not respond; used once.
  void arm(SpoolOrder order);
  // [Python's thread, without the GIL] Waits for a report, or for `timeout_ns`.
  void wait(int64_t timeout_ns);
  // [Python's thread, GIL] The next report.
  Report take();
  // [Python's thread, without the GIL] Runs `work`, which may take long, and returns its result.
  template <typename Work>
  auto while_working(Work&& work) {
    with_python(false);
    const auto result = work();
    with_python(true);
    return result;
  }
  // [MT] Request numbers of dumps that this thread wrote itself, once each.
  std::vector<int64_t> take_answered();
  // [MT] Number of dumps that this thread wrote itself.
  uint64_t emergencies() const { return emergencies_.load(); }
  // [MT] CPU time of this thread.
  int64_t processor_ns() const { return processor_ns_.load(std::memory_order_relaxed); }

 private:
  struct Pending {
    Report report;
    int64_t since_ns;
    std::string reason;  // JSON
  };

  void run();
  void wake();
  void sleep();
  void look(int64_t now_ns);
  void look_at_progress(int64_t now_ns);
  void look_at_memory(int64_t now_ns);
  bool post(Report report, int64_t now_ns, std::string reason = {});
  void write_overdue_dump(int64_t now_ns);
  void with_python(bool is_with_it);

  static constexpr int kTick_ms = 100;
  static constexpr int kShortTick_ms = 10;  // in the second after the ring last needed a window

  const Settings settings_;
  Ring ring_;
  const pid_t process_;
  void* interpreter_ = nullptr;
  std::thread thread_;
  std::atomic<bool> stopping_{false};
  std::atomic<uint64_t> steps_{0};
  std::atomic<int64_t> last_step_ns_{0};
  std::atomic<int64_t> longest_step_ns_{0};  // since the last look
  std::atomic<uint64_t> emergencies_{0};
  std::atomic<int64_t> processor_ns_{0};
  int64_t filled_ns_ = 0;   // time at which the ring last needed a window
  int tick_ms_ = kTick_ms;  // current sleep time

  std::mutex mutex_;  // guards everything below
  std::condition_variable has_news_;
  std::condition_variable is_wanted_;  // wakes the watch's thread before its next tick
  bool is_woken_ = false;
  std::deque<Pending> pending_;
  // Since when Python's thread runs Python or waits for the GIL; 0: it waits for reports, or works without
  // the GIL. Its work in Python is short, so if it does not return in time, it gets no GIL.
  int64_t with_python_since_ns_ = 0;
  std::unique_ptr<SpoolOrder> order_;
  std::vector<int64_t> answered_;
  std::vector<int> signals_;

  uint64_t seen_steps_ = 0, seen_records_ = 0;
  int64_t last_progress_ns_ = 0;
  bool reported_standstill_ = false;
  int64_t stopped_ns_ = 0;                            // since the last progress
  int64_t stopped_until_ns_ = 0;                      // time at which the process continued
  std::deque<std::pair<int64_t, int64_t>> resident_;  // time, bytes
};

}  // namespace opscope
