// Part of torch_bridge.cpp: torch's list of callbacks and its lock, which must be free in a forked child.
//
// A fork copies a locked mutex without the thread that would unlock it. Every recorded thread takes one mutex
// of torch: that of the list of global callbacks, at its first operator after a change of the list. So
// opscope holds it across forks, as the C library does with its own.
#pragma once

#include <ATen/record_function.h>
#include <fcntl.h>
#include <link.h>
#include <pthread.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <mutex>
#include <system_error>
#include <thread>

#include "torch/torch_state.h"

namespace opscope {
namespace {

// Copies memory that may be unmapped: write() to a pipe fails for it, while reading would crash.
class SafeMemory {
 public:
  SafeMemory() {
    if (pipe2(pipe_, O_NONBLOCK | O_CLOEXEC) != 0) pipe_[0] = pipe_[1] = -1;
  }
  ~SafeMemory() {
    for (const int end : pipe_) {
      if (end >= 0) close(end);
    }
  }
  SafeMemory(const SafeMemory&) = delete;
  SafeMemory& operator=(const SafeMemory&) = delete;

  bool can_read() const { return pipe_[0] >= 0; }

  bool read(const void* address, size_t bytes, char* copy) const {
    const ssize_t written = write(pipe_[1], address, bytes);
    return written == static_cast<ssize_t>(bytes) && ::read(pipe_[0], copy, bytes) == written;
  }

  // Copies the mapped part from the start; returns its size.
  size_t read_part(const void* address, size_t bytes, char* copy) const {
    constexpr size_t kPageBytes = 4096;
    size_t done = 0;
    while (done < bytes) {
      const auto at = reinterpret_cast<uintptr_t>(address) + done;
      const size_t part = std::min(kPageBytes - at % kPageBytes, bytes - done);
      if (!read(reinterpret_cast<const void*>(at), part, copy + done)) break;
      done += part;
    }
    return done;
  }

 private:
  int pipe_[2];
};

// Finds torch's list of global callbacks, a static object without an exported symbol. Searches the writable
// data of torch's library for its layout: a vector that contains a just registered callback, followed by the
// mutex. A test confirms it: while this thread holds the mutex, a thread that reads the callbacks must wait.
class CallbackListSearch {
 public:
  using Entry = at::RecordFunctionCallbacksEntry;
  // End of torch's GlobalCallbackManager: a std::vector and the mutex.
  struct Layout {
    Entry* begin;
    Entry* end;
    Entry* capacity;
    std::mutex mutex;
  };
  static_assert(sizeof(at::RecordFunctionCallbacks) == 3 * sizeof(void*));

  // nullptr: this torch stores its callbacks differently. `handle`: a registered callback.
  static Layout* find(at::CallbackHandle handle) {
    CallbackListSearch search(handle);
    if (!search.memory_.can_read()) return nullptr;
    dl_iterate_phdr(&look_through_library, &search);
    return search.found_;
  }

 private:
  explicit CallbackListSearch(at::CallbackHandle handle) : handle_(handle) {}

  static int look_through_library(dl_phdr_info* library, size_t, void* context) {
    auto& search = *static_cast<CallbackListSearch*>(context);
    const auto inside = reinterpret_cast<uintptr_t>(&at::hasGlobalCallbacks);
    bool is_torch = false;
    for (int i = 0; i < library->dlpi_phnum; ++i) {
      const ElfW(Phdr) & part = library->dlpi_phdr[i];
      const uintptr_t begin = library->dlpi_addr + part.p_vaddr;
      is_torch |= part.p_type == PT_LOAD && begin <= inside && inside < begin + part.p_memsz;
    }
    for (int i = 0; is_torch && i < library->dlpi_phnum; ++i) {
      const ElfW(Phdr) & part = library->dlpi_phdr[i];
      if (part.p_type == PT_LOAD && (part.p_flags & PF_W) != 0) {
        search.look_through(library->dlpi_addr + part.p_vaddr, part.p_memsz);
      }
    }
    return is_torch ? 1 : 0;
  }

  void look_through(uintptr_t begin, size_t bytes) {
    const uintptr_t last = begin + bytes - sizeof(Layout);
    for (uintptr_t at = begin / 8 * 8; at <= last && found_ == nullptr; at += 8) {
      auto* const candidate = reinterpret_cast<Layout*>(at);
      if (holds_callback(*candidate) && is_the_lock(candidate->mutex)) found_ = candidate;
    }
  }

