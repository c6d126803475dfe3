// The side arena of one thread: packed 64-bit words that records point into.
//
// Shapes, strides and scalar arguments are copied here at call time, so recording them keeps no
// tensor alive. An entry never crosses blocks; a payload that outgrows its block (a fused optimizer
// takes thousands of tensors) ends there with a link, and goes on where the thread's next block begins.
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

// A position packs the block's sequence number (modulo 2^19) and the word in it.
constexpr uint32_t kArenaWordBits = 13;
inline uint32_t arena_position(uint64_t sequence, size_t word) {
  return static_cast<uint32_t>(sequence << kArenaWordBits) | static_cast<uint32_t>(word);
}

class Arena {
 public:
  // `owner`: the thread's number.
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

  // [owner] Sequence number of the block the next payload would start in, or of the one after it.
  uint64_t current_block() const { return tail_ == nullptr ? 0 : tail_->header.sequence; }
  // [owner] The next payload starts in a new block. Not while one is being written.
  void leave_block() { next_ = limit_; }

  // [owner] Starts a payload. False if there is no memory.
  bool begin() {
    // A reader takes a payload's first word as it is, so the link to another block may not stand there.
    if (next_ == limit_) [[unlikely]] {
      if (!add_block()) return false;
    }
    start_ = next_;
    start_block_ = tail_;
    __builtin_prefetch(next_ + kPrefetchWords, /*write*/ 1);
    return true;
  }

  // [owner] Room for `count` more words of the payload begun; nullptr if there is no memory, and then the
  // payload must be cancelled. The caller writes them, then keeps what it wrote with advance().
  uint64_t* reserve(size_t count) {
    if (static_cast<size_t>(limit_ - next_) < count) [[unlikely]] {
      if (!continue_payload(count)) return nullptr;
    }
    return next_;
  }
  void advance(size_t count) { next_ += count; }
  // [owner] For writing many small entries without a reserve() for each: whether there is room for `count`
  // words at `word`, which is how far the caller has written since reserve(). It keeps all of it in the end,
  // with advance_to().
  bool has_room(const uint64_t* word, size_t count) const {
    return static_cast<size_t>(limit_ - word) >= count;
  }
  void advance_to(uint64_t* word) { next_ = word; }

  // [owner] Ends the payload and returns its position. The caller publishes it with a record.
  uint32_t commit() const {
    return arena_position(start_block_->header.sequence, static_cast<size_t>(start_ - start_block_->words));
  }
  void cancel() {
    if (tail_ != nullptr) next_ = tail_ == start_block_ ? start_ : tail_->words;
  }

  // In a forked child; as ChunkLog's. A payload that is being written ends where it began.
  void leave_to_parent() {
    head_ = nullptr;
    tail_ = nullptr;
    before_tail_ = nullptr;
    leave_block();
  }

  // [reader] The oldest block still kept, or nullptr.
  const BlockHeader* head() const { return head_.load(std::memory_order_acquire); }

  // Frees blocks that are not needed, told in order which are.
  class Releasing {
   public:
    // [reader, holding the registry's mutex] `only_spent`: of them those that are marked as spent.
    explicit Releasing(Arena& arena, bool only_spent = false)
        : pool_(arena.pool_),
          link_(&arena.head_),
          block_(link_->load(std::memory_order_acquire)),
          only_spent_(only_spent) {}

    // All before `first` go, but for those that were needed before; those up to `last` stay.
    void keep(uint64_t first, uint64_t last) {
      while (block_ != nullptr && block_->sequence < first) {
        BlockHeader* const next = block_->next.load(std::memory_order_acquire);
        if (next == nullptr) return;  // the one the owner writes to
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
    if (is_empty) {  // starts in the new block: a payload's first word may not be a link
      start_ = next_;
      start_block_ = tail_;
      return true;
    }
    *link = make_tag(Tag::kContinued);
    return true;
  }

  static constexpr size_t kLinkWords = 1;       // always left free at the end of a block
  static constexpr size_t kPrefetchWords = 24;  // about one payload ahead

  uint64_t* next_ = nullptr;                 // the first free word of the current block
  uint64_t* limit_ = nullptr;                // the end of its free words
  uint64_t* start_ = nullptr;                // where the payload being written starts
  ArenaBlock* start_block_ = nullptr;        // the block it starts in
  std::atomic<BlockHeader*> head_{nullptr};  // set by the owner once, then moved by readers only
  ArenaBlock* tail_ = nullptr;
  const ArenaBlock* before_tail_ = nullptr;  // the block before it, which may be gone
  BlockPool& pool_;
  const uint32_t owner_;
};

}  // namespace opscope
