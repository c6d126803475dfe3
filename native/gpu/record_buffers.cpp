#include "gpu/record_buffers.h"

#include <pthread.h>
#include <sys/mman.h>

#include <algorithm>
#include <new>
#include <system_error>
#include <thread>
#include <utility>

namespace opscope::gpu {

namespace {

constexpr size_t kFirstBuffers = 4;  // created before collecting starts, so that no launch waits for them
constexpr size_t kKeptBuffers = 16;  // for the next recording; more are freed

// Zeros from the kernel.
uint8_t* new_buffer(int populate) {
  void* buffer = mmap(nullptr, RecordBuffers::kBytes, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | populate, -1, 0);
  return buffer == MAP_FAILED ? nullptr : static_cast<uint8_t*>(buffer);
}

void free_buffer(uint8_t* buffer) { munmap(buffer, RecordBuffers::kBytes); }

}  // namespace

void RecordBuffers::set_budget(size_t bytes) {
  std::lock_guard lock(mutex_);
  max_buffers_ = std::max<size_t>(bytes / kBytes, 1);
}

bool RecordBuffers::start() {
  std::lock_guard lock(mutex_);
  while (buffers_ < std::min(kFirstBuffers, max_buffers_)) {
    uint8_t* buffer = new_buffer(MAP_POPULATE);  // so that no launch has page faults
    if (buffer == nullptr) break;
    ++buffers_;
    if (!keep(buffer)) break;
  }
  if (has_thread_) return true;
  try {
    std::thread([this] { parse_forever(); }).detach();
    has_thread_ = true;
  } catch (const std::system_error&) {  // a limit on processes, or no room for a stack
  }
  return has_thread_;
}

uint8_t* RecordBuffers::take(bool must) noexcept {
  std::lock_guard lock(mutex_);
  if (!free_.empty()) {
    uint8_t* buffer = free_.back();
    free_.pop_back();
    return buffer;
  }
  uint8_t* buffer = buffers_ < max_buffers_ || must ? new_buffer(0) : nullptr;
  if (buffer != nullptr) {
    ++buffers_;
  } else {
    ++refused_;
  }
  return buffer;
}

void RecordBuffers::give_back(uint8_t* buffer, size_t valid, size_t dropped) noexcept {
  std::lock_guard lock(mutex_);
  dropped_ += dropped;
  if (buffer == nullptr) return;
  try {
    filled_.push_back({buffer, valid});
  } catch (const std::bad_alloc&) {
    ++dropped_;  // the number of its records is unknown: count at least one
    free_buffer(buffer);
    --buffers_;
  }
  filled_or_idle_.notify_all();
}

void RecordBuffers::wait_until_parsed() {
  std::unique_lock lock(mutex_);
  filled_or_idle_.wait(lock, [&] { return filled_.empty() && !parsing_; });
}

uint64_t RecordBuffers::take_dropped() {
  std::lock_guard lock(mutex_);
  return std::exchange(dropped_, 0);
}

uint64_t RecordBuffers::refused() {
  std::lock_guard lock(mutex_);
  return refused_;
}

void RecordBuffers::forget() {
  std::lock_guard lock(mutex_);
  dropped_ = refused_ = 0;
}

bool RecordBuffers::keep(uint8_t* buffer) noexcept {
  try {
    free_.push_back(buffer);
    return true;
  } catch (const std::bad_alloc&) {
    free_buffer(buffer);
    --buffers_;
    return false;
  }
}

void RecordBuffers::parse_forever() {
  pthread_setname_np(pthread_self(), "opscope-gpu");
  std::unique_lock lock(mutex_);
  for (;;) {
    filled_or_idle_.wait(lock, [&] { return !filled_.empty(); });
    const Filled filled = filled_.front();
    filled_.pop_front();
    parsing_ = true;
    lock.unlock();
    parse_(filled.buffer, filled.valid);
    lock.lock();
    parsing_ = false;
    if (filled_.empty()) filled_or_idle_.notify_all();
    if (buffers_ > std::min(kKeptBuffers, max_buffers_)) {
      free_buffer(filled.buffer);
      --buffers_;
      continue;
    }
    lock.unlock();
    // The whole buffer: half a record may follow the valid part.
    std::fill_n(filled.buffer, kBytes, uint8_t{0});
    lock.lock();
    keep(filled.buffer);
  }
}

}  // namespace opscope::gpu
