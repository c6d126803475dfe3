// Append-only log of records, written by one thread; any thread may read it at the same time.
//
// The owner writes records and publishes a count; readers never read beyond the count. Chunks are linked, so
// a record never moves and its end can be written in place. A reader that holds the registry's mutex releases
// old chunks once every span in them is closed: the owner's last write to a span closes it, so no thread
// still writes there. A span that is never closed (an annotation left open) keeps only its own chunk.
#pragma once

#include <algorithm>
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
  // Room for records; limited, because a file may contain any number.
  size_t count() const { return std::min<size_t>(header.used.load(std::memory_order_relaxed), kRecords); }
  uint64_t end_index() const { return header.sequence + count(); }
};
static_assert(sizeof(Chunk) <= kBlockBytes);

class ChunkLog {
 public:
  // `owner`: number of the thread.
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

  // [owner] The next record to fill in; nullptr if memory is short, or if the previous record is not yet
  // published. Reading an argument may run code that is recorded itself, which must not get the same record.
  // A new chunk calls `arena_block(elsewhere)` for the arena's current block, or with `elsewhere` a new one.
  template <typename Function>
  Record* next_record(Function&& arena_block) {
    Record* const limit = limit_.load(std::memory_order_relaxed);
    if (cursor_ >= limit) [[unlikely]] {
      const bool is_being_filled = cursor_ == limit && cursor_ != chunk_end_;
      if (is_being_filled || !add_chunk(arena_block)) return nullptr;
    }
    limit_.store(cursor_, std::memory_order_relaxed);
    return cursor_;
  }

  // [owner] Publishes the record from next_record(): to readers in this process by the count, and to readers
  // of the file of a killed process by the record's own mark.
  void publish() {
    __atomic_store_n(&cursor_->is_published, 1, __ATOMIC_RELEASE);
    ++cursor_;
    limit_.store(end_.load(std::memory_order_relaxed), std::memory_order_relaxed);
    // Prefetches two records ahead: fresh memory is seldom in a cache. No effect beyond the end of a chunk.
    __builtin_prefetch(cursor_ + 2, /*write*/ 1);
    count_.store(count_.load(std::memory_order_relaxed) + 1, std::memory_order_release);
  }

  // [MT] Number of records ever appended; index of the next one.
  uint64_t size() const { return count_.load(std::memory_order_acquire); }

  // [MT] The owner's next record begins a new chunk; if it is writing one now, perhaps the one after that.
  void leave_chunk() {
    Record* end = end_.exchange(nullptr);
    limit_.compare_exchange_strong(end, nullptr);  // unless a record is being filled in
  }

  // In a forked child: all chunks belong to the parent and are not used again, except for a record that is
  // being filled in now. The next record continues the log index.
  void leave_to_parent() {
    leave_chunk();
    head_ = nullptr;
    tail_ = nullptr;
    before_tail_ = nullptr;
  }

  // [reader] Oldest kept chunk, or nullptr.
  const BlockHeader* head() const { return head_.load(std::memory_order_acquire); }

  // [reader] Frees chunks before `drained` that are marked as spent and contain no needed part: their records
  // are in segments, and no thread writes to them. Calls needs_arena() as release_unneeded() does.
  template <typename Sweep, typename Function>
  void release_spent(uint64_t drained, Sweep needed, Function&& needs_arena) {
    BlockHeader* block = head_.load(std::memory_order_acquire);
    std::atomic<BlockHeader*>* link = &head_;
    while (block != nullptr && block->sequence < drained) {
      const Chunk& chunk = *reinterpret_cast<const Chunk*>(block);
      BlockHeader* const next = block->next.load(std::memory_order_acquire);
      if (next == nullptr) return;
      const bool is_needed = needed.is_in(chunk.first_index(), chunk.end_index());
      if (is_needed) needs_arena(block->first_arena_block, next->first_arena_block);
      if (is_needed || block->kind.load(std::memory_order_acquire) != BlockKind::kSpent) {
        link = &block->next;
      } else {
        link->store(next, std::memory_order_release);
        pool_.release(block);
      }
      block = next;
    }
  }

  // [reader] Frees chunks without a needed part (see NeededSweep). Calls needs_arena(first, last), in order,
  // for arena blocks that needed records may refer to; `last` is UINT64_MAX for blocks to come.
  template <typename Sweep, typename Function>
  void release_unneeded(Sweep needed, Function&& needs_arena) {
    BlockHeader* block = head_.load(std::memory_order_acquire);
    std::atomic<BlockHeader*>* link = &head_;
    while (block != nullptr) {
      const Chunk& chunk = *reinterpret_cast<const Chunk*>(block);
      BlockHeader* const next = block->next.load(std::memory_order_acquire);
      // The chunk without a successor always stays: the owner writes to it.
      const bool is_needed = next == nullptr || needed.is_in(chunk.first_index(), chunk.end_index());
      if (is_needed)
        needs_arena(block->first_arena_block, next == nullptr ? UINT64_MAX : next->first_arena_block);
      if (is_needed || has_open_span(chunk)) {
        link = &block->next;
      } else {
        link->store(next, std::memory_order_release);
        pool_.release(block);
      }
      block = next;
    }
  }

 private:
  static bool has_open_span(const Chunk& chunk) {
    return std::any_of(chunk.records, chunk.records + chunk.count(), [](const Record& record) {
      return is_span(record.kind) && record.load_state() == SpanState::kOpen;
    });
  }

  template <typename Function>
  [[gnu::noinline]] bool add_chunk(Function&& arena_block) {
    const uint64_t place = pool_.place();
    void* block = pool_.acquire(before_tail_);
    if (block == nullptr) return false;
    const uint64_t count = count_.load(std::memory_order_relaxed);
    const bool is_elsewhere = end_.load(std::memory_order_relaxed) == nullptr;
    auto* chunk = new (block) Chunk;
    chunk->header.owner = owner_;
    chunk->header.sequence = count;
    chunk->header.first_arena_block = arena_block(is_elsewhere);
    chunk->header.used.store(Chunk::kRecords, std::memory_order_relaxed);
    chunk->header.kind.store(BlockKind::kRecords, std::memory_order_release);
    if (tail_ != nullptr) tail_->used.store(count - tail_->sequence, std::memory_order_relaxed);
    (tail_ == nullptr ? head_ : tail_->next).store(&chunk->header, std::memory_order_release);
    before_tail_ = tail_;
    tail_ = &chunk->header;
    cursor_ = chunk->records;
    chunk_end_ = chunk->records + Chunk::kRecords;
    // leave_chunk() may have run in between: either this reads its effect, or it sets end_ later.
    end_.store(chunk_end_);
    if (pool_.place() != place) leave_chunk();
    return true;
  }

  Record* cursor_ = nullptr;
  std::atomic<Record*> limit_{
      nullptr};  // next_record() needs no check below it: the end, or a record being filled in
  std::atomic<Record*> end_{nullptr};  // chunk_end_, or nullptr if the owner must leave the chunk
  std::atomic<uint64_t> count_{0};
  std::atomic<BlockHeader*> head_{nullptr};  // set once by the owner, then by readers only
  BlockHeader* tail_ = nullptr;
  Record* chunk_end_ = nullptr;               // of the current chunk
  const BlockHeader* before_tail_ = nullptr;  // chunk before it, possibly freed
  BlockPool& pool_;
  const uint32_t owner_;
};

}  // namespace opscope
