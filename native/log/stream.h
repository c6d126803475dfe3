// The recording that streams: which window it is, and its journal, which has beside the texts of the
// process's journals what is known of the window.
#pragma once

#include <cstdint>

#include "log/journal.h"

namespace opscope {

struct Stream {
  static constexpr uint32_t kJournal = 2;  // its number, after those of the process

  Stream(BlockPool& pool, uint32_t window, double rate)
      : window(window), rate(rate), journal(pool, kJournal, /*is_streamed=*/true) {}

  const uint32_t window;
  const double rate;  // nanoseconds per tick, as measured when it began
  Journal journal;
};

}  // namespace opscope
