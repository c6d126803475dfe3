// The 64 KiB blocks of records, payloads and texts. Their headers order the blocks without the process.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace opscope {

constexpr size_t kBlockBytes = 64 * 1024;

enum class BlockKind : uint32_t {
  kFree = 0,
  kRecords = 1,
  kArena = 2,
  kJournal = 3,
  kThreads = 4,  // of a stream's file: its threads
  kStream = 5,   // first block of such a file
  kSpent = 6,    // in such a file: its records are in segments, and it may be used again
};

struct alignas(64) BlockHeader {
  std::atomic<BlockKind> kind{BlockKind::kFree};
  uint32_t owner = 0;              // number of the thread, or of the journal
  uint64_t sequence = 0;           // of records: log index of the first; otherwise the owner's block count
  uint64_t first_arena_block = 0;  // of records: oldest arena block that they refer to
  std::atomic<uint64_t> used{0};   // of a journal: bytes written; of records: room for
                                   // records, less if their thread left the block early
  std::atomic<BlockHeader*> next{nullptr};  // block of the same owner; valid in its own process only
};
static_assert(sizeof(BlockHeader) == 64 && std::atomic<BlockKind>::is_always_lock_free);

// [reader] This block and all later ones, in order.
template <typename Block>
std::vector<const Block*> blocks_from(const BlockHeader* first) {
  std::vector<const Block*> blocks;
  for (; first != nullptr; first = first->next.load(std::memory_order_acquire))
    blocks.push_back(reinterpret_cast<const Block*>(first));
  return blocks;
}

}  // namespace opscope
