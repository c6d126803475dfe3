// A thread that needs no GIL. It trims the ring, hears signals, and sees that the program stands still or
// that its memory jumps. What it sees it tells to a thread of Python's, which decides; where that does not
// come for it within `patience`, because the GIL is held, it writes a dump itself.
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

enum class News : int { kNothing = 0, kStopped, kRotate, kAsked, kSignal, kStandstill, kMemory };

class Watch {
 public:
  struct Settings {
    Ring::Limits ring;
    int64_t patience_ns = 0;
    int64_t standstill_ns = 0;      // 0: off
    bool needs_steps = true;        // only a program that makes steps can stand still
    int64_t memory_jump_bytes = 0;  // of the resident set, within memory_jump_ns; 0: off
    int64_t memory_jump_ns = 0;
  };
  struct Told {
    News news = News::kNothing;
    int64_t value = 0;   // number of what was asked for, of a signal; ns of standstill; bytes
    int64_t age_ns = 0;  // when it is taken: since it was noticed
  };

  explicit Watch(Settings settings);
  Watch(const Watch&) = delete;
  Watch& operator=(const Watch&) = delete;
  ~Watch() { stop(); }

  // [GIL]
  void start();
  // [MT] In a forked child as leave_to_parent().
  void stop();
  // [GIL] In a forked child, where the thread is not, which may have been anywhere: its signals are ignored.
  // Nothing else may be done with this, nor may it be destroyed.
  void leave_to_parent();

  Ring& ring() { return ring_; }
  // [MT] The program has made a step.
  void step_ended() {
    const int64_t now = clock_ns(CLOCK_MONOTONIC);
    const int64_t last = last_step_ns_.exchange(now, std::memory_order_relaxed);
    if (last != 0 && now - last > longest_step_ns_.load(std::memory_order_relaxed)) {
      longest_step_ns_.store(now - last, std::memory_order_relaxed);
    }
    steps_.fetch_add(1, std::memory_order_release);
  }
  // [MT] Tells Python's thread to dump; `number` is the caller's, `reason` JSON. False: too many wait
  // already.
  bool ask(int64_t number, std::string reason);
  // [MT] Returns 0, or an errno.
  int hear_signal(int number);
  void ignore_signal(int number);
  // [MT] What to write from where Python does not answer; used once.
  void arm(SpoolOrder order);
  // [Python's thread, without the GIL] Waits until there is something to do, or for `timeout_ns`.
  void wait(int64_t timeout_ns);
  // [Python's thread, GIL] What there is to do.
  Told take();
  // [Python's thread, without the GIL] What `work` returns, which takes as long as it takes.
  template <typename Work>
  auto while_working(Work&& work) {
    with_python(false);
    const auto result = work();
    with_python(true);
    return result;
  }
  // [MT] Numbers of those that were asked for and that it wrote itself, once each.
  std::vector<int64_t> take_answered();
  // [MT] How often it wrote a dump itself.
  uint64_t emergencies() const { return emergencies_.load(); }
  // [MT] Of the processor, by this thread.
  int64_t processor_ns() const { return processor_ns_.load(std::memory_order_relaxed); }

 private:
  struct Pending {
    Told told;
    int64_t since_ns;
    std::string reason;  // of what was asked for, JSON
  };

  void run();
  void wake();
  void sleep();
  void look(int64_t now_ns);
  void look_at_progress(int64_t now_ns);
  void look_at_memory(int64_t now_ns);
  bool tell(Told told, int64_t now_ns, std::string reason = {});
  void help_out(int64_t now_ns);
  void with_python(bool is_with_it);

  static constexpr int kTick_ms = 100;
  static constexpr int kShortTick_ms = 10;  // in the second after a part of the memory was full

  const Settings settings_;
  Ring ring_;
  const pid_t process_;
  void* interpreter_ = nullptr;
  std::thread thread_;
  std::atomic<bool> stopping_{false};
  std::atomic<uint64_t> steps_{0};
  std::atomic<int64_t> last_step_ns_{0};
  std::atomic<int64_t> longest_step_ns_{0};  // since it was looked at
  std::atomic<uint64_t> emergencies_{0};
  std::atomic<int64_t> processor_ns_{0};
  int64_t filled_ns_ = 0;   // when a part of the memory was last seen to be full
  int tick_ms_ = kTick_ms;  // how long it sleeps

  std::mutex mutex_;  // for what follows
  std::condition_variable has_news_;
  std::condition_variable is_wanted_;  // by its own thread, before the next tick
  bool is_woken_ = false;
  std::deque<Pending> pending_;
  // Python's thread runs Python or waits for the GIL; 0: it waits for news, or works without the GIL. What it
  // does in Python is short, so where it does not come for news in time, it gets no GIL: it may have left it
  // to others anywhere.
  int64_t with_python_since_ns_ = 0;
  std::unique_ptr<SpoolOrder> order_;
  std::vector<int64_t> answered_;
  std::vector<int> signals_;

  // Of the thread.
  uint64_t seen_steps_ = 0, seen_records_ = 0;
  int64_t last_progress_ns_ = 0;
  bool told_standstill_ = false;
  int64_t stopped_ns_ = 0;                            // since the last progress
  int64_t stopped_until_ns_ = 0;                      // when it went on
  std::deque<std::pair<int64_t, int64_t>> resident_;  // time, bytes
};

}  // namespace opscope
