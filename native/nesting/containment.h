// Which span ran inside which, from times alone.
#pragma once

#include <cstddef>
#include <cstdint>
#include <unordered_map>
#include <vector>

namespace opscope::nesting {

struct Containment {
  std::vector<int32_t> parent;    // the innermost earlier span of the thread that contains it, -1 for none
  std::vector<uint8_t> outlasts;  // it began in a span that began after its parent, and ended after that
};

// Spans by start, of all threads; of spans with equal starts the outer one comes first. One pass with a
// stack, for each thread, of the spans that are still open.
inline Containment contain(const int64_t* thread, const int64_t* start, const int64_t* end, size_t rows) {
  Containment result{std::vector<int32_t>(rows), std::vector<uint8_t>(rows)};
  std::unordered_map<int64_t, std::vector<int32_t>> stacks;
  std::vector<int32_t>* stack = nullptr;
  for (size_t row = 0; row < rows; ++row) {
    if (row == 0 || thread[row] != thread[row - 1]) stack = &stacks[thread[row]];
    bool outlasts = false;
    while (!stack->empty()) {
      const auto top = static_cast<size_t>(stack->back());
      // A zero-length span at the end of another one comes after it. Where both are empty and at the same
      // time, the second is inside the first.
      if (end[top] >= end[row] && (end[top] > start[row] || start[top] == start[row])) break;
      outlasts |= end[top] > start[row];
      stack->pop_back();
    }
    result.parent[row] = stack->empty() ? -1 : stack->back();
    result.outlasts[row] = outlasts;
    stack->push_back(static_cast<int32_t>(row));
  }
  return result;
}

}  // namespace opscope::nesting
