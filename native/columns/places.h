// Where values stand in a sorted column.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace opscope::columns {

// How many of `sorted` are below each value, or with `right` not above it. Each is looked for from where
// the one before was, so that values that are nearly in order take no search of the whole column.
inline std::vector<int64_t> places(const int64_t* sorted, size_t size, const int64_t* values, size_t rows,
                                   bool right) {
  std::vector<int64_t> found(rows);
  const auto is_before = [&](size_t place, int64_t value) {
    return right ? sorted[place] <= value : sorted[place] < value;
  };
  size_t near = 0;
  for (size_t row = 0; row < rows; ++row) {
    const int64_t value = values[row];
    size_t low = near;
    size_t high = near;  // all below `low` are before the value, all from `high` on are not
    if (near < size && is_before(near, value)) {
      for (size_t step = 1; high < size && is_before(high, value); step *= 2) {
        low = high + 1;
        high = std::min(size, high + step);
      }
    } else {
      for (size_t step = 1; low > 0 && !is_before(low - 1, value); step *= 2) {
        high = low - 1;
        low -= std::min(low, step);
      }
    }
    while (low < high) {
      const size_t middle = low + (high - low) / 2;
      if (is_before(middle, value)) {
        low = middle + 1;
      } else {
        high = middle;
      }
    }
    found[row] = static_cast<int64_t>(low);
    near = low;
  }
  return found;
}

}  // namespace opscope::columns
