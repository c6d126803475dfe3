// An append-only log of records, written by one thread, readable by any other meanwhile.
//
// The owner writes records and publishes a count; readers never look past the count. Chunks are
// linked, so a record never moves and its address stays good for patching its end. Old chunks are
// released by a reader holding the registry's mutex, and only when every span in them is closed:
// the owner's last write to a span is the one that closes it, so nobody can still be writing there.
// A span that is never closed (an annotation left open) keeps its own chunk and no other.
#pragma once

#include <atomic>
#include <cstdint>
#include <new>

#include "log/block_pool.h"
#include "log/record.h"

namespace opscope {

struct Chunk {
  BlockHeader header;
  static constexpr size_t kRecords = (kBlockBytes - sizeof(BlockHeader)) / sizeof(Record);
  alignas(16) Record records[kRecords];

  uint64_t first_index() const { return header.sequence; }
  uint64_t end_index() const { return header.sequence + kRecords; }
};
static_assert(sizeof(Chunk) <= kBlockBytes);

class ChunkLog {
 public:
  // `owner`: the thread's number.
  ChunkLog(BlockPool& pool, uint32_t owner) : pool_(pool), owner_(owner) {}
  ChunkLog(const ChunkLog&) = delete;
  ChunkLog& operator=(const ChunkLog&) = delete;
  ~ChunkLog() {
    for (BlockHeader* block = head_.load(); block != nullptr;) {
      BlockHeader* next = block->next.load(std::memory_order_relaxed);
      pool_.release(block);
      block = next;
    }
  }

  // [owner] The next record to fill in. nullptr if there is no memory for it, or if the last one was not
  // published yet: reading an argument may, in spite of all care, run code that is recorded itself, and a
  // record that is being filled in must not be handed out twice. `arena_block` is called when a new chunk is
  // begun, for the arena's current block.
  template <typename Function>
  Record* next_record(Function&& arena_block) {
    if (cursor_ == limit_) [[unlikely]] {
      if (cursor_ != end_ || !add_chunk(arena_block())) return nullptr;
    }
    limit_ = cursor_;
    return cursor_;
  }

  // [owner] Makes the record from next_record() visible to readers.
  void publish() {
    ++cursor_;
    limit_ = end_;
    // Fresh memory is seldom in a cache, so it is prefetched two records before it is written. Past the end
    // of a chunk the instruction has no effect.
    __builtin_prefetch(cursor_ + 2, /*write*/ 1);
    count_.store(count_.load(std::memory_order_relaxed) + 1, std::memory_order_release);
  }

  // [MT] Number of records ever appended; the index of the next one.
  uint64_t size() const { return count_.load(std::memory_order_acquire); }

  // [reader] The oldest chunk still kept, or nullptr.
  const BlockHeader* head() const { return head_.load(std::memory_order_acquire); }

  // [reader] Frees the chunks that hold nothing from `first_needed` on. Returns the oldest arena
  // block that a record from there on may refer to.
  uint64_t release_before(uint64_t first_needed) {
    BlockHeader* block = head_.load(std::memory_order_acquire);
    if (block == nullptr) return 0;
    std::atomic<BlockHeader*>* link = &head_;
    // The chunk without a successor is the one the owner writes to; it always stays.
    for (BlockHeader* next = block->next.load(std::memory_order_acquire);
         next != nullptr && block->sequence + Chunk::kRecords <= first_needed;
         block = next, next = block->next.load(std::memory_order_acquire)) {
      if (has_open_span(*reinterpret_cast<const Chunk*>(block))) {
        link = &block->next;
      } else {
        link->store(next, std::memory_order_release);
        pool_.release(block);
      }
    }
    return block->first_arena_block;
  }

 private:
  static bool has_open_span(const Chunk& chunk) {
    for (const Record& record : chunk.records) {
      if (is_span(record.kind) && record.load_state() == SpanState::kOpen) return true;
    }
    return false;
  }

  bool add_chunk(uint64_t arena_block) {
    void* block = pool_.acquire();
    if (block == nullptr) return false;
    auto* chunk = new (block) Chunk;
    chunk->header.owner = owner_;
    chunk->header.sequence = count_.load(std::memory_order_relaxed);
    chunk->header.first_arena_block = arena_block;
    chunk->header.kind.store(BlockKind::kRecords, std::memory_order_release);
    (tail_ == nullptr ? head_ : tail_->next).store(&chunk->header, std::memory_order_release);
    tail_ = &chunk->header;
    cursor_ = chunk->records;
    end_ = chunk->records + Chunk::kRecords;
    return true;
  }

  Record* cursor_ = nullptr;
  Record* limit_ = nullptr;  // up to here next_record() needs no check: the end, or a record being filled in
  Record* end_ = nullptr;    // of the chunk being written to
  std::atomic<uint64_t> count_{0};
  std::atomic<BlockHeader*> head_{nullptr};  // set by the owner once, then by readers only
  BlockHeader* tail_ = nullptr;
  BlockPool& pool_;
  const uint32_t owner_;
};

}  // namespace opscope
