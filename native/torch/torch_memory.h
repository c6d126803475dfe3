// Part of torch_bridge.cpp: reports of torch's allocators, in addition to torch's own receivers.
//
// Allocators of devices report to a function of torch; that of CPUs reports to a class, which stores sizes of
// blocks while torch's profiler records memory, and warns of unknown frees. opscope redirects calls of both
// (torch_linked_calls.h) and stores sizes itself, so that torch's table and warnings stay the program's.
#pragma once

#include <c10/core/Allocator.h>
#include <c10/core/CPUAllocator.h>

#include <array>
#include <atomic>
#include <cstdint>
#include <mutex>
#include <new>
#include <unordered_map>

#include "torch/torch_state.h"

namespace opscope {
namespace {

ThreadLog* this_thread();

bool reports_memory() { return (hot.wanted.load(std::memory_order_relaxed) & kWantMemory) != 0; }

// Sizes of CPU memory blocks allocated while memory was recorded: a free does not have the size. [MT]
class BlockSizes {
 public:
  static void add(const void* block, size_t bytes) {
    Part& part = part_of(block);
    std::lock_guard lock(part.mutex);
    try {
      part.bytes.try_emplace(block, bytes);
    } catch (const std::bad_alloc&) {
      return;  // its free will be that of an unknown block
    }
    count_.fetch_add(1, std::memory_order_relaxed);
    allocated_.fetch_add(bytes, std::memory_order_relaxed);
  }

  // 0: unknown.
  static size_t take(const void* block) {
    if (count_.load(std::memory_order_relaxed) == 0) return 0;
    Part& part = part_of(block);
    std::lock_guard lock(part.mutex);
    const auto entry = part.bytes.find(block);
    if (entry == part.bytes.end()) return 0;
    const size_t bytes = entry->second;
    part.bytes.erase(entry);
    count_.fetch_sub(1, std::memory_order_relaxed);
    allocated_.fetch_sub(bytes, std::memory_order_relaxed);
    return bytes;
  }

  static size_t allocated_bytes() { return allocated_.load(std::memory_order_relaxed); }

  // Around a fork: a child must find the locks free.
  static void lock_all() {
    for (Part& part : parts()) part.mutex.lock();
  }
  static void unlock_all() {
    for (Part& part : parts()) part.mutex.unlock();
  }

 private:
  struct alignas(64) Part {
    std::mutex mutex;
    std::unordered_map<const void*, size_t> bytes;
  };
  using Parts = std::array<Part, 16>;

  // Never destroyed: tensors are freed until the process has ended.
  static Parts& parts() {
    static auto* const instance = new Parts;
    return *instance;
  }
  static Part& part_of(const void* block) {  // blocks are aligned to 64 bytes
    return parts()[(reinterpret_cast<uintptr_t>(block) >> 6) % std::tuple_size_v<Parts>];
  }

  static inline std::atomic<size_t> count_{0};
  static inline std::atomic<size_t> allocated_{0};
};

std::atomic<uint64_t> unknown_free_count{0};

uint64_t unknown_frees() { return unknown_free_count.load(std::memory_order_relaxed); }

void append_memory(RecordKind kind, const void* address, int64_t size_bytes, size_t total_allocated,
                   size_t total_reserved, c10::Device device) {
  if (!reports_memory()) return;
  ThreadLog* const log = this_thread();
  if (log == nullptr) return core->lost_at_thread_end(/*is_memory*/ true);
  Record* const record = log->append(kind);
  if (record == nullptr) return;
  record->memory = {reinterpret_cast<uintptr_t>(address), size_bytes,    total_allocated, kNoArena,
                    static_cast<int8_t>(device.type()),   device.index()};
  if (total_reserved != 0 && log->arena().begin()) {
    if (uint64_t* word = log->arena().reserve(1); word != nullptr) {
      *word = total_reserved;
      log->arena().advance(1);
      record->memory.reserved = log->arena().commit();
    }
  }
  record->ticks = now_ticks();
  log->publish();
}

// Set while the class for CPU memory runs: opscope already has what it reports to the program's profiler.
thread_local bool is_reporting_cpu = false;

template <typename Function>
void report_cpu(Function&& function) {
  is_reporting_cpu = true;
  function();
  is_reporting_cpu = false;
}

void on_allocated(c10::ProfiledCPUMemoryReporter* reporter, void* block, size_t bytes) {
  if (bytes != 0 && reports_memory()) {
    BlockSizes::add(block, bytes);
    append_memory(RecordKind::kAllocate, block, static_cast<int64_t>(bytes), BlockSizes::allocated_bytes(), 0,
                  c10::kCPU);
  }
  report_cpu([&] { reporter->New(block, bytes); });
}

void on_freed(c10::ProfiledCPUMemoryReporter* reporter, void* block) {
  const size_t bytes = BlockSizes::take(block);
  if (bytes != 0) {
    append_memory(RecordKind::kFree, block, -static_cast<int64_t>(bytes), BlockSizes::allocated_bytes(), 0,
                  c10::kCPU);
  } else if (reports_memory()) {
    unknown_free_count.fetch_add(1, std::memory_order_relaxed);
  }
  report_cpu([&] { reporter->Delete(block); });
}

void on_cpu_out_of_memory(c10::ProfiledCPUMemoryReporter* reporter, size_t bytes) {
  if (bytes != 0) {
    append_memory(RecordKind::kOutOfMemory, nullptr, static_cast<int64_t>(bytes),
                  BlockSizes::allocated_bytes(), 0, c10::kCPU);
  }
  report_cpu([&] { reporter->OutOfMemory(bytes); });
}

void on_memory(void* address, int64_t bytes, size_t allocated, size_t reserved, c10::Device device) {
  if (!is_reporting_cpu) {
    append_memory(bytes >= 0 ? RecordKind::kAllocate : RecordKind::kFree, address, bytes, allocated, reserved,
                  device);
  }
  c10::reportMemoryUsageToProfiler(address, bytes, allocated, reserved, device);
}

void on_out_of_memory(int64_t bytes, size_t allocated, size_t reserved, c10::Device device) {
  if (!is_reporting_cpu) {
    append_memory(RecordKind::kOutOfMemory, nullptr, bytes, allocated, reserved, device);
  }
  c10::reportOutOfMemoryToProfiler(bytes, allocated, reserved, device);
}

}  // namespace
}  // namespace opscope
