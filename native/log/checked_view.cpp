#include "log/checked_view.h"

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

namespace opscope {

namespace {

// Checks that chunks are in order, do not overlap, and contain every record of the window.
void check_chunks(const ThreadView& thread) {
  uint64_t covered = 0;
  uint64_t end = 0;
  for (const Chunk* chunk : thread.chunks) {
    const uint64_t first = chunk->first_index();
    require(first <= kMostRecords, "a block of records has an impossible position");
    require(chunk->header.used.load(std::memory_order_relaxed) <= Chunk::kRecords,
            "a block has more records than it can hold");
    require(first >= end, "two blocks have the same records");
    end = first + chunk->count();
    const uint64_t from = std::max(first, thread.begin), to = std::min(end, thread.end);
    covered += from < to ? to - from : 0;
  }
  const uint64_t wanted = thread.begin < thread.end ? thread.end - thread.begin : 0;
  require(covered == wanted, "a thread has more records than its blocks hold");
}

template <typename Values>
bool has_twice(Values values) {
  std::sort(values.begin(), values.end());
  return std::adjacent_find(values.begin(), values.end()) != values.end();
}

void check_window(const WindowFacts& window) {
  check_anchor(window.started);
  check_anchor(window.stopped);
  std::vector<std::pair<uint64_t, int64_t>> threads;
  for (const InitialStack& stack : window.initial_stacks) {
    threads.emplace_back(stack.native_thread, stack.system_thread_id);
    for (const InitialFrame& frame : stack.frames) {
      require(is_flag(frame.may_begin), "a flag is neither 0 nor 1");
      check_record(frame.span);
      require(is_span(frame.span.kind), "a record that ran at the start is not a span");
    }
  }
  require(!has_twice(std::move(threads)), "a thread has two stacks");
}

}  // namespace

void check_anchor(const ClockAnchor& anchor) {
  const auto is_time = [](int64_t time_ns) { return time_ns > -kLongest_ns && time_ns < kLatest_ns; };
  require(is_time(anchor.unix_ns) && is_time(anchor.monotonic_ns), "a clock has an impossible time");
}

void check_view(const LogView& view) {
  check_anchor(view.origin);
  require(std::isfinite(view.recent_rate) && view.recent_rate >= 0 && view.recent_rate < 1e9,
          "a clock has an impossible rate");
  check_window(view.window);
  std::vector<uint64_t> numbers;
  for (const ThreadView& thread : view.threads) {
    check_chunks(thread);
    numbers.push_back(thread.facts.number);
  }
  require(!has_twice(std::move(numbers)), "two threads have the same number");
}

}  // namespace opscope
