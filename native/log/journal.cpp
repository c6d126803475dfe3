#include "log/journal.h"

#include <algorithm>
#include <cstring>
#include <new>
#include <string>

namespace opscope {

namespace {

size_t free_bytes(const BlockHeader* block) {
  return block == nullptr ? 0 : JournalBlock::kBytes - block->used.load(std::memory_order_relaxed);
}

BlockHeader* next_of(const BlockHeader* block) { return block->next.load(std::memory_order_relaxed); }

}  // namespace

std::string_view take_field(std::string_view& fields) {
  uint32_t bytes = 0;
  if (fields.size() < sizeof(bytes)) return {};
  std::memcpy(&bytes, fields.data(), sizeof(bytes));
  fields.remove_prefix(sizeof(bytes));
  const std::string_view field = fields.substr(0, bytes);
  fields.remove_prefix(field.size());
  return field;
}

std::string joined(const std::vector<const JournalBlock*>& blocks) {
  std::string all;
  all.reserve(blocks.size() * JournalBlock::kBytes);
  for (const JournalBlock* block : blocks) {
    const uint64_t used = block->header.used.load(std::memory_order_acquire);
    all.append(block->bytes, std::min<uint64_t>(used, JournalBlock::kBytes));
    if (used < JournalBlock::kBytes) break;
  }
  return all;
}

bool Journal::append(EntryKind kind, uint32_t id, std::initializer_list<std::string_view> fields) noexcept
    try {
  EntryHead head{0, kind, id};
  for (const std::string_view field : fields)
    head.bytes += static_cast<uint32_t>(sizeof(uint32_t) + field.size());
  std::string entry(field_of(head));
  for (const std::string_view field : fields)
    entry.append(field_of(static_cast<uint32_t>(field.size()))).append(field);
  const std::lock_guard lock(mutex_);
  if (!append_bytes(entry)) return false;
  if (copied_to_ != nullptr) {
    const std::lock_guard other_lock(copied_to_->mutex_);
    copied_to_->append_bytes(entry);  // without room, readers of the copy miss this text
  }
  return true;
} catch (const std::bad_alloc&) {
  return false;
}

bool Journal::copy_to(Journal* other) noexcept try {
  const std::lock_guard lock(mutex_);
  copied_to_ = other;
  if (other == nullptr) return true;
  const std::string all = joined(blocks_from<JournalBlock>(head()));
  const std::lock_guard other_lock(other->mutex_);
  return other->append_bytes(all);
} catch (const std::bad_alloc&) {
  return false;
}

bool Journal::append_bytes(std::string_view entry) {
  if (!make_room(entry.size())) return false;
  write(entry);
  return true;
}

// Acquires all blocks for this many bytes, so that an entry is written completely or not at all. Blocks
// acquired for an entry that did not fit serve the next one.
bool Journal::make_room(size_t bytes) {
  BlockHeader* last = tail_;
  size_t room = free_bytes(last);
  while (last != nullptr && next_of(last) != nullptr) room += free_bytes(last = next_of(last));
  for (; room < bytes; room += JournalBlock::kBytes) {
    void* const memory = is_streamed_ ? pool_.acquire_streamed(last) : pool_.acquire_memory();
    if (memory == nullptr) return false;
    BlockHeader* const block = &(new (memory) JournalBlock)->header;
    block->owner = number_;
    block->sequence = next_sequence_++;
    ++blocks_;
    block->kind.store(BlockKind::kJournal, std::memory_order_release);
    if (last == nullptr) {
      tail_ = block;
      head_.store(block, std::memory_order_release);
    } else {
      last->next.store(block, std::memory_order_release);
    }
    last = block;
  }
  return true;
}

void Journal::write(std::string_view entry) {
  while (!entry.empty()) {
    if (free_bytes(tail_) == 0) tail_ = next_of(tail_);
    const uint64_t used = tail_->used.load(std::memory_order_relaxed);
    const size_t part = std::min(entry.size(), free_bytes(tail_));
    std::memcpy(reinterpret_cast<JournalBlock*>(tail_)->bytes + used, entry.data(), part);
    tail_->used.store(used + part, std::memory_order_release);
    entry.remove_prefix(part);
  }
}

void Journal::forget() {
  const std::lock_guard lock(mutex_);
  for (BlockHeader* block = head_.exchange(nullptr); block != nullptr;) {
    BlockHeader* const next = next_of(block);
    pool_.release(block);
    block = next;
  }
  tail_ = nullptr;
  blocks_ = 0;
}

}  // namespace opscope
