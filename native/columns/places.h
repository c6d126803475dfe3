// Where values stand in a sorted column.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace opscope::columns {

// Each value is looked for from where the one before was, so that values that are nearly in order take no
// search of the whole column.
class PlaceFinder {
 public:
  PlaceFinder(const int64_t* sorted, size_t size, bool right) : sorted_(sorted), size_(size), right_(right) {}

  // How many are below the value, or with `right` not above it.
  size_t find(int64_t value) {
    size_t low = near_;
    size_t high = near_;  // all below `low` are before the value, all from `high` on are not
    if (near_ < size_ && is_before(near_, value)) {
      for (size_t step = 1; high < size_ && is_before(high, value); step *= 2) {
        low = high + 1;
        high = std::min(size_, high + step);
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
    return near_ = low;
  }

 private:
  bool is_before(size_t place, int64_t value) const {
    return right_ ? sorted_[place] <= value : sorted_[place] < value;
  }

  const int64_t* sorted_;
  size_t size_;
  bool right_;
  size_t near_ = 0;
};

inline std::vector<int64_t> places(const int64_t* sorted, size_t size, const int64_t* values, size_t rows,
                                   bool right) {
  std::vector<int64_t> found(rows);
  PlaceFinder finder(sorted, size, right);
  for (size_t row = 0; row < rows; ++row) found[row] = static_cast<int64_t>(finder.find(values[row]));
  return found;
}

}  // namespace opscope::columns
