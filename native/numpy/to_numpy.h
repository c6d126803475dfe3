// Columns as NumPy arrays.
#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

#include <utility>
#include <vector>

#include "schema/table.h"

namespace opscope {

// One-dimensional array of the memory at `data`. Python calls `drop` with `owner` when the last reference is
// gone.
nanobind::object array_of(void* data, size_t size, nanobind::dlpack::dtype dtype, void* owner,
                          void (*drop)(void*) noexcept);

// Moves a column to NumPy without copying.
template <typename T, typename Memory>
nanobind::object to_array(std::vector<T, Memory>&& column) {
  using Column = std::vector<T, Memory>;
  auto* const owned = new Column(std::move(column));
  return array_of(owned->data(), owned->size(), nanobind::dtype<T>(), owned,
                  [](void* p) noexcept { delete static_cast<Column*>(p); });
}

nanobind::object to_array(FlagColumn&& column);

// Offsets and values.
nanobind::object to_array(ListColumn&& column);

// Moves several columns, which are empty afterwards.
template <typename... Columns>
nanobind::tuple array_tuple(Columns&... columns) {
  return nanobind::make_tuple(to_array(std::move(columns))...);
}

// A table of schema/tables.h as a dictionary of arrays. Throws if the columns differ in length.
nanobind::dict to_arrays(const AnyTable& table);

template <typename Tables>
nanobind::dict to_tables(Tables&& tables) {
  nanobind::dict result;
  tables.for_each_table([&](auto& table) { result[table.kTable] = to_arrays(AnyTable(table)); });
  return result;
}

}  // namespace opscope
