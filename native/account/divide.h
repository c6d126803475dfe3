// Time of threads divided completely into causes: sums by step and cause, and pieces on request.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "account/moments.h"
#include "account/off_processor.h"
#include "schema/table.h"

namespace opscope::account {

struct Thread {
  Segments segments;    // of the spans on its line
  Intervals intervals;  // of its samples; empty without samples
  bool is_main;         // it always has work, so a gap is not idle time
};

struct Task {
  std::vector<Thread> threads;
  const int8_t* causes;  // of every event
  Steps steps;
  size_t step_count;
  Stretches transfers;
  Stretches passes;
  int64_t cost_ns;      // recording cost in a piece that a span begins or ends
  int64_t dispatch_ns;  // dispatch cost of an operator
};

// Nanoseconds by step and cause; first the time outside of steps.
struct Sums {
  std::vector<int64_t> time_ns;
  std::vector<int64_t> error_ns;
  int64_t busy_ns = 0;  // time in which something was seen to run
};

// Pieces of one thread's time. A stretch with several causes has one row for each.
struct PieceColumns {
  std::vector<int64_t> step;
  std::vector<int64_t> event;
  std::vector<int64_t> cause;
  std::vector<int64_t> time_ns;
  std::vector<int64_t> start_ns;
  std::vector<int64_t> end_ns;
};

// Start, length and event of every piece, before kernel counters are applied.
struct CutColumns {
  std::vector<int64_t> start_ns;
  std::vector<int64_t> length_ns;
  std::vector<int64_t> event;  // -1 for none
  std::vector<int64_t> cause;
  FlagColumn is_gap;
};

// Shares that a piece is divided into.
enum class Share : uint8_t { kItself, kBlocked, kDelayed, kFaults, kRecording, kDispatch };
inline constexpr size_t kShares = 6;
using PiecesByShare = std::array<PieceColumns, kShares>;

Sums sums_of(const Task& task, const Thread& thread);

// Nanoseconds of a thread's steps by cause and by the group of the innermost span; the last group has no
// span.
std::vector<int64_t> sums_of_groups(const Task& task, const Thread& thread, const int32_t* group,
                                    size_t groups);
CutColumns cut(const Task& task, const Thread& thread);
PiecesByShare pieces_of(const Task& task, const Thread& thread, const Causes& wanted);

// Durations of stretches in which an operator ran and nothing inside it.
class OperatorLengths {
 public:
  void add(int64_t length_ns) {
    ++count_;
    if (length_ns <= kMostDispatchNs) {
      ++counts_[static_cast<size_t>(length_ns)];
    } else {
      next_longer_ = std::min(next_longer_, length_ns);
    }
  }

  // Dispatch cost in nanoseconds, from the shortest of them; 0 if there are too few.
  int64_t dispatch_ns() const;

 private:
  static constexpr int64_t kMostDispatchNs = 5'000;

  double at(int64_t number) const;  // by order of duration

  std::vector<int64_t> counts_ = std::vector<int64_t>(static_cast<size_t>(kMostDispatchNs) + 1);
  int64_t count_ = 0;
  int64_t next_longer_ = INT64_MAX;
};

}  // namespace opscope::account
