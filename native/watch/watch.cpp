#include "watch/watch.h"

#include <Python.h>
#include <pthread.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstddef>
#include <cstdio>
#include <new>
#include <utility>

#include "log/clock.h"
#include "log/own_file.h"
#include "watch/dump_writer.h"
#include "watch/watched_signals.h"

namespace opscope {

namespace {

constexpr int64_t kSecond_ns = 1'000'000'000;
// A sleeping thread wakes in time. If it wakes this much later, the process was stopped.
constexpr int64_t kShortestStop_ns = kSecond_ns;

int64_t now_ns() { return clock_ns(CLOCK_MONOTONIC); }

// Resident set size; 0 if unknown.
int64_t resident_bytes() {
  const std::string text = read_proc_file("/proc/self/statm", 128);
  long long total = 0, resident = 0;
  const int read = std::sscanf(text.c_str(), "%lld %lld", &total, &resident);
  return read == 2 ? resident * sysconf(_SC_PAGESIZE) : 0;
}

std::string reason_of(const Watch::Report& report) {  // JSON
  const char* const kind = report.news == News::kSignal       ? "signal"
                           : report.news == News::kStandstill ? "standstill"
                                                              : "memory";
  return "{\"news\": \"" + std::string(kind) + "\", \"value\": " + std::to_string(report.value) +
         ", \"time_ns\": " + std::to_string(clock_ns(CLOCK_REALTIME)) + "}";
}

}  // namespace

Watch::Watch(Settings settings) : settings_(settings), ring_(settings.ring), process_(getpid()) {}

void Watch::start() {
  interpreter_ = PyInterpreterState_Get();
  // The remaining windows soon use the memory of a discarded one.
  Recorder::instance().pool().keep(settings_.ring.max_bytes / 4);
  last_progress_ns_ = now_ns();
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);  // signals belong to the program's threads
  try {
    thread_ = std::thread([this] { run(); });
  } catch (...) {
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
    throw;
  }
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

void Watch::stop() {
  if (process_ != getpid()) return leave_to_parent();
  stopping_ = true;
  wake();
  if (thread_.joinable()) thread_.join();
  Recorder::instance().pool().keep(0);
  const std::lock_guard lock(mutex_);
  for (const int number : signals_) WatchedSignals::remove(number);
  signals_.clear();
  has_news_.notify_all();
}

void Watch::leave_to_parent() {
  new (&mutex_) std::mutex;  // the thread may hold it
  alignas(std::thread) std::byte place[sizeof(std::thread)];
  new (place)
      std::thread(std::move(thread_));  // never joined nor detached: the C library may reuse its memory
  for (const int number : signals_) WatchedSignals::remove(number);
  signals_.clear();
}

bool Watch::request(int64_t number, std::string reason) {
  wake();  // the deciding thread may need a newer look
  const std::lock_guard lock(mutex_);
  return post({News::kRequest, number}, now_ns(), std::move(reason));
}

std::vector<int64_t> Watch::take_answered() {
  const std::lock_guard lock(mutex_);
  return std::exchange(answered_, {});
}

int Watch::catch_signal(int number) {
  const std::lock_guard lock(mutex_);
  const int error = WatchedSignals::add(number);
  if (error == 0) signals_.push_back(number);
  return error;
}

void Watch::ignore_signal(int number) {
  const std::lock_guard lock(mutex_);
  WatchedSignals::remove(number);
  std::erase(signals_, number);
}

void Watch::arm(SpoolOrder order) {
  const std::lock_guard lock(mutex_);
  order_ = std::make_unique<SpoolOrder>(std::move(order));
}

void Watch::wait(int64_t timeout_ns) {
  std::unique_lock lock(mutex_);
  with_python_since_ns_ = 0;
  has_news_.wait_for(lock, std::chrono::nanoseconds(std::max<int64_t>(timeout_ns, 0)),
                     [this] { return stopping_.load() || !pending_.empty(); });
  with_python_since_ns_ = now_ns();
}

Watch::Report Watch::take() {
  const std::lock_guard lock(mutex_);
  if (stopping_) return {News::kStopped, 0};
  if (pending_.empty()) return {};
  Report report = pending_.front().report;
  report.age_ns = now_ns() - pending_.front().since_ns;
  pending_.pop_front();
  return report;
}

void Watch::with_python(bool is_with_it) {
  const std::lock_guard lock(mutex_);
  with_python_since_ns_ = is_with_it ? now_ns() : 0;
}

// Needs mutex_.
bool Watch::post(Report report, int64_t now, std::string reason) {
  constexpr size_t kMost = 64;
  if (pending_.size() >= kMost) return false;
  pending_.push_back({report, now, std::move(reason)});
  has_news_.notify_one();
  return true;
}

void Watch::run() {
  pthread_setname_np(pthread_self(), "opscope-watch");
  while (!stopping_) {
    sleep();
    const int64_t now = now_ns();
    look(now);
    write_overdue_dump(now);
    processor_ns_.store(clock_ns(CLOCK_THREAD_CPUTIME_ID), std::memory_order_relaxed);
  }
}

void Watch::sleep() {
  const int64_t began_ns = now_ns();
  std::unique_lock lock(mutex_);
  is_wanted_.wait_for(lock, std::chrono::milliseconds(tick_ms_), [this] { return is_woken_; });
  is_woken_ = false;
  const int64_t now = now_ns(), late_ns = now - began_ns - tick_ms_ * (kSecond_ns / 1000);
  if (late_ns < kShortestStop_ns) return;
  stopped_ns_ += late_ns;
  stopped_until_ns_ = now;
}

void Watch::wake() {
  const std::lock_guard lock(mutex_);
  is_woken_ = true;
  is_wanted_.notify_one();
}

void Watch::look(int64_t now) {
  ring_.trim(now);
  look_at_progress(now);
  look_at_memory(now);
  uint64_t arrived = WatchedSignals::take();
  const bool rotate = ring_.wants_window();
  if (rotate) filled_ns_ = now;
  tick_ms_ = now - filled_ns_ < kSecond_ns ? kShortTick_ms : kTick_ms;
  const std::lock_guard lock(mutex_);
  for (int number = 1; arrived != 0; ++number, arrived >>= 1) {
    if ((arrived & 1) != 0) post({News::kSignal, number}, now);
  }
  const bool is_pending = std::any_of(pending_.begin(), pending_.end(),
                                      [](const Pending& one) { return one.report.news == News::kRotate; });
  if (rotate && !is_pending) post({News::kRotate, 0}, now);
}

// Every step is progress; in a program without steps, every record. After a reported standstill, some
// progress is needed before another.
void Watch::look_at_progress(int64_t now) {
  if (settings_.standstill_ns == 0) return;
  const uint64_t steps = steps_.load(std::memory_order_acquire);
  const uint64_t records = steps == 0 ? Recorder::instance().statistics().records : seen_records_;
  if (steps != seen_steps_ || records != seen_records_) {
    seen_steps_ = steps;
    seen_records_ = records;
    // Time of the progress, not of this look: this thread may have been delayed.
    last_progress_ns_ = steps == 0 ? now : std::min(now, last_step_ns_.load(std::memory_order_relaxed));
    // A long step counts even if it ended before this look.
    const int64_t longest_ns = longest_step_ns_.exchange(0, std::memory_order_relaxed) - stopped_ns_;
    if (last_progress_ns_ >= stopped_until_ns_) stopped_ns_ = 0;
    if (!reported_standstill_ && longest_ns >= settings_.standstill_ns) {
      const std::lock_guard lock(mutex_);
      post({News::kStandstill, longest_ns}, now);
    }
    reported_standstill_ = false;
    return;
  }
  const bool can_stand_still = steps != 0 || (!settings_.needs_steps && records != 0);
  const int64_t standstill_ns = now - last_progress_ns_ - stopped_ns_;
  if (reported_standstill_ || !can_stand_still || standstill_ns < settings_.standstill_ns) return;
  reported_standstill_ = true;
  const std::lock_guard lock(mutex_);
  post({News::kStandstill, standstill_ns}, now);
}

void Watch::look_at_memory(int64_t now) {
  if (settings_.memory_jump_bytes == 0) return;
  const int64_t resident = resident_bytes();
  while (!resident_.empty() && resident_.front().first < now - settings_.memory_jump_ns)
    resident_.pop_front();
  int64_t least = resident;
  for (const auto& [time, bytes] : resident_) least = std::min(least, bytes);
  resident_.emplace_back(now, resident);
  if (resident - least < settings_.memory_jump_bytes) return;
  resident_.clear();  // the next jump counts from here
  const std::lock_guard lock(mutex_);
  post({News::kMemory, resident - least}, now);
}

// Writes a dump without Python if Python gets no GIL in time. If Python's thread is writing an earlier dump,
// it takes this one later.
void Watch::write_overdue_dump(int64_t now) {
  std::unique_ptr<SpoolOrder> order;
  Pending taken;
  {
    const std::lock_guard lock(mutex_);
    if (with_python_since_ns_ == 0 || now - with_python_since_ns_ <= settings_.patience_ns) return;
    const auto late = std::find_if(pending_.begin(), pending_.end(), [&](const Pending& one) {
      return one.report.news != News::kRotate && now - one.since_ns > settings_.patience_ns;
    });
    if (late == pending_.end() || order_ == nullptr) return;
    taken = std::move(*late);
    pending_.erase(late);
    order = std::move(order_);
  }
  const std::string reason = taken.reason.empty() ? reason_of(taken.report) : taken.reason;
  const bool is_written = write_spool(ring_, *order, reason, interpreter_) == 0;
  if (is_written && hand_to_writer(order->command) == 0) emergencies_.fetch_add(1);
  if (taken.report.news != News::kRequest) return;
  const std::lock_guard lock(mutex_);
  answered_.push_back(taken.report.value);
}

}  // namespace opscope
