#include "gpu/gpu_activity.h"

#include <pthread.h>
#include <signal.h>

#include <chrono>
#include <cstdlib>
#include <system_error>
#include <thread>

#include "log/core_api.h"
#include "log/recorder.h"

namespace opscope {

namespace {

constexpr size_t kDefaultLogBytes = size_t{1} << 30;
constexpr std::chrono::seconds kBetweenNotes{1};
constexpr std::chrono::milliseconds kTurnAtEnd{10};
constexpr int kTurnsAtEnd = 100;

GpuActivity* current = nullptr;

// Held across a fork, and during changes of data that a child copies. Waits for devices hold mutex_ too long.
std::mutex& choosing() {
  static auto* const only = new std::mutex;
  return *only;
}

}  // namespace

GpuActivity& GpuActivity::instance() {
  static const bool made = [] {
    current = new GpuActivity;
    pthread_atfork([] { choosing().lock(); }, [] { choosing().unlock(); }, &GpuActivity::after_fork_in_child);
    return true;
  }();
  (void)made;
  return *current;
}

GpuActivity::GpuActivity() : log_(kDefaultLogBytes) {}

// Neither devices nor parsing threads survive a fork, so the child creates a new object. The old one stays,
// because the parent's threads may have held its locks.
void GpuActivity::after_fork_in_child() {
  const GpuActivity& parents = *current;
  current = new GpuActivity;
  current->candidates_ = parents.candidates_;
  current->is_lost_ = parents.loaded_ || parents.is_lost_;
  choosing().unlock();
  if (parents.make_source_ != nullptr) current->set_source(parents.make_source_);
}

void GpuActivity::set_source(gpu::MakeSource make) {
  std::scoped_lock lock(mutex_, choosing());
  make_source_ = make;
  source_ = make(log_, nodes_);
  loaded_ = false;
}

void GpuActivity::set_candidates(std::vector<std::string> paths) {
  std::scoped_lock lock(mutex_, choosing());
  if (!loaded_) candidates_ = std::move(paths);
}

void GpuActivity::set_budget(size_t buffer_bytes, size_t log_bytes) {
  std::scoped_lock lock(mutex_, log_.mutex());
  source_->set_buffer_budget(buffer_bytes);
  log_.set_max_bytes(log_bytes);
}

std::string GpuActivity::configure(uint32_t wanted, bool may_share) {
  std::lock_guard lock(mutex_);
  wanted_ = wanted;
  may_share_ = may_share;
  if ((wanted & kWantGpu) == 0) paused_ = false;  // the next recording is not paused
  return apply();
}

std::string GpuActivity::pause(bool paused) {
  std::lock_guard lock(mutex_);
  paused_ = paused && (wanted_ & kWantGpu) != 0;
  return apply();
}

std::string GpuActivity::apply() {
  const uint32_t wanted = wanted_ & (kWantGpu | kWantGpuSync);
  if ((wanted & kWantGpu) != 0 && !paused_) {
    if (wanted == collected_) return {};
    const std::string refused = start();
    started_ = refused.empty();
    collected_ = started_ ? wanted : 0;
    return refused;
  }
  collected_ = 0;
  if (!started_) return {};
  if (paused_) {
    source_->pause();
  } else {
    source_->stop();
    started_ = false;
  }
  return {};
}

std::string GpuActivity::start() {
  if (is_lost_) return "this process was forked from one that recorded devices, and cannot use them";
  if (!loaded_) {
    if (std::string error = source_->load(candidates_); !error.empty()) return error;
    loaded_ = true;
  }
  begin_noting();
  return source_->start((wanted_ & kWantGpuSync) != 0, may_share_);
}

// Without the thread, device activity is written to the stream's file only at its end.
void GpuActivity::begin_noting() {
  has_started_.notify_all();
  if (is_noted_by_thread_) return;
  std::atexit([] { current->stop_notes(); });
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);  // blocks the program's signals, which are for its own threads
  try {
    std::thread([this] { note_forever(); }).detach();
    is_noted_by_thread_ = true;
  } catch (const std::system_error&) {  // a limit on processes, or no room for a stack
  }
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

void GpuActivity::note_forever() {
  pthread_setname_np(pthread_self(), "opscope-devices");
  std::unique_lock lock(mutex_);
  for (;;) {
    has_started_.wait(lock, [this] { return started_; });
    lock.unlock();
    std::this_thread::sleep_for(kBetweenNotes);
    note(/*all=*/false);
    lock.lock();
  }
}

// Appends notes without mutex_: a thread that holds the recorder's mutex may wait for mutex_.
void GpuActivity::note(bool all) {
  const std::lock_guard noting(noting_);
  Recorder& recorder = Recorder::instance();
  const uint32_t window = recorder.streamed_window();
  if (window == 0 || window == full_) return;
  const uint64_t delivered = now_ticks();
  for (bool is_delivered = false, is_done = false; !is_done; is_delivered = true) {
    std::vector<gpu::DeviceNote> notes;
    {
      const std::lock_guard lock(mutex_);
      if (!loaded_ || (!all && has_stopped_notes_)) return;
      if (!is_delivered) all ? source_->collect() : source_->deliver();
      notes = notes_.next(window, log_, nodes_, *source_, delivered);
    }
    for (const gpu::DeviceNote& note : notes) {
      is_done = note.kind == gpu::NoteKind::kSource;
      if (recorder.note_devices(window, static_cast<uint32_t>(note.kind), note.bytes, is_done)) continue;
      full_ = window;  // readers of the file see the time of the last device activity
      return;
    }
  }
}

// Waits for a running call of the library, unless the call hangs with its devices.
void GpuActivity::stop_notes() {
  has_stopped_notes_ = true;
  for (int turn = 0; turn < kTurnsAtEnd; ++turn) {
    if (mutex_.try_lock()) return mutex_.unlock();
    std::this_thread::sleep_for(kTurnAtEnd);
  }
}

void GpuActivity::collect() {
  std::lock_guard lock(mutex_);
  if (loaded_) source_->collect();
}

void GpuActivity::forget() {
  std::lock_guard lock(mutex_);
  if (started_) return;
  source_->forget();
  std::lock_guard log(log_.mutex());
  log_.clear();
  notes_.forget_rows();
}

gpu::DeviceClock GpuActivity::clock() {
  std::lock_guard lock(mutex_);
  return source_->clock();
}

gpu::SourceState GpuActivity::state() {
  std::lock_guard lock(mutex_);
  return source_->state();
}

}  // namespace opscope
