#include "columns/reused_memory.h"

#include <pthread.h>
#include <sys/mman.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <iterator>

namespace opscope::columns {
namespace {

constexpr size_t kRoundedTo = 64 << 10;  // a multiple of every page size
constexpr size_t kMostBytes = SIZE_MAX / 4;

// Precedes every array.
struct alignas(16) Header {
  size_t whole_bytes;  // 0 for memory of the C library
  size_t data_bytes;

  static Header& of(void* data) { return *(static_cast<Header*>(data) - 1); }
};

// Offset of a large array in its block: at a cache line.
constexpr size_t kDataPlace = 64;

thread_local size_t begun_here = 0;

}  // namespace

ReusedMemory& ReusedMemory::instance() {
  static ReusedMemory* const only = [] {
    pthread_atfork(&before_fork, &after_fork_in_parent, &after_fork_in_child);
    return new ReusedMemory();
  }();
  return *only;
}

void ReusedMemory::before_fork() { instance().mutex_.lock(); }

void ReusedMemory::after_fork_in_parent() { instance().mutex_.unlock(); }

// Computations of other threads do not exist in the child.
void ReusedMemory::after_fork_in_child() {
  ReusedMemory& memory = instance();
  memory.begun_ = begun_here;
  if (memory.begun_ == 0) memory.give_back_all();
  memory.mutex_.unlock();
}

void ReusedMemory::begin() {
  const std::lock_guard lock(mutex_);
  ++begun_;
  ++begun_here;
}

void ReusedMemory::end() {
  const std::lock_guard lock(mutex_);
  --begun_here;
  if (--begun_ == 0) give_back_all();
}

ReusedMemory::Amounts ReusedMemory::amounts() {
  const std::lock_guard lock(mutex_);
  return {used_bytes_, kept_bytes_};
}

// [mutex_]
void ReusedMemory::give_back_all() {
  for (const auto& [place, bytes] : free_) munmap(place, bytes);
  free_.clear();
  free_by_size_.clear();
  kept_bytes_ = 0;
}

// [mutex_]
void ReusedMemory::give_back_largest() {
  const auto [bytes, place] = *free_by_size_.rbegin();
  munmap(place, bytes);
  free_by_size_.erase({bytes, place});
  free_.erase(place);
  kept_bytes_ -= bytes;
}

// [mutex_] Merges with adjacent free ranges.
void ReusedMemory::add_free(char* place, size_t bytes) {
  kept_bytes_ += bytes;
  auto next = free_.lower_bound(place);
  if (next != free_.end() && next->first == place + bytes) {
    bytes += next->second;
    free_by_size_.erase({next->second, next->first});
    next = free_.erase(next);
  }
  if (next != free_.begin()) {
    const auto before = std::prev(next);
    if (before->first + before->second == place) {
      free_by_size_.erase({before->second, before->first});
      place = before->first;
      bytes += before->second;
      free_.erase(before);
    }
  }
  free_.emplace(place, bytes);
  free_by_size_.emplace(bytes, place);
}

// [mutex_] Best fit.
char* ReusedMemory::take(size_t bytes) {
  auto found = free_by_size_.lower_bound({bytes, nullptr});
  if (found == free_by_size_.end()) {
    const size_t chunk = std::max(bytes, kChunkBytes);
    void* const memory =
        mmap(nullptr, chunk, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED) return nullptr;
    add_free(static_cast<char*>(memory), chunk);
    found = free_by_size_.lower_bound({bytes, nullptr});
  }
  const auto [whole, place] = *found;
  free_by_size_.erase(found);
  free_.erase(place);
  kept_bytes_ -= whole;
  if (whole > bytes) add_free(place + bytes, whole - bytes);
  return place;
}

void* ReusedMemory::allocate(size_t size) {
  if (size > kMostBytes) return nullptr;
  if (size >= kSmallestBytes) {
    const size_t whole_bytes = (size + kDataPlace + kRoundedTo - 1) / kRoundedTo * kRoundedTo;
    const std::lock_guard lock(mutex_);
    char* const place = begun_ != 0 ? take(whole_bytes) : nullptr;
    if (place != nullptr) {
      used_bytes_ += whole_bytes;
      void* const data = place + kDataPlace;
      Header::of(data) = {whole_bytes, size};
      return data;
    }
  }
  auto* const header = static_cast<Header*>(std::malloc(sizeof(Header) + size));
  if (header == nullptr) return nullptr;
  *header = {0, size};
  return header + 1;
}

void* ReusedMemory::allocate_cleared(size_t count, size_t size) {
  if (size != 0 && count > kMostBytes / size) return nullptr;
  void* const data = allocate(count * size);
  if (data != nullptr) std::memset(data, 0, count * size);
  return data;
}

void* ReusedMemory::reallocate(void* data, size_t size) {
  if (data == nullptr) return allocate(size);
  void* const moved = allocate(size);
  if (moved == nullptr) return nullptr;
  std::memcpy(moved, data, std::min(size, Header::of(data).data_bytes));
  release(data);
  return moved;
}

void ReusedMemory::release(void* data) {
  if (data == nullptr) return;
  const size_t bytes = Header::of(data).whole_bytes;
  if (bytes == 0) return std::free(&Header::of(data));
  char* const place = static_cast<char*>(data) - kDataPlace;
  const std::lock_guard lock(mutex_);
  used_bytes_ -= bytes;
  if (begun_ == 0) {
    munmap(place, bytes);
  } else {
    add_free(place, bytes);
    while (kept_bytes_ > std::max(kKeptBytes, used_bytes_ / 4)) give_back_largest();
  }
}

}  // namespace opscope::columns
