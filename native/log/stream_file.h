// File of a streamed recording: its blocks are shared by process and file, so the file has everything that a
// thread has written, however the process ends.
//
// The file grows ahead of its use, with its pages: so a full disk is found here and counted, and never kills
// a thread that writes to a page. Blocks that a thread has left are returned to the kernel a few at a time;
// they stay in the file and are loaded again when read. A block is reused only when another process has moved
// its records to segments of the trace and marked it. In a ring's file, a block is reused as soon as the
// process no longer needs it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "log/block_pool.h"
#include "log/clock.h"
#include "log/own_file.h"
#include "log/stream_layout.h"

namespace opscope {

// Every function requires the pool's mutex.
class StreamFile {
 public:
  // `path` must not exist. Raises std::system_error.
  StreamFile(std::string path, uint64_t max_bytes, bool is_ring = false);
  StreamFile(const StreamFile&) = delete;
  StreamFile& operator=(const StreamFile&) = delete;
  ~StreamFile();

  // A block of zeros; nullptr if the file cannot grow.
  void* take();
  // The block's pages may leave this process's memory.
  void leave(const void* block);
  // False if the block is not in this file.
  bool release(void* block);
  bool is_unused() const { return used_blocks_ == 0; }

  // Adds a thread, or updates its facts.
  void meet(const ThreadFacts& thread);
  void count_loss(uint32_t owner, Loss what);

  bool is_ring() const { return is_ring_; }
  // Writes the clocks, as a sign of life, at most once a second; with `now` always.
  void note_moment(bool now = false);
  // Notes a lost record, or a block that a ring's file misses.
  void note_gap(uint64_t ticks);
  size_t used_blocks() const { return used_blocks_; }
  // The last attempt to grow failed.
  bool is_full() const { return failed_at_ns_ != 0; }
  // Of a ring: a thread's records before this log index are no longer needed.
  void begin_at(uint64_t number, uint64_t index);

  // Whether blocks were marked as spent since note_spent().
  bool has_spent() const { return header_ != nullptr && header_->spent_blocks.load() > spent_taken_; }
  // All blocks marked as spent are being released, except those in use.
  void note_spent() { spent_taken_ = header_->spent_blocks.load(); }
  // Log index of a thread: all records before it are in segments.
  uint64_t drained_of(uint64_t number) const;

  // Ends the recording; the file stays unchanged.
  void end();
  // Removes blocks from the disk as they are released.
  void discard();
  bool has(const void* block) { return extent_of(block) != nullptr; }
  // In a forked child: the file belongs to the parent. Closes its descriptor and maps empty memory in its
  // place, so that the child neither reads nor writes it.
  void leave_to_parent();

  const std::string& path() const { return path_; }

 private:
  struct Extent {
    char* memory;
    size_t bytes;
    uint64_t offset;  // in the file
    size_t used_blocks;
  };

  void begin_header();
  void* take_own();
  void* take_spare();
  void keep_spare(void* block);
  Extent* extent_of(const void* block);
  bool is_time_to_try() const;
  bool grow();
  bool grow_file();
  bool map_extent();
  bool has_own_file();
  bool fail(int error);
  void return_left_blocks();
  void forget_spare(const Extent& extent);
  ThreadSlot* slot_of(uint64_t number);
  bool add_slots();
  void unmap(Extent& extent);

  const std::string path_;
  const uint64_t max_bytes_;
  const bool is_ring_;
  OwnFile file_;
  std::vector<Extent> extents_;
  char* next_ = nullptr;   // next new block
  char* ready_ = nullptr;  // end of the blocks with pages
  uint64_t file_bytes_ = 0;
  size_t used_blocks_ = 0;
  std::vector<const char*> left_;
  std::vector<char*> spare_;  // spent blocks without an owner
  uint64_t spent_taken_ = 0;
  bool is_in_gap_ = false;
  StreamHeader* header_ = nullptr;
  std::vector<ThreadSlot*> slots_;  // by thread number
  ThreadBlock* slot_block_ = nullptr;
  int64_t failed_at_ns_ = 0;
  int64_t moment_at_ns_ = 0;
  bool has_ended_ = false;
  bool is_discarded_ = false;
};

}  // namespace opscope
