// What lies in the file of a stream beside records, payloads and texts: its first block, and its threads.
#pragma once

#include <atomic>
#include <cstdint>

#include "log/block.h"
#include "log/clock.h"
#include "log/window.h"

namespace opscope {

constexpr char kStreamMagic[16] = "OPSCOPE stream\n";

// Raised with every change of records, payloads, journals, of what is known of a window, or of what is here.
constexpr uint32_t kLogVersion = 7;

// A time in which something found no room, in ticks.
struct Gap {
  uint64_t first;
  uint64_t last;
  uint64_t lost;
};

// Of a ring blocks are used again as they are released, and `drained` says what its windows begin at.
enum class RingState : uint64_t {
  kNone = 0,
  kGoesOn = 1,
  kEnded = 2,  // before its process did: another recording has the file, or there was no room
};

struct StreamHeader {
  BlockHeader header;
  char magic[sizeof(kStreamMagic)];
  uint32_t version;
  uint32_t record_bytes;
  uint32_t block_bytes;
  // Why the file could not grow when it last could not: an error number, or 0.
  std::atomic<int32_t> growth_error;
  int64_t process_id;
  uint64_t drain_from;  // bytes: from this size on, what is in it should be moved to segments
  // Written by the process that moves it: number of blocks marked as spent.
  std::atomic<uint64_t> spent_blocks;
  RingState ring;
  static constexpr size_t kGaps = 512;  // once there are more, the last one is extended
  std::atomic<uint64_t> gap_count;
  Gap gaps[kGaps];
  // Readings of the clocks, about a second apart, so that a recording without an end has a rate. The last one
  // is moments[(moment_count - 1) % 2].
  std::atomic<uint64_t> moment_count;
  ClockAnchor moments[2];
  // The name that the file was made under: what belongs to it (segments, the note of a ring) says it, too.
  char identity[80];
};
static_assert(sizeof(StreamHeader) <= kBlockBytes);

struct ThreadSlot {
  ThreadFacts facts() const;

  std::atomic<uint32_t> is_known;  // 1 once the rest is written
  uint64_t number;
  uint64_t native_thread;
  int64_t system_thread_id;
  std::atomic<uint64_t> torch_thread_id;
  // In the stream: what found no room.
  std::atomic<uint64_t> dropped_spans;
  std::atomic<uint64_t> dropped_allocations;
  std::atomic<uint64_t> dropped_others;
  // When the first of them was lost and the last, in ticks.
  std::atomic<uint64_t> first_loss;
  std::atomic<uint64_t> last_loss;
  std::atomic<uint64_t> drained;  // log index: what is before it is in segments, or of no use in a ring
  char name[48];
};

struct ThreadBlock {
  static constexpr size_t kSlots = (kBlockBytes - sizeof(BlockHeader)) / sizeof(ThreadSlot);

  BlockHeader header;  // `used`: how many slots are taken
  ThreadSlot slots[kSlots];
};
static_assert(sizeof(ThreadBlock) <= kBlockBytes);

}  // namespace opscope
