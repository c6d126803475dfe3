// The time of threads divided into causes without rest: sums by step and cause, and pieces where asked for.
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

// A thread of the system.
struct Thread {
  Segments segments;    // of the spans on its line
  Intervals intervals;  // of its samples; none without
  bool is_main;         // it is asked for something all the time, so that a gap is no rest
};

struct Task {
  std::vector<Thread> threads;
  const int8_t* causes;  // of every event
  Steps steps;
  size_t step_count;
  Stretches transfers;
  Stretches passes;
  int64_t cost_ns;      // of recording, in a piece that a span begins or ends
  int64_t dispatch_ns;  // of an operator, what calling any takes
};

// Nanoseconds by step and cause: of what is outside of all steps first.
struct Sums {
  std::vector<int64_t> time_ns;
  std::vector<int64_t> error_ns;
  int64_t busy_ns = 0;  // in which something was seen to run
};

// The time of one thread piece by piece: a stretch of several causes is there once for each.
struct PieceColumns {
  std::vector<int64_t> step;
  std::vector<int64_t> event;
  std::vector<int64_t> cause;
  std::vector<int64_t> time_ns;
  std::vector<int64_t> start_ns;
  std::vector<int64_t> end_ns;
};

// Where and how long every piece is, and what runs in it, before anything is known of the processor.
struct CutColumns {
  std::vector<int64_t> start_ns;
  std::vector<int64_t> length_ns;
  std::vector<int64_t> event;  // -1 for none
  std::vector<int64_t> cause;
  FlagColumn is_gap;
};

// What a piece is divided into.
enum class Share : uint8_t { kItself, kBlocked, kDelayed, kFaults, kRecording, kDispatch };
inline constexpr size_t kShares = 6;
using PiecesByShare = std::array<PieceColumns, kShares>;

Sums sums_of(const Task& task, const Thread& thread);

// Nanoseconds of the steps of a thread by the group that the innermost span has, and cause: of no span last.
std::vector<int64_t> sums_of_groups(const Task& task, const Thread& thread, const int32_t* group,
                                    size_t groups);
CutColumns cut(const Task& task, const Thread& thread);
PiecesByShare pieces_of(const Task& task, const Thread& thread, const Causes& wanted);

// How long stretches were in which an operator ran and nothing in it.
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

  // What the quickest of them take, in nanoseconds, as far as that tells what calling any takes; 0 where
  // there are too few.
  int64_t dispatch_ns() const;

 private:
  static constexpr int64_t kMostDispatchNs = 5'000;

  double at(int64_t number) const;  // of all in order of length

  std::vector<int64_t> counts_ = std::vector<int64_t>(static_cast<size_t>(kMostDispatchNs) + 1);
  int64_t count_ = 0;
  int64_t next_longer_ = INT64_MAX;
};

}  // namespace opscope::account
