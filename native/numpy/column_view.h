// Columns of a trace's tables: views of arrays that NumPy owns.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace opscope {

// Element i is data[i * stride]. Stride 0 is one value for every row: a column that no source filled, without
// memory.
template <class T>
struct ColumnView {
  const T* data = nullptr;
  ptrdiff_t stride = 1;
  size_t size = 0;

  T operator[](size_t row) const { return data[static_cast<ptrdiff_t>(row) * stride]; }
  bool empty() const { return size == 0; }
};

// Row i is values[offsets[i], offsets[i + 1]).
struct ListView {
  ColumnView<int64_t> offsets;
  ColumnView<int64_t> values;  // stride 1

  // Empty for offsets that exceed the values, so that a damaged file cannot crash the process.
  std::span<const int64_t> operator[](size_t row) const {
    if (row + 1 >= offsets.size) return {};
    const int64_t begin = offsets[row];
    const int64_t end = offsets[row + 1];
    if (begin < 0 || end < begin || static_cast<size_t>(end) > values.size) return {};
    return {values.data + begin, static_cast<size_t>(end - begin)};
  }
};

// Rows of a child table that belong to row i of its parent: [offsets[i], offsets[i + 1]).
struct Rows {
  ColumnView<int64_t> offsets;

  struct Range {
    size_t begin;
    size_t end;
  };
  Range operator[](size_t parent) const {
    if (parent + 1 >= offsets.size) return {0, 0};
    return {static_cast<size_t>(offsets[parent]), static_cast<size_t>(offsets[parent + 1])};
  }
};

}  // namespace opscope
