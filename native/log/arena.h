// Side arena of one thread: packed 64-bit words that records refer to.
//
// Shapes, strides and scalar arguments are copied here at call time, so recording keeps no tensor alive. An
// entry lies in one block. A payload that outgrows its block (a fused optimizer takes thousands of tensors)
// ends there with a link and continues at the start of the thread's next block.
#pragma once

#include <atomic>
#include <cstdint>
#include <cstring>
#include <new>

#include "log/block_pool.h"
#include "log/payload.h"
#include "log/record.h"

namespace opscope {

struct ArenaBlock {
  BlockHeader header;
  static constexpr size_t kWords = (kBlockBytes - sizeof(BlockHeader)) / sizeof(uint64_t);
  uint64_t words[kWords];
};
static_assert(sizeof(ArenaBlock) == kBlockBytes);

// A position: the block's sequence number (modulo 2^19) and the word in the block.
constexpr uint32_t kArenaWordBits = 13;
inline uint32_t arena_position(uint64_t sequence, size_t word) {
  return static_cast<uint32_t>(sequence << kArenaWordBits) | static_cast<uint32_t>(word);
}

class Arena {
 public:
  // `owner`: number of the thread.
  Arena(BlockPool& pool, uint32_t owner) : pool_(pool), owner_(owner) {}
  Arena(const Arena&) = delete;
  Arena& operator=(const Arena&) = delete;
  ~Arena() {
    for (BlockHeader* block = head_.load(); block != nullptr;) {
      BlockHeader* next = block->next.load(std::memory_order_relaxed);
      pool_.release(block);
      block = next;
    }
  }

  // [owner] Sequence number of the block in which the next payload begins, or of the block before it.
  uint64_t current_block() const { return tail_ == nullptr ? 0 : tail_->header.sequence; }
  // [owner] Makes the next payload begin in a new block. Not allowed inside a payload.
  void leave_block() { next_ = limit_; }

  // [owner] Begins a payload. False: out of memory.
  bool begin() {
    // Readers use a payload's first word directly, so no link may be there.
    if (next_ == limit_) [[unlikely]] {
      if (!add_block()) return false;
    }
    start_ = next_;
    start_block_ = tail_;
    __builtin_prefetch(next_ + kPrefetchWords, /*write*/ 1);
    return true;
  }

  // [owner] Room for `count` more words of the current payload; nullptr: out of memory, and the caller must
  // cancel the payload. The caller writes the words, then keeps them with advance().
  uint64_t* reserve(size_t count) {
    if (static_cast<size_t>(limit_ - next_) < count) [[unlikely]] {
      if (!continue_payload(count)) return nullptr;
    }
    return next_;
  }
  void advance(size_t count) { next_ += count; }
  // [owner] Replaces reserve() for many small entries: whether `count` words fit at `word`, the end of what
  // the caller has written since reserve(). The caller keeps all words with one advance_to().
  bool has_room(const uint64_t* word, size_t count) const {
    return static_cast<size_t>(limit_ - word) >= count;
  }
  void advance_to(uint64_t* word) { next_ = word; }

  // [owner] Ends the payload and returns its position, which a record publishes.
  uint32_t commit() const {
    return arena_position(start_block_->header.sequence, static_cast<size_t>(start_ - start_block_->words));
  }
  void cancel() {
    if (tail_ != nullptr) next_ = tail_ == start_block_ ? start_ : tail_->words;
  }

  // In a forked child, as in ChunkLog. Drops a payload in progress.
  void leave_to_parent() {
    head_ = nullptr;
    tail_ = nullptr;
    before_tail_ = nullptr;
    leave_block();
  }

  // [reader] Oldest kept block, or nullptr.
  const BlockHeader* head() const { return head_.load(std::memory_order_acquire); }

  // Frees unneeded blocks. Calls of keep() name the needed ones in order.
  class Releasing {
   public:
    // [reader, holding the registry's mutex] `only_spent`: frees only blocks marked as spent.
    explicit Releasing(Arena& arena, bool only_spent = false)
        : pool_(arena.pool_),
          link_(&arena.head_),
          block_(link_->load(std::memory_order_acquire)),
          only_spent_(only_spent) {}

    // Keeps blocks `first` to `last`; frees earlier ones that no call before has kept.
    void keep(uint64_t first, uint64_t last) {
      while (block_ != nullptr && block_->sequence < first) {
        BlockHeader* const next = block_->next.load(std::memory_order_acquire);
        if (next == nullptr) return;  // the owner writes to this one
        if (only_spent_ && block_->kind.load(std::memory_order_acquire) != BlockKind::kSpent) {
          link_ = &block_->next;
        } else {
          link_->store(next, std::memory_order_release);
          pool_.release(block_);
        }
        block_ = next;
      }
      while (block_ != nullptr && block_->sequence <= last) {
        link_ = &block_->next;
        block_ = link_->load(std::memory_order_acquire);
      }
    }

   private:
    BlockPool& pool_;
    std::atomic<BlockHeader*>* link_;
    BlockHeader* block_;
    const bool only_spent_;
  };

 private:
  bool add_block() {
    void* memory = pool_.acquire(before_tail_);
    if (memory == nullptr) return false;
    auto* block = new (memory) ArenaBlock;
    before_tail_ = tail_;
    block->header.owner = owner_;
    block->header.sequence = tail_ == nullptr ? 0 : tail_->header.sequence + 1;
    block->header.kind.store(BlockKind::kArena, std::memory_order_release);
    (tail_ == nullptr ? head_ : tail_->header.next).store(&block->header, std::memory_order_release);
    tail_ = block;
    next_ = block->words;
    limit_ = block->words + ArenaBlock::kWords - kLinkWords;
    return true;
  }

  bool continue_payload(size_t count) {
    if (count + kLinkWords > ArenaBlock::kWords) return false;
    uint64_t* link = next_;
    const bool is_empty = next_ == start_ && tail_ == start_block_;
    if (!add_block()) return false;
    if (is_empty) {  // begins in the new block: a payload's first word may not be a link
      start_ = next_;
      start_block_ = tail_;
      return true;
    }
    *link = make_tag(Tag::kContinued);
    return true;
  }

  static constexpr size_t kLinkWords = 1;       // always free at the end of a block
  static constexpr size_t kPrefetchWords = 24;  // about one payload

  uint64_t* next_ = nullptr;                 // first free word of the current block
  uint64_t* limit_ = nullptr;                // end of its free words
  uint64_t* start_ = nullptr;                // begin of the current payload
  ArenaBlock* start_block_ = nullptr;        // block of that begin
  std::atomic<BlockHeader*> head_{nullptr};  // set once by the owner, then by readers only
  ArenaBlock* tail_ = nullptr;
  const ArenaBlock* before_tail_ = nullptr;  // block before it, possibly freed
  BlockPool& pool_;
  const uint32_t owner_;
};

}  // namespace opscope
