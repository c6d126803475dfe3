// The recording that streams: which window it is, and its journal, which has beside the texts of the
// process's journals what is known of the window. What devices did has a journal of its own. A ring's window
// is the oldest that it has, so it changes, and its journal is written anew now and then, without what has
// been replaced.
#pragma once

#include <cstdint>
#include <memory>

#include "log/journal.h"

namespace opscope {

struct Stream {
  static constexpr uint32_t kJournal = 2;           // the number of the first, after those of the process
  static constexpr uint32_t kDevices = UINT32_MAX;  // the number of that for what devices did

  Stream(BlockPool& pool, uint32_t window, double rate, bool is_ring)
      : window(window),
        rate(rate),
        is_ring(is_ring),
        journal(new_journal(pool)),
        devices(pool, kDevices, /*is_streamed=*/true) {}

  std::unique_ptr<Journal> new_journal(BlockPool& pool) {
    return std::make_unique<Journal>(pool, next_journal++, /*is_streamed=*/true);
  }

  uint32_t window;
  const double rate;  // nanoseconds per tick, as measured when it began
  const bool is_ring;
  uint32_t next_journal = kJournal;
  std::unique_ptr<Journal> journal;
  size_t journal_bytes = 0;  // when it was last written anew
  Journal devices;           // apart, because there may be much of it; a ring has nothing in it
};

}  // namespace opscope
