// 64 KiB blocks, shared by every thread's log and arena: of memory, or, while a recording streams, of its
// file.
//
// Blocks are touched when they are made, in batches, so the hot path takes a page fault neither
// for a record nor, while the pool lasts, for a new block. The mutex is taken once per block, that
// is once per 1,364 records.
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

// What found no block.
enum class Loss : uint8_t { kSpan, kAllocation, kOther };

// What the bridge calls is virtual, because it is another library and is not linked to this one.
class BlockPool {
 public:
  BlockPool();
  BlockPool(const BlockPool&) = delete;
  BlockPool& operator=(const BlockPool&) = delete;
  virtual ~BlockPool();

  // [MT] A block for records of a thread; nullptr when the budget is used up, the disk is full or the
  // system has no memory. The caller writes its header. `left`: a block of the same thread that it will
  // hardly write to again.
  virtual void* acquire(const void* left = nullptr);

  // [MT]
  virtual void release(void* block);

  // Before any thread takes blocks: called by the thread that takes a block for records, when a stream has
  // spent blocks that were not released. It holds no lock of the pool's.
  void set_when_spent(void (*release_spent)()) { release_spent_ = release_spent; }
  // [MT] Whether that is to be done whenever a block is taken, because there is more than it does at once.
  void set_behind(bool is_behind) {
    const std::lock_guard lock(mutex_);
    is_behind_ = is_behind;
  }

  // [MT] Counts a loss of this thread for lack of a block, for readers of the stream.
  virtual void count_loss(uint32_t owner, Loss what);

  // [MT] Changes when threads shall leave the blocks they have, because a stream has begun or ended.
  uint64_t place() const { return place_.load(); }

  // [MT] Of the stream's file; nullptr if there is none, or no room in it. `left`: as for acquire().
  void* acquire_streamed(const void* left = nullptr);
  // [MT] Of memory, whether a recording streams or not. A forked child inherits its content.
  void* acquire_memory();
  // [MT] Maps and touches as many blocks as are kept, if there are fewer. Called before a window opens.
  void prepare();
  // [MT] Of blocks that come back, as many are kept as have so many bytes (and no fewer than by itself),
  // until the next call; for callers that repeatedly take and return many blocks.
  void keep(size_t bytes);
  void set_budget(size_t bytes);
  // [MT] At most so much is in use until told otherwise.
  void set_most_used(size_t bytes);
  size_t mapped_bytes();

  // [MT] From now on blocks are of this file.
  void begin_stream(std::unique_ptr<StreamFile> file);
  // [MT] From now on blocks are of memory. The file stays mapped while any of its blocks is in use.
  void end_stream();
  // [MT] Other processes do not need the files of ended streams. `path`: which of them.
  void discard_stream(const char* path);
  // [MT] Calls function(file) for the stream that runs, if one does.
  template <typename Function>
  void with_stream(Function&& function) {
    const std::lock_guard lock(mutex_);
    if (stream_ != nullptr) function(*stream_);
  }
  // Before a fork, with the mutex held: has a child inherit the content of these blocks, which it does of
  // none otherwise. False if there is one in a file, of which it inherits nothing.
  bool keep_for_child(std::vector<const void*> blocks);
  // In a forked child: blocks that are in use are the parent's, but for `kept_bytes`, and so are files.
  void leave_to_parent(size_t kept_bytes);

  // [MT] Of blocks that somebody has, of memory or of the file of a ring.
  size_t used_bytes();

  std::mutex& mutex() { return mutex_; }  // for the fork handlers only

 private:
  // 16 MiB: about 350,000 spans, or 100,000 with shapes. The page faults of fresh memory cost more than
  // writing records to it. So this much is mapped and touched before the first window opens (some
  // milliseconds, once in a process) and kept for later windows.
  static constexpr size_t kKeptBlocks = 256;
  static constexpr size_t kBatch = 4;

  void grow();
  void* take_memory();
  bool release_of_stream(void* block);
  size_t used() const;

  std::mutex mutex_;
  std::vector<void*> free_;
  size_t kept_ = kKeptBlocks;  // no more than `free_` has room for
  size_t mapped_ = 0;
  size_t budget_ = SIZE_MAX / kBlockBytes;
  size_t most_used_ = SIZE_MAX / kBlockBytes;
  std::atomic<uint64_t> place_{0};
  std::atomic<void (*)()> release_spent_ = nullptr;
  bool is_behind_ = false;  // under mutex_
  std::unique_ptr<StreamFile> stream_;
  std::vector<std::unique_ptr<StreamFile>> ended_;  // streams some of whose blocks are in use
};

}  // namespace opscope
