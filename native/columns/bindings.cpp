// What Python sees of columns: their order, groups of equal rows, medians, places.
#include "columns/bindings.h"

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/vector.h>

#include <limits>
#include <span>
#include <utility>
#include <vector>

#include "columns/medians.h"
#include "columns/mix.h"
#include "columns/places.h"
#include "columns/row_order.h"
#include "columns/stretches.h"
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

nb::object usual_lengths(const Numbers<int64_t>& length, const Numbers<int64_t>& event,
                         const Numbers<int32_t>& label, size_t labels, int64_t longer_than) {
  if (length.size() != event.size()) throw nb::value_error("every stretch has a length and an event");
  return to_array(without_gil([&] {
    return columns::usual_lengths(span_of(length), span_of(event), span_of(label), labels, longer_than);
  }));
}

nb::object delays(const Numbers<int64_t>& edges, const Numbers<int64_t>& usual, const Numbers<int64_t>& start,
                  const Numbers<int64_t>& delayed, int64_t end, double odd, double shortest, double most) {
  if (edges.size() != usual.size() + 1) throw nb::value_error("stretches have one edge more");
  check_length(start.size(), delayed.size());
  return to_array(without_gil([&] {
    const columns::Waits waits{span_of(start), span_of(delayed), end};
    return columns::delays(span_of(edges), span_of(usual), waits, {odd, shortest, most});
  }));
}

nb::object sums_between(const Numbers<int64_t>& edges, const Numbers<int64_t>& times,
                        const Numbers<double>& amounts, bool right) {
  if (times.size() != amounts.size()) throw nb::value_error("every time has an amount");
  return to_array(without_gil(
      [&] { return columns::sums_between(span_of(edges), span_of(times), span_of(amounts), right); }));
}

nb::object shown_at(const Numbers<int64_t>& moments, const Numbers<double>& shown,
                    const Numbers<int64_t>& times) {
  if (moments.size() == 0 || moments.size() != shown.size()) {
    throw nb::value_error("a clock shows something at every moment, and has one");
  }
  return to_array(
      without_gil([&] { return columns::shown_at(span_of(moments), span_of(shown), span_of(times)); }));
}

}  // namespace

void bind_columns(nb::module_& module) {
  module.def("row_order", &row_order, "columns"_a);
  module.def("row_groups", &row_groups, "columns"_a);
  module.def("group_medians", &group_medians, "values"_a, "group"_a, "groups"_a);
  module.def("places", &places, "sorted"_a, "values"_a, "right"_a);
  module.def("mix", &mix, "values"_a);
  module.def("usual_lengths", &usual_lengths, "length"_a, "event"_a, "label"_a, "labels"_a, "longer_than"_a);
  module.def("delays", &delays, "edges"_a, "usual"_a, "start"_a, "delayed"_a, "end"_a, "odd"_a, "shortest"_a,
             "most"_a);
  module.def("sums_between", &sums_between, "edges"_a, "times"_a, "amounts"_a, "right"_a);
  module.def("shown_at", &shown_at, "moments"_a, "shown"_a, "times"_a);
}

}  // namespace opscope
