// The 64 KiB blocks that contain records, payloads and texts. Each has a header, so that a reader can order
// the blocks of a recording without its process.
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
  kStream = 5,   // the first block of such a file
  kSpent = 6,    // of such a file: what it held is in segments, and it may be used again
};

struct alignas(64) BlockHeader {
  std::atomic<BlockKind> kind{BlockKind::kFree};
  uint32_t owner = 0;     // number of the thread; of a journal, which one
  uint64_t sequence = 0;  // of records: log index of the first; otherwise it counts the owner's blocks
  uint64_t first_arena_block = 0;           // of records: none in here refers to an older one
  std::atomic<uint64_t> used{0};            // of a journal: how many bytes are written; of records: how many
                                            // there is place for, less where their thread left them early
  std::atomic<BlockHeader*> next{nullptr};  // of the same owner; means something in its own process only
};
static_assert(sizeof(BlockHeader) == 64 && std::atomic<BlockKind>::is_always_lock_free);

// [reader] All blocks from this one on, in order.
template <typename Block>
std::vector<const Block*> blocks_from(const BlockHeader* first) {
  std::vector<const Block*> blocks;
  for (; first != nullptr; first = first->next.load(std::memory_order_acquire))
    blocks.push_back(reinterpret_cast<const Block*>(first));
  return blocks;
}

}  // namespace opscope
