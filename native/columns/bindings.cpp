// What Python sees of columns: their order, groups of equal rows, medians, places.
#include "columns/bindings.h"

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/vector.h>

#include <limits>
#include <utility>
#include <vector>

#include "columns/medians.h"
#include "columns/mix.h"
#include "columns/places.h"
#include "columns/row_order.h"
#include "interpreter/without_gil.h"
#include "numpy/arrays.h"
#include "numpy/to_numpy.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace opscope {
namespace {

using Table = std::vector<Numbers<int64_t>>;

size_t rows_of(const Table& table) {
  if (table.empty()) throw nb::value_error("rows have at least one column");
  for (const auto& column : table) {
    if (column.size() != table[0].size()) {
      throw nb::value_error("columns of one table have different lengths");
    }
  }
  if (table[0].size() > std::numeric_limits<uint32_t>::max()) throw nb::value_error("too many rows");
  return table[0].size();
}

std::vector<columns::Column> columns_of(const Table& table) {
  std::vector<columns::Column> found;
  for (const auto& column : table) found.push_back(column.data());
  return found;
}

nb::object row_order(const Table& table) {
  const size_t rows = rows_of(table);
  auto order = [&] {
    const auto columns = columns_of(table);
    const WithoutGil without_gil;
    return columns::row_order(columns, rows);
  }();
  return to_array(std::move(order));
}

nb::tuple row_groups(const Table& table) {
  const size_t rows = rows_of(table);
  columns::Groups found = [&] {
    const auto columns = columns_of(table);
    const WithoutGil without_gil;
    return columns::row_groups(columns, rows);
  }();
  return nb::make_tuple(to_array(std::move(found.group)), to_array(std::move(found.first)),
                        to_array(std::move(found.count)));
}

nb::object group_medians(const Numbers<int64_t>& values, const Numbers<int64_t>& group, size_t groups) {
  check_length(values.size(), group.size());
  return to_array(without_gil(
      [&] { return columns::group_medians(values.data(), group.data(), values.size(), groups); }));
}

nb::object places(const Numbers<int64_t>& sorted, const Numbers<int64_t>& values, bool right) {
  return to_array(without_gil(
      [&] { return columns::places(sorted.data(), sorted.size(), values.data(), values.size(), right); }));
}

nb::object mix(const Numbers<uint64_t>& values) {
  return to_array(without_gil([&] {
    std::vector<uint64_t> result(values.size());
    for (size_t i = 0; i < result.size(); ++i) result[i] = columns::mix(values.data()[i]);
    return result;
  }));
}

}  // namespace

void bind_columns(nb::module_& module) {
  module.def("row_order", &row_order, "columns"_a);
  module.def("row_groups", &row_groups, "columns"_a);
  module.def("group_medians", &group_medians, "values"_a, "group"_a, "groups"_a);
  module.def("places", &places, "sorted"_a, "values"_a, "right"_a);
  module.def("mix", &mix, "values"_a);
}

}  // namespace opscope
