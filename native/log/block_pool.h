// 64 KiB blocks of memory, shared by every thread's log and arena.
//
// Blocks are touched when they are made, in batches, so the hot path takes a page fault neither
// for a record nor, while the pool lasts, for a new block. The mutex is taken once per block, that
// is once per 1,364 records.
#pragma once

#include <sys/mman.h>

#include <cstddef>
#include <cstdint>
#include <mutex>
#include <vector>

#include "log/block.h"

namespace opscope {

class BlockPool {
 public:
  // Reserved at once, so that releasing a block never allocates and can be done anywhere.
  BlockPool() { free_.reserve(kKeptBlocks + kBatch); }

  // [MT] Returns nullptr when the byte budget is used up or the system has no memory. Whoever takes a block
  // writes its header.
  void* acquire() {
    std::lock_guard lock(mutex_);
    if (free_.empty()) grow();
    if (free_.empty()) return nullptr;
    void* block = free_.back();
    free_.pop_back();
    return block;
  }

  // [MT]
  void release(void* block) {
    static_cast<BlockHeader*>(block)->kind.store(BlockKind::kFree, std::memory_order_relaxed);
    std::lock_guard lock(mutex_);
    if (free_.size() >= kKeptBlocks) {
      munmap(block, kBlockBytes);
      --mapped_;
    } else {
      free_.push_back(block);
    }
  }

  // [MT] Maps and touches as many blocks as are kept, if there are fewer. Called before a window opens.
  void prepare() {
    std::lock_guard lock(mutex_);
    while (free_.size() < kKeptBlocks) {
      const size_t before = free_.size();
      grow();
      if (free_.size() == before) return;
    }
  }

  void set_budget(size_t bytes) {
    std::lock_guard lock(mutex_);
    budget_ = bytes / kBlockBytes;
  }

  size_t mapped_bytes() {
    std::lock_guard lock(mutex_);
    return mapped_ * kBlockBytes;
  }

  std::mutex& mutex() { return mutex_; }  // for the fork handlers only

 private:
  // 16 MiB: about 350,000 spans, or 100,000 with shapes. The page faults of fresh memory cost more than
  // writing records to it. So this much is mapped and touched before the first window opens (some
  // milliseconds, once in a process) and kept for later windows.
  static constexpr size_t kKeptBlocks = 256;
  static constexpr size_t kBatch = 4;

  void grow() {
    if (mapped_ + kBatch > budget_) return;
    void* memory = mmap(nullptr, kBatch * kBlockBytes, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
    if (memory == MAP_FAILED) return;
    mapped_ += kBatch;
    for (size_t i = kBatch; i-- > 0;) free_.push_back(static_cast<char*>(memory) + i * kBlockBytes);
  }

  std::mutex mutex_;
  std::vector<void*> free_;
  size_t mapped_ = 0;
  size_t budget_ = SIZE_MAX / kBlockBytes;
};

}  // namespace opscope
