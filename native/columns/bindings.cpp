// Python bindings of columns: order, groups of equal rows, hashes.
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/vector.h>

#include <limits>
#include <vector>

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
  for (const auto& column : table) check_lengths(table[0].size(), column);
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
  return to_array(without_gil([&] { return columns::row_order(columns_of(table), rows); }));
}

nb::tuple row_groups(const Table& table) {
  const size_t rows = rows_of(table);
  columns::Groups found = without_gil([&] { return columns::row_groups(columns_of(table), rows); });
  return array_tuple(found.group, found.first, found.count);
}

// Finaliser of SplitMix64: spreads each number over all bits, for hashes of arguments.
nb::object mix(const Numbers<uint64_t>& values) {
  return to_array(without_gil([&] {
    std::vector<uint64_t> result;
    result.reserve(values.size());
    for (const uint64_t value : span_of(values)) {
      uint64_t h = value + 0x9E3779B97F4A7C15u;
      h = (h ^ (h >> 30)) * 0xBF58476D1CE4E5B9u;
      h = (h ^ (h >> 27)) * 0x94D049BB133111EBu;
      result.push_back(h ^ (h >> 31));
    }
    return result;
  }));
}

}  // namespace

void bind_columns(nb::module_& module) {
  module.def("row_order", &row_order, "columns"_a);
  module.def("row_groups", &row_groups, "columns"_a);
  module.def("mix", &mix, "values"_a);
}

}  // namespace opscope
