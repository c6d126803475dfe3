// Columns as Python gets them.
#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

#include <memory>
#include <utility>
#include <vector>

#include "schema/table.h"

namespace opscope {

// Hands a column to NumPy without copying it.
template <typename T>
nanobind::object to_array(std::vector<T>&& column) {
  auto owned = std::make_unique<std::vector<T>>(std::move(column));
  T* const data = owned->data();
  const size_t size = owned->size();
  nanobind::capsule owner(owned.release(), [](void* p) noexcept { delete static_cast<std::vector<T>*>(p); });
  return nanobind::cast(nanobind::ndarray<nanobind::numpy, T, nanobind::ndim<1>>(data, {size}, owner));
}

inline nanobind::object to_array(FlagColumn&& column) {
  return to_array(static_cast<std::vector<uint8_t>&&>(column)).attr("view")("bool");
}

// Offsets and values.
inline nanobind::object to_array(ListColumn&& column) {
  return nanobind::make_tuple(to_array(std::move(column.offsets)), to_array(std::move(column.values)));
}

// A table of schema/tables.h as a dictionary of arrays. Throws unless its columns are of one length.
template <typename Table>
nanobind::dict to_arrays(Table&& table) {
  check_lengths(table);
  nanobind::dict arrays;
  table.for_each_column([&](const char* name, auto& column, bool may_lack) {
    if (!may_lack || rows_of(column) != 0) arrays[name] = to_array(std::move(column));
  });
  return arrays;
}

// Every table under its name.
template <typename Tables>
nanobind::dict to_tables(Tables&& tables) {
  nanobind::dict result;
  tables.for_each_table([&](auto& table) { result[table.kTable] = to_arrays(std::move(table)); });
  return result;
}

}  // namespace opscope
