// Contents of a stream's file other than records, payloads and texts: its first block and its threads.
#pragma once

#include <atomic>
#include <cstdint>

#include "log/block.h"
#include "log/clock.h"
#include "log/window.h"

namespace opscope {

constexpr char kStreamMagic[16] = "OPSCOPE stream\n";

// Increases with each change of records, payloads, journals, facts of a window, or this file.
constexpr uint32_t kLogVersion = 9;

// Period in which records were lost for lack of room, in ticks.
struct Gap {
  uint64_t first;
  uint64_t last;
  uint64_t lost;
};

// In a ring, released blocks are reused, and `drained` is where its windows begin.
enum class RingState : uint64_t {
  kNone = 0,
  kGoesOn = 1,
  kEnded = 2,  // before its process: another recording has replaced it, or there was no room
};

struct StreamHeader {
  BlockHeader header;
  char magic[sizeof(kStreamMagic)];
  uint32_t version;
  uint32_t record_bytes;
  uint32_t block_bytes;
  // errno of the last failed growth, or 0.
  std::atomic<int32_t> growth_error;
  int64_t process_id;
  uint64_t drain_from;  // bytes: from this size on, another process should drain the file into segments
  // Number of blocks marked as spent; the draining process writes it.
  std::atomic<uint64_t> spent_blocks;
  RingState ring;
  static constexpr size_t kGaps = 512;  // further gaps extend the last one
  std::atomic<uint64_t> gap_count;
  Gap gaps[kGaps];
  // Readings of the clocks about once a second, so that a recording without an end has a rate. The last one
  // is moments[(moment_count - 1) % 2].
  std::atomic<uint64_t> moment_count;
  ClockAnchor moments[2];
  // File name at creation; the names of its segments and of a ring's note contain it.
  char identity[80];
};
static_assert(sizeof(StreamHeader) <= kBlockBytes);

struct ThreadSlot {
  ThreadFacts facts() const;

  std::atomic<uint32_t> is_known;  // 1 once the other fields are written
  uint64_t number;
  uint64_t native_thread;
  int64_t system_thread_id;
  std::atomic<uint64_t> torch_thread_id;
  // Records lost for lack of room in the stream.
  std::atomic<uint64_t> dropped_spans;
  std::atomic<uint64_t> dropped_allocations;
  std::atomic<uint64_t> dropped_others;
  // Ticks of the first and the last loss.
  std::atomic<uint64_t> first_loss;
  std::atomic<uint64_t> last_loss;
  std::atomic<uint64_t> drained;  // log index: records before it are in segments, or not needed in a ring
  char name[48];
};

struct ThreadBlock {
  static constexpr size_t kSlots = (kBlockBytes - sizeof(BlockHeader)) / sizeof(ThreadSlot);

  BlockHeader header;  // `used`: number of used slots
  ThreadSlot slots[kSlots];
};
static_assert(sizeof(ThreadBlock) <= kBlockBytes);

}  // namespace opscope
