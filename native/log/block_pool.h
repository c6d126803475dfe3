// 64 KiB blocks for the logs and arenas of all threads, in memory or, while a recording streams, in its file.
//
// Blocks are created in batches with their pages, so the hot path has no page fault for a record nor, while
// the pool lasts, for a new block. The mutex is acquired once per block, that is once per 1,364 records.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "log/block.h"

namespace opscope {

class StreamFile;

// What was lost for lack of a block.
enum class Loss : uint8_t { kSpan, kAllocation, kOther };

// Functions that the bridge calls are virtual: the bridge is a separate library and not linked to this one.
class BlockPool {
 public:
  BlockPool();
  BlockPool(const BlockPool&) = delete;
  BlockPool& operator=(const BlockPool&) = delete;
  virtual ~BlockPool();

  // [MT] Block for records of a thread; nullptr if the budget is used up, the disk is full or the system has
  // no memory. The caller writes the header. `left`: a block of the same thread that is rarely written again.
  virtual void* acquire(const void* left = nullptr);

  virtual void release(void* block);

  // Sets a function that releases spent blocks of a stream; the thread that acquires a block calls it,
  // without a lock of the pool. Set it before any thread acquires blocks.
  void set_when_spent(void (*release_spent)()) { release_spent_ = release_spent; }
  // [MT] Whether each acquire() calls that function, because one call did not release everything.
  void set_release_pending(bool is_behind) {
    const std::lock_guard lock(mutex_);
    is_release_pending_ = is_behind;
  }

  // [MT] Counts a record that this thread lost, for readers of the stream.
  virtual void count_loss(uint32_t owner, Loss what);

  // [MT] Changes when a stream begins or ends: then threads must leave their blocks.
  uint64_t place() const { return place_.load(); }

  // [MT] Block of the stream's file; nullptr if there is no stream or no room. `left`: as in acquire().
  void* acquire_streamed(const void* left = nullptr);
  // [MT] Block in memory, even while a recording streams. A forked child inherits its content.
  void* acquire_memory();
  // [MT] Fills the pool up to the number of kept blocks. Call it before a window opens.
  void prepare();
  // [MT] Keeps this many bytes of released blocks, and no fewer than by default, until the next call. For
  // callers that repeatedly acquire and release many blocks.
  void keep(size_t bytes);
  void set_budget(size_t bytes);
  // [MT] Limits the bytes in use.
  void set_most_used(size_t bytes);
  size_t mapped_bytes();

  // [MT] New blocks are in this file from now on.
  void begin_stream(std::unique_ptr<StreamFile> file);
  // [MT] New blocks are in memory from now on. The file stays mapped while any of its blocks is in use.
  void end_stream();
  // [MT] No other process needs the file at `path`, whose stream has ended.
  void discard_stream(const char* path);
  // [MT] Calls function(file) if a stream runs.
  template <typename Function>
  void with_stream(Function&& function) {
    const std::lock_guard lock(mutex_);
    if (stream_ != nullptr) function(*stream_);
  }
  // Before a fork, holding the mutex: makes a child inherit the content of these blocks; it inherits no
  // others. False if one of them is in a file, which a child does not inherit.
  bool keep_for_child(std::vector<const void*> blocks);
  // In a forked child: blocks in use and files belong to the parent, except `kept_bytes`.
  void leave_to_parent(size_t kept_bytes);

  // [MT] Blocks in use, in memory or in the file of a ring.
  size_t used_bytes();

  std::mutex& mutex() { return mutex_; }  // for the fork handlers only

 private:
  // 16 MiB: about 350,000 spans, or 100,000 with shapes. Page faults of fresh memory cost more than writing
  // records, so these blocks are created before the first window opens (a few milliseconds, once in a
  // process) and kept for later windows.
  static constexpr size_t kKeptBlocks = 256;
  static constexpr size_t kBatch = 4;

  void grow();
  void* take_memory();
  bool release_of_stream(void* block);
  size_t used() const;

  std::mutex mutex_;
  std::vector<void*> free_;
  size_t kept_ = kKeptBlocks;  // at most the capacity of `free_`
  size_t mapped_ = 0;
  size_t budget_ = SIZE_MAX / kBlockBytes;
  size_t most_used_ = SIZE_MAX / kBlockBytes;
  std::atomic<uint64_t> place_{0};
  std::atomic<void (*)()> release_spent_ = nullptr;
  bool is_release_pending_ = false;  // under mutex_
  std::unique_ptr<StreamFile> stream_;
  std::vector<std::unique_ptr<StreamFile>> ended_;  // streams with blocks in use
};

}  // namespace opscope
