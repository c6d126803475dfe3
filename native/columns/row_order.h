// Rows in the order of their columns, and which of them are equal. Nothing here compares rows with each
// other more often than a few times: what a row costs does not grow with the table.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace opscope::columns {

using Column = const int64_t*;

// Rows in order of the first column, where that is equal of the second, and so on; else as they were.
std::vector<int64_t> row_order(const std::vector<Column>& columns, size_t rows);

// Equal rows have one number; numbers are in the order of the rows' values.
struct Groups {
  std::vector<int64_t> group;  // of every row
  std::vector<int64_t> first;  // row, of every group
  std::vector<int64_t> count;  // of every group
};

Groups row_groups(const std::vector<Column>& columns, size_t rows);

}  // namespace opscope::columns
