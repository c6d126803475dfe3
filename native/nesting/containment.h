// Which span ran inside which, from times alone.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <unordered_map>
#include <vector>

#include "nesting/line_sweep.h"

namespace opscope::nesting {

struct Containment {
  std::vector<int32_t> parent;      // the innermost earlier span of the thread that contains it, -1 for none
  std::vector<int64_t> overlap_ns;  // of its time, what it shares with spans that it began in and outlasts
};

// Spans by start, of all threads; of spans with equal starts the outer one comes first. One pass with a
// stack, for each thread, of the spans that are still open. Of two that end within `rounding_ns` the later
// one may be inside the earlier one.
inline Containment contain(const int64_t* thread, const int64_t* start, const int64_t* end, size_t rows,
                           int64_t rounding_ns) {
  Containment result{std::vector<int32_t>(rows), std::vector<int64_t>(rows)};
  std::unordered_map<int64_t, std::vector<int32_t>> stacks;
  std::vector<int32_t>* stack = nullptr;
  for (size_t row = 0; row < rows; ++row) {
    if (row == 0 || thread[row] != thread[row - 1]) stack = &stacks[thread[row]];
    while (!stack->empty()) {
      const auto top = static_cast<size_t>(stack->back());
      // What has no length contains nothing; what begins where another ends comes after it.
      const int64_t inside = end[top] - start[row];
      if (inside > 0) {
        if (end[top] >= end[row] || is_rounding(end[row] - end[top], inside, rounding_ns)) break;
        result.overlap_ns[row] = std::max(result.overlap_ns[row], inside);
      }
      stack->pop_back();
    }
    result.parent[row] = stack->empty() ? -1 : stack->back();
    stack->push_back(static_cast<int32_t>(row));
  }
  return result;
}

}  // namespace opscope::nesting
