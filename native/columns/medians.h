// The lower of the two middle values of every group.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <vector>

namespace opscope::columns {

// 0 for a group without values.
inline std::vector<int64_t> group_medians(const int64_t* values, const int64_t* group, size_t rows,
                                          size_t groups) {
  std::vector<size_t> begin(groups + 1);
  for (size_t row = 0; row < rows; ++row) {
    if (group[row] < 0 || static_cast<size_t>(group[row]) >= groups) {
      throw std::out_of_range("a value is in no group");
    }
    ++begin[static_cast<size_t>(group[row]) + 1];
  }
  for (size_t i = 1; i <= groups; ++i) begin[i] += begin[i - 1];
  std::vector<int64_t> together(rows);
  std::vector<size_t> next(begin.begin(), begin.end() - 1);
  for (size_t row = 0; row < rows; ++row) together[next[static_cast<size_t>(group[row])]++] = values[row];
  std::vector<int64_t> medians(groups);
  for (size_t i = 0; i < groups; ++i) {
    if (begin[i] == begin[i + 1]) continue;
    const auto at = [&](size_t place) { return together.begin() + static_cast<ptrdiff_t>(place); };
    const size_t middle = (begin[i] + begin[i + 1] - 1) / 2;
    std::nth_element(at(begin[i]), at(middle), at(begin[i + 1]));
    medians[i] = together[middle];
  }
  return medians;
}

}  // namespace opscope::columns
