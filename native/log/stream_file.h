// The file that a recording streams to: blocks that this process and the file share, so that everything a
// thread has written is in the file however the process ends.
//
// The file grows ahead of its use, and its pages are made ahead, so that a full disk is found there, where it
// can be counted, and not by a thread that writes to a page and is killed for it. Blocks that a thread has
// left are given back to the kernel a few at a time; they stay in the file, and are loaded again when read. A
// block is used again only when another process has moved what it held to segments of the trace, and says so
// in it. In the file of a ring it is used again as soon as the process does not need it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "log/block_pool.h"
#include "log/clock.h"
#include "log/own_file.h"
#include "log/stream_layout.h"

namespace opscope {

// All of it holding the pool's mutex.
class StreamFile {
 public:
  // `path` must not exist. Raises std::system_error.
  StreamFile(std::string path, uint64_t max_bytes, bool is_ring = false);
  StreamFile(const StreamFile&) = delete;
  StreamFile& operator=(const StreamFile&) = delete;
  ~StreamFile();

  // A block of zeros; nullptr if the file cannot grow.
  void* take();
  // Its pages need not stay in this process.
  void leave(const void* block);
  // False if it is none of this file's.
  bool release(void* block);
  bool is_unused() const { return used_blocks_ == 0; }

  // A thread that records, or what more is known of one.
  void meet(const ThreadFacts& thread);
  void count_loss(uint32_t owner, Loss what);

  bool is_ring() const { return is_ring_; }
  // That the process is there still, about once a second; or just now.
  void note_moment(bool now = false);
  // Something is lost, or of a ring is not in the file: a record, or a block.
  void note_gap(uint64_t ticks);
  // Blocks that somebody has.
  size_t used_blocks() const { return used_blocks_; }
  // It could not grow.
  bool is_full() const { return failed_at_ns_ != 0; }
  // Of a ring: what a thread recorded before this log index is of no use any more.
  void begin_at(uint64_t number, uint64_t index);

  // Are there spent blocks that were not released yet?
  bool has_spent() const { return header_ != nullptr && header_->spent_blocks.load() > spent_taken_; }
  // They are released now, but for those that somebody needs.
  void note_spent() { spent_taken_ = header_->spent_blocks.load(); }
  // Of a thread: the log index before which all is in segments.
  uint64_t drained_of(uint64_t number) const;

  // The recording has ended; the file stays as it is.
  void end();
  // Its blocks may be taken off the disk as they are released.
  void discard();
  // Of any extent?
  bool has(const void* block) { return extent_of(block) != nullptr; }
  // In a forked child: the file is the parent's alone. Its descriptor is closed, and empty memory is where it
  // was mapped, so that nothing here is read from it or written to it.
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
  void give_back_left();
  void forget_spare(const Extent& extent);
  ThreadSlot* slot_of(uint64_t number);
  bool add_slots();
  void unmap(Extent& extent);

  const std::string path_;
  const uint64_t max_bytes_;
  const bool is_ring_;
  OwnFile file_;
  std::vector<Extent> extents_;
  char* next_ = nullptr;   // the next block to hand out
  char* ready_ = nullptr;  // the end of those that have pages
  uint64_t file_bytes_ = 0;
  size_t used_blocks_ = 0;
  std::vector<const char*> left_;
  std::vector<char*> spare_;  // spent blocks without an owner
  uint64_t spent_taken_ = 0;
  bool is_in_gap_ = false;
  StreamHeader* header_ = nullptr;
  std::vector<ThreadSlot*> slots_;  // by number of the thread
  ThreadBlock* slot_block_ = nullptr;
  int64_t failed_at_ns_ = 0;
  int64_t moment_at_ns_ = 0;
  bool has_ended_ = false;
  bool is_discarded_ = false;
};

}  // namespace opscope
