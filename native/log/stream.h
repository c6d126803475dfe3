// The current stream: its window and its journal, which contains the texts of the process's journals and the
// facts of the window. Work of devices has a separate journal. A ring's window is its oldest, so it changes;
// its journal is rewritten now and then, without outdated entries.
#pragma once

#include <cstdint>
#include <memory>

#include "log/journal.h"

namespace opscope {

struct Stream {
  static constexpr uint32_t kJournal = 2;           // number of the first, after those of the process
  static constexpr uint32_t kDevices = UINT32_MAX;  // number of the journal for devices

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
  const double rate;  // nanoseconds per tick, measured at the start
  const bool is_ring;
  uint32_t next_journal = kJournal;
  std::unique_ptr<Journal> journal;
  size_t journal_bytes = 0;  // at its last rewrite
  Journal devices;           // separate, because it may be large; empty in a ring
};

}  // namespace opscope
