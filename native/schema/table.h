// What the columns of schema/tables.h are kept in, and what holds of every table of them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <vector>

namespace opscope {

// Rows of any number of values.
struct ListColumn {
  std::vector<int64_t> offsets{0};
  std::vector<int64_t> values;
  void end_row() { offsets.push_back(static_cast<int64_t>(values.size())); }
  void reserve(size_t rows) { offsets.reserve(rows + 1); }
};

// A byte each, 0 or 1: Python gets truth values.
struct FlagColumn : std::vector<uint8_t> {
  using std::vector<uint8_t>::vector;
};

template <typename T>
size_t rows_of(const std::vector<T>& column) {
  return column.size();
}
inline size_t rows_of(const ListColumn& column) { return column.offsets.size() - 1; }

// Throws unless every column has a value for every row; one that may be lacking can also have none. A
// decoder that forgets a column is found here, and not by who indexes past its end.
template <typename Table>
void check_lengths(Table& table) {
  const char* first = nullptr;
  size_t rows = 0;
  table.for_each_column([&](const char* name, const auto& column, bool may_lack) {
    const size_t found = rows_of(column);
    if (may_lack && found == 0) return;
    if (first == nullptr) {
      first = name;
      rows = found;
    } else if (found != rows) {
      throw std::logic_error(std::string("the decoder gave ") + Table::kTable + "." + name + " " +
                             std::to_string(found) + " rows and " + Table::kTable + "." + first + " " +
                             std::to_string(rows) + "; this is a fault of opscope's, please report it");
    }
  });
}

}  // namespace opscope