  bool holds_callback(const Layout& candidate) const {
    const auto begin = reinterpret_cast<uintptr_t>(candidate.begin);
    const auto end = reinterpret_cast<uintptr_t>(candidate.end);
    const auto capacity = reinterpret_cast<uintptr_t>(candidate.capacity);
    if (begin == 0 || begin % alignof(Entry) != 0 || begin >= end || end > capacity) return false;
    const size_t bytes = end - begin;
    if (bytes > kMostCallbacks * sizeof(Entry) || bytes % sizeof(Entry) != 0) return false;
    alignas(Entry) char copy[kMostCallbacks * sizeof(Entry)];
    if (!memory_.read(candidate.begin, bytes, copy)) return false;
    const auto* const entries = reinterpret_cast<const Entry*>(copy);
    return std::any_of(entries, entries + bytes / sizeof(Entry),
                       [this](const Entry& entry) { return entry.handle_ == handle_; });
  }

#ifdef __GLIBC__
  static constexpr int kContended = 2;  // value of the mutex's word while a thread waits

  static const int& word_of(std::mutex& mutex) { return mutex.native_handle()->__data.__lock; }

  // A thread that has just begun to run operators may hold it for a moment.
  static bool try_lock(std::mutex& mutex) {
    const auto& data = mutex.native_handle()->__data;
    if (data.__kind != PTHREAD_MUTEX_TIMED_NP || data.__spins != 0 || data.__count != 0) return false;
    for (int i = 0; i < 1000; ++i, std::this_thread::yield()) {
      if (mutex.try_lock()) return true;
    }
    return false;
  }

  static bool is_the_lock(std::mutex& mutex) {
    if (!try_lock(mutex)) return false;
    std::unique_lock lock(mutex, std::adopt_lock);
    std::atomic<bool> answered{false};
    bool waited = false;
    try {
      std::thread asking([&answered] {
        at::hasGlobalCallbacks();
        answered.store(true);
      });
      while (!answered.load() && !waited) {
        waited = __atomic_load_n(&word_of(mutex), __ATOMIC_RELAXED) == kContended;
        std::this_thread::yield();
      }
      lock.unlock();
      asking.join();
    } catch (const std::system_error&) {
      return false;  // no thread could be started
    }
    return waited;
  }
#else
  static bool is_the_lock(std::mutex&) { return false; }
#endif

  static constexpr size_t kMostCallbacks = 64;

  at::CallbackHandle handle_;
  SafeMemory memory_;
  Layout* found_ = nullptr;
};

// [under the core's mutex] torch's list of global callbacks, if it was found in this torch.
class CallbackList {
 public:
  // Before anything is recorded, when no other thread reads the list because of a change.
  static void find() {
    const at::CallbackHandle nothing = add_nothing();
    find(nothing);
    at::removeCallback(nothing);
  }
  // `handle`: a registered callback of opscope.
  static void find(at::CallbackHandle handle) {
    if (list_ == nullptr && attempts_ < kMostAttempts) {
      ++attempts_;
      list_ = CallbackListSearch::find(handle);
    }
  }
  // nullptr: not found.
  static std::mutex* lock() { return list_ == nullptr ? nullptr : &list_->mutex; }

  // Replaces a registered callback in one step. torch itself can only remove and add, which misses spans that
  // other threads begin in between. False: not possible.
  static bool replace(at::CallbackHandle handle, const at::RecordFunctionCallback& callback) {
    if (list_ == nullptr) return false;
    {
      std::lock_guard lock(list_->mutex);
      CallbackListSearch::Entry* const entry =
          std::find_if(list_->begin, list_->end, [handle](const auto& e) { return e.handle_ == handle; });
      if (entry == list_->end) return false;
      entry->callback_ = callback;
    }
    invalidate_threads();
    return true;
  }

 private:
  // Makes threads read the list again, as after a change by torch.
  static void invalidate_threads() { at::removeCallback(add_nothing()); }

  // A callback for an unused scope.
  static at::CallbackHandle add_nothing() {
    at::RecordFunctionCallback nothing(
        [](const at::RecordFunction&) -> std::unique_ptr<at::ObserverContext> { return nullptr; });
    nothing.scopes({at::RecordScope::KERNEL_FUNCTION_DTYPE});
    return at::addGlobalCallback(nothing);
  }

  static constexpr int kMostAttempts = 3;  // one fails if the lock is held or no thread can start
  static inline int attempts_ = 0;
  static inline CallbackListSearch::Layout* list_ = nullptr;
};

}  // namespace
}  // namespace opscope
