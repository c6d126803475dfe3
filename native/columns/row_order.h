// Order of rows by their columns, and groups of equal rows. No comparison sort: the cost per row does not
// grow with the table.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace opscope::columns {

using Column = const int64_t*;

// Rows ordered by the first column, then by the second, and so on; stable.
std::vector<int64_t> row_order(const std::vector<Column>& columns, size_t rows);

// Equal rows have one number; numbers are in the order of values.
struct Groups {
  std::vector<int64_t> group;  // of every row
  std::vector<int64_t> first;  // row, of every group
  std::vector<int64_t> count;  // of every group
};

Groups row_groups(const std::vector<Column>& columns, size_t rows);

}  // namespace opscope::columns
