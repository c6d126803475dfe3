// What Python sees of columns: their order, groups of equal rows, medians, places.
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <limits>
#include <utility>
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

// The lower of the two middle values of every group. 0 for a group without values.
nb::object group_medians(const Numbers<int64_t>& values, const Numbers<int64_t>& group, size_t groups) {
  check_lengths(group.size(), values);
  check_between(group, 0, groups);
  return to_array(without_gil([&] {
    std::vector<size_t> begin(groups + 1);
    for (const int64_t one : span_of(group)) ++begin[static_cast<size_t>(one) + 1];
    for (size_t i = 1; i <= groups; ++i) begin[i] += begin[i - 1];
    std::vector<int64_t> together(values.size());
    std::vector<size_t> next(begin.begin(), begin.end() - 1);
    for (size_t row = 0; row < together.size(); ++row) {
      together[next[static_cast<size_t>(group.data()[row])]++] = values.data()[row];
    }
    std::vector<int64_t> medians(groups);
    for (size_t i = 0; i < groups; ++i) {
      if (begin[i] == begin[i + 1]) continue;
      const auto at = [&](size_t place) { return together.begin() + static_cast<ptrdiff_t>(place); };
      const size_t middle = (begin[i] + begin[i + 1] - 1) / 2;
      std::nth_element(at(begin[i]), at(middle), at(begin[i + 1]));
      medians[i] = together[middle];
    }
    return medians;
  }));
}

// How many of a sorted column are below each value, or with `right` not above it. Each is looked for from
// where the one before was, so that values that are nearly in order take no search of the whole column.
nb::object places(const Numbers<int64_t>& sorted, const Numbers<int64_t>& values, bool right) {
  return to_array(without_gil([&] {
    const auto all = span_of(sorted);
    std::vector<int64_t> found;
    found.reserve(values.size());
    size_t low = 0;
    for (const int64_t value : span_of(values)) {
      const auto is_before = [&](int64_t one) { return right ? one <= value : one < value; };
      size_t high = low;  // all below `low` are before the value, all from `high` on are not
      if (low < all.size() && is_before(all[low])) {
        for (size_t step = 1; high < all.size() && is_before(all[high]); step *= 2) {
          low = high + 1;
          high = std::min(all.size(), high + step);
        }
      } else {
        for (size_t step = 1; low > 0 && !is_before(all[low - 1]); step *= 2) {
          high = low - 1;
          low -= std::min(low, step);
        }
      }
      const auto between = all.subspan(low, high - low);
      low += static_cast<size_t>(std::partition_point(between.begin(), between.end(), is_before) -
                                 between.begin());
      found.push_back(static_cast<int64_t>(low));
    }
    return found;
  }));
}

// The finaliser of SplitMix64: each number spread over all bits, as hashes of arguments are made of.
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
  module.def("group_medians", &group_medians, "values"_a, "group"_a, "groups"_a);
  module.def("places", &places, "sorted"_a, "values"_a, "right"_a);
  module.def("mix", &mix, "values"_a);
}

}  // namespace opscope
