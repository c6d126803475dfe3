// Input of decoding: one window, the threads that recorded in it, their blocks, and the texts that records
// refer to. A live recorder (recorder.h) or a copy of its blocks (log_copy.h) provides it.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "log/arena.h"
#include "log/chunk_log.h"
#include "log/clock.h"
#include "log/texts.h"
#include "log/window.h"

namespace opscope {

// A thread's part of a window: log indices [begin, end).
struct ThreadView {
  ThreadFacts facts;
  uint64_t begin = 0;
  uint64_t end = 0;
  Drops dropped;
  std::vector<const Chunk*> chunks;      // in order; contain [begin, end), and perhaps more
  std::vector<const ArenaBlock*> arena;  // in order; contain the payloads, and perhaps more
  uint64_t published = 0;  // if a log is read in pieces: all available records; `end` may be less

  uint64_t last() const { return std::max(end, published); }
};

// Part of a thread's log that was drained into segments.
struct DrainedPart {
  uint64_t end = 0;            // log index: records before it are in segments
  std::vector<uint64_t> open;  // spans whose ends are not yet drained
};
using DrainedParts = std::map<uint64_t, DrainedPart>;  // by thread number

struct LogView {
  ClockAnchor origin;      // earlier than the window's readings
  double recent_rate = 0;  // nanoseconds per tick, just measured; 0: unknown
  WindowFacts window;
  std::vector<ThreadView> threads;
  std::vector<std::vector<const JournalBlock*>> journals;  // by number, each in order
  Texts texts;                                             // decoded from the journals
};

// Inserts a block of a thread or journal in order.
template <typename Block>
void add_in_order(std::vector<const Block*>& blocks, const BlockHeader& block) {
  blocks.push_back(reinterpret_cast<const Block*>(&block));
  const auto earlier = [](const Block* a, const Block* b) { return a->header.sequence < b->header.sequence; };
  for (size_t i = blocks.size(); --i > 0 && earlier(blocks[i], blocks[i - 1]);)
    std::swap(blocks[i], blocks[i - 1]);
}

// Calls function(index, record) for each record of a thread's part of the window.
template <typename Function>
void for_each_record(const ThreadView& thread, Function&& function) {
  for (const Chunk* chunk : thread.chunks) {
    const uint64_t first = chunk->first_index();
    const uint64_t last = std::min(first + chunk->count(), thread.end);
    for (uint64_t index = std::max(first, thread.begin); index < last; ++index)
      function(index, chunk->records[index - first]);
  }
}

}  // namespace opscope
