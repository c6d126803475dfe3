// What decoding reads: one window, the threads that recorded in it, their blocks, and the texts that records
// refer to. A live recorder offers one (recorder.h), and so does a copy of its blocks (log_copy.h).
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
  std::vector<const Chunk*> chunks;      // in order; those that hold [begin, end), and perhaps others
  std::vector<const ArenaBlock*> arena;  // in order; those that the records refer to, and perhaps others
  uint64_t published =
      0;  // of a log that is read in pieces: what there is, of which `end` may leave out some

  uint64_t last() const { return std::max(end, published); }
};

// How far a thread's log was moved elsewhere.
struct DrainedPart {
  uint64_t end = 0;            // log index: what is before it is elsewhere
  std::vector<uint64_t> open;  // but for the ends of these
};
using DrainedParts = std::map<uint64_t, DrainedPart>;  // by number of the thread

struct LogView {
  ClockAnchor origin;      // an older reading of the clocks than the window's
  double recent_rate = 0;  // nanoseconds per tick as measured just now; 0: not known
  WindowFacts window;
  std::vector<ThreadView> threads;
  std::vector<std::vector<const JournalBlock*>> journals;  // by number, each in order
  Texts texts;                                             // what they say
};

// Adds a block of a thread or a journal where it belongs in their order.
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
