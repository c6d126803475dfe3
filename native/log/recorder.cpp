#include "log/recorder.h"

#include <pthread.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <new>
#include <stdexcept>
#include <utility>

#include "log/stream_file.h"

namespace opscope {

namespace {

std::string system_thread_name() {
  char name[32] = {};
  pthread_getname_np(pthread_self(), name, sizeof(name));
  return name;
}

// Ends a log with its thread. Torch and Python run code in their own thread-local destructors, possibly after
// ours: `torn_down` is trivially destructible, so it is readable even then.
thread_local bool torn_down = false;
thread_local ThreadLog* this_thread_log = nullptr;

struct ThreadExit {
  ~ThreadExit() {
    torn_down = true;
    ThreadLog* log = this_thread_log;
    this_thread_log = nullptr;
    if (log != nullptr) Recorder::instance().forget_thread(log);
  }
};
thread_local ThreadExit thread_exit;

}  // namespace

int64_t system_thread_id() { return static_cast<int64_t>(syscall(SYS_gettid)); }

Recorder& Recorder::instance() {
  static auto* recorder = new Recorder;
  return *recorder;
}

Recorder::Recorder() : origin_(read_anchor()) {
  core_api_ = {kCoreApiVersion,
               &Recorder::this_thread,
               [](ThreadLog* log, const char* text, const char* overload) {
                 return instance().intern(log, text, overload);
               },
               [](const char* what) { instance().set_fault(what); },
               [](bool is_memory) {
                 (is_memory ? instance().lost_allocations_ : instance().lost_spans_).fetch_add(1);
               },
               &Recorder::name_thread,
               [](const ThreadLog*) -> uint32_t { return 0; }};
  pthread_atfork(
      &Recorder::before_fork, [] { after_fork(/*in_child*/ false); }, &Recorder::after_fork_in_child);
}

ThreadLog* Recorder::this_thread() noexcept {
  if (this_thread_log != nullptr || torn_down) return this_thread_log;
  try {
    return instance().make_log();
  } catch (const std::exception&) {
    instance().set_fault("out of memory");
    return nullptr;
  }
}

ThreadLog* Recorder::make_log() {
  const uint64_t in_python = python_thread();
  std::shared_ptr<ThreadLog> log;
  {
    std::lock_guard lock(mutex_);
    log = std::make_shared<ThreadLog>(pool_, next_thread_, system_thread_id(),
                                      static_cast<uint64_t>(pthread_self()), system_thread_name(),
                                      calls_are_watched_);
    log->python_thread = in_python;
    threads_.push_back(log);
    ++next_thread_;
    pool_.with_stream([&](StreamFile& file) { file.meet(facts_of(*log)); });
  }
  (void)&thread_exit;  // first use constructs it, which registers its destructor
  this_thread_log = log.get();
  read_program_name(*log);
  return this_thread_log;
}

void Recorder::name_thread(ThreadLog* log, uint64_t torch_thread_id) {
  log->torch_thread_id = torch_thread_id;
  instance().pool_.with_stream([log](StreamFile& file) { file.meet(facts_of(*log)); });
}

bool Recorder::read_program_name(ThreadLog& log) {
  if (log.program_name.load() != nullptr) return true;
  std::string by_program = program_thread_name();
  if (by_program.empty()) return false;
  log.program_name = new std::string(std::move(by_program));
  pool_.with_stream([&](StreamFile& file) { file.meet(facts_of(log)); });
  return true;
}

void Recorder::forget_thread(ThreadLog* log) {
  std::lock_guard lock(mutex_);
  if (bridge_ != nullptr) bridge_->forget_thread();
  log->finished = true;
  const bool needed = needed_.has(log) || is_listed_on_closing(*log);
  if (!needed) std::erase_if(threads_, [&](const auto& thread) { return thread.get() == log; });
}

uint32_t Recorder::intern(ThreadLog* log, const char* text, const char* overload) {
  const uint32_t id = names_.intern(text, overload);
  if (id != kNoName && *overload == '\0') log->names.insert(names_.at(id).text, id);
  return id;
}

std::string Recorder::configure() {
  uint32_t wanted = 0;
  if (fault_.empty()) {
    for (const auto& window : open_) {
      const bool paused = !window->pauses.empty() && window->pauses.back().to_ticks == UINT64_MAX;
      if (!paused) wanted |= window->collects;
    }
  }
  char message[512] = {};
  // Held from before the first record until after the last.
  hold_tensors(wanted | configured_);
  if (bridge_ != nullptr && wanted != configured_) {
    configured_ = bridge_->configure(wanted, message, sizeof(message)) ? wanted : 0;
  }
  hold_tensors(configured_);
  set_wanted(wanted);
  return message;
}

void Recorder::hold_tensors(uint32_t wanted) {
  const bool is_needed = holds_tensors(wanted) && oldest_tensors() != UINT64_MAX;
  if (bridge_ != nullptr && is_needed != is_holding_) bridge_->hold_tensors(is_holding_ = is_needed);
}

bool Recorder::release_tensors() {
  if (bridge_ == nullptr || is_holding_ || oldest_tensors() != UINT64_MAX) return false;
  bridge_->release_tensors();
  return true;
}

void Recorder::set_wanted(uint32_t wanted) {
  wanted_.store(wanted, std::memory_order_release);
  if (bridge_ != nullptr) bridge_->wanted->store(wanted, std::memory_order_release);
}

void Recorder::release_memory() {
  if (readers_ != 0) return;  // the last reader does this
  for_child_.clear();
  release_tensors();
  std::erase_if(threads_, [&](const std::shared_ptr<ThreadLog>& thread) {
    if (is_listed_on_closing(*thread)) return false;
    thread->release_unneeded(NeededSweep(needed_.of(thread.get())));
    return thread->finished && !needed_.has(thread.get());
  });
  release_spent_blocks();  // only the window that is gone may have needed them
}

void Recorder::attach_bridge(const BridgeApi* bridge) {
  std::lock_guard lock(mutex_);
  bridge_ = bridge;
  configure();
}

std::string Recorder::fault() {
  std::lock_guard lock(mutex_);
  return fault_;
}

void Recorder::set_fault(const char* what) noexcept {
  // A callback failed: everything stops now. The next opening or closing removes callbacks, because torch
  // does not allow that inside one.
  std::lock_guard lock(mutex_);
  set_wanted(0);
  if (!fault_.empty()) return;
  try {
    fault_ = what;
  } catch (const std::bad_alloc&) {
    fault_ = "out of memory";  // short enough to allocate nothing
  }
  for (const auto& window : open_) {
    window->fault = fault_;
    stream_facts(*window);
  }
}

RecorderStatistics Recorder::statistics() {
  const uint64_t used = used_bytes();
  std::lock_guard lock(mutex_);
  // Counts a window that is still being read, even if it has been discarded.
  uint64_t records = 0;
  for (const auto& thread : threads_) records += thread->log().size();
  const uint64_t windows = std::max<uint64_t>(windows_.size(), readers_);
  return {threads_.size(), windows,  pool_.mapped_bytes(), used, journal_.bytes(),
          records,         wanted(), open_.size()};
}

namespace {

// Keeps the value without destroying it: other threads may have been writing to it during the fork.
template <typename Value>
void abandon(Value& value) {
  alignas(Value) std::byte place[sizeof(Value)];
  new (place) Value(std::exchange(value, {}));
}

}  // namespace

void Recorder::before_fork() {
  Recorder& self = instance();
  self.mutex_.lock();
  if (self.bridge_ != nullptr) self.bridge_->before_fork();
  self.names_.mutex().lock();
  self.name_journal_.mutex().lock();
  self.journal_.mutex().lock();
  if (self.stream_ != nullptr) {
    self.stream_->journal->mutex().lock();
    self.stream_->devices.mutex().lock();
  }
  self.pool_.mutex().lock();
  self.prepare_child();
}

void Recorder::after_fork(bool in_child) {
  Recorder& self = instance();
  self.pool_.mutex().unlock();
  if (self.stream_ != nullptr) {
    self.stream_->devices.mutex().unlock();
    self.stream_->journal->mutex().unlock();
  }
  self.journal_.mutex().unlock();
  self.name_journal_.mutex().unlock();
  self.names_.mutex().unlock();
  if (self.bridge_ != nullptr) self.bridge_->after_fork(in_child);
  self.mutex_.unlock();
}

// Finds the blocks that a child needs, since the child must not follow pointers: other threads may have been
// writing them during the fork, and blocks of a file change with the parent.
void Recorder::prepare_child() noexcept try {
  if (this_thread_log != nullptr) this_thread_log->copy_open_spans();
  for (const auto& [id, window] : windows_) {
    if (window->open || for_child_.contains(id)) continue;
    std::vector<ThreadView> threads = threads_of(*window);
    std::vector<const void*> blocks;
    for (const ThreadView& thread : threads) {
      blocks.insert(blocks.end(), thread.chunks.begin(), thread.chunks.end());
      blocks.insert(blocks.end(), thread.arena.begin(), thread.arena.end());
    }
    if (pool_.keep_for_child(std::move(blocks))) for_child_[id] = std::move(threads);
  }
} catch (const std::bad_alloc&) {  // the child misses the remaining ones
}

// The child has one thread and none of the parent's windows. Callbacks stay registered with torch, but have
// no effect while `wanted` is 0.
void Recorder::after_fork_in_child() {
  Recorder& self = instance();
  after_fork(/*in_child*/ true);
  const std::lock_guard lock(self.mutex_);
  self.set_wanted(0);
  self.leave_to_parent();
}

// Allocates nothing.
void Recorder::leave_to_parent() {
  readers_ = 0;
  name_journal_.copy_to(nullptr);
  journal_.copy_to(nullptr);
  abandon(stream_);
  pool_.leave_to_parent(name_journal_.bytes() + journal_.bytes());
  needed_ = {};
  inherited_ = std::exchange(for_child_, {});
  for (const auto& [id, window] : windows_) abandon(window->slices);
  std::erase_if(windows_, [this](const auto& entry) {
    return !entry.second->open && !inherited_.contains(entry.first);
  });
  for (const auto& window : std::exchange(open_, {})) {
    window->open = false;
    window->stopped = window->started;
    window->initial_stacks.clear();
  }
  const auto others = std::partition(threads_.begin(), threads_.end(),
                                     [](const auto& thread) { return thread.get() == this_thread_log; });
  std::for_each(others, threads_.end(), [](auto& thread) { abandon(thread); });
  threads_.erase(others, threads_.end());
  limit_memory();
  if (this_thread_log == nullptr) return;
  this_thread_log->system_thread_id = system_thread_id();
  this_thread_log->leave_to_parent();
}

ReadLock::ReadLock(Recorder& recorder) : recorder_(recorder) {
  std::lock_guard lock(recorder_.mutex_);
  ++recorder_.readers_;
}

ReadLock::~ReadLock() {
  std::lock_guard lock(recorder_.mutex_);
  // In a child forked in between, the count is already 0.
  if (recorder_.readers_ != 0 && --recorder_.readers_ == 0) recorder_.release_memory();
}

}  // namespace opscope
