// Columns that Python hands over as NumPy arrays, checked once, so that what reads them need not.
#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

#include <string>
#include <utility>

#include "numpy/column_view.h"

namespace opscope {

namespace nb = nanobind;

// Columns by name, such as "events.start_ns". Keeps the arrays alive for as long as it lives.
class NumpyColumns {
 public:
  explicit NumpyColumns(nb::dict arrays) : arrays_(std::move(arrays)) {}

  // Must have `rows` elements. An array that is not given is an empty column if `rows` is 0.
  template <class T>
  ColumnView<T> get(const std::string& name, size_t rows) const {
    ColumnView<T> column = any<T>(name);
    if (column.size == rows) return column;
    throw nb::value_error(
        ("column " + name + " has " + std::to_string(column.size) + " rows, expected " + std::to_string(rows))
            .c_str());
  }

  // Of any length, empty if not given.
  template <class T>
  ColumnView<T> any(const std::string& name) const {
    if (!arrays_.contains(name.c_str())) return {};
    nb::ndarray<const T, nb::ndim<1>, nb::device::cpu> array;
    if (!nb::try_cast(arrays_[name.c_str()], array, false)) {
      throw nb::type_error(("column " + name + " has the wrong dtype or shape").c_str());
    }
    return {array.data(), array.stride(0), array.size()};
  }

  // `rows` elements, or not given.
  template <class T>
  ColumnView<T> optional(const std::string& name, size_t rows) const {
    return arrays_.contains(name.c_str()) ? get<T>(name, rows) : ColumnView<T>{};
  }

  // Of any length; every element a number in [lowest, count), as whoever reads them indexes with them
  // unchecked.
  template <class T>
  ColumnView<T> indices(const std::string& name, size_t count, int64_t lowest = 0) const {
    return checked(name, any<T>(name), count, lowest);
  }

  // The same with `rows` elements, -1 standing for none where `lowest` is.
  template <class T>
  ColumnView<T> indices(const std::string& name, size_t rows, size_t count, int64_t lowest) const {
    return checked(name, get<T>(name, rows), count, lowest);
  }

  // A ragged column of `rows` rows. Its offsets are checked when they are used.
  ListView list(const std::string& name, size_t rows) const {
    const ListView lists{any<int64_t>(name + ".offsets"), any<int64_t>(name + ".values")};
    if (lists.offsets.size != rows + 1 && lists.offsets.size != 0)
      fail(name + ".offsets", "the wrong length");
    if (lists.values.size > 1 && lists.values.stride != 1) fail(name + ".values", "gaps between its values");
    return lists;
  }

  // Which of `children` rows are whose of `parents`; may be left out, and all of them have none then.
  Rows rows(const std::string& name, size_t parents, size_t children) const {
    const Rows rows{optional<int64_t>(name, parents + 1)};
    int64_t before = 0;
    for (size_t i = 0; i < rows.offsets.size; ++i) {
      const int64_t offset = rows.offsets[i];
      if (offset < before || static_cast<size_t>(offset) > children) fail(name, "offsets out of order");
      before = offset;
    }
    return rows;
  }

  // A table of text: the offsets of name i and of the one after it in `bytes`.
  std::pair<ColumnView<int64_t>, ColumnView<uint8_t>> texts(const std::string& name) const {
    const auto bytes = any<uint8_t>(name + ".bytes");
    if (bytes.size > 1 && bytes.stride != 1) fail(name + ".bytes", "gaps between its bytes");
    const size_t offsets = any<int64_t>(name + ".offsets").size;
    if (offsets == 0) return {{}, bytes};
    return {rows(name + ".offsets", offsets - 1, bytes.size).offsets, bytes};
  }

 private:
  [[noreturn]] static void fail(const std::string& name, const char* what) {
    throw nb::value_error(("column " + name + " has " + what).c_str());
  }

  template <class T>
  static ColumnView<T> checked(const std::string& name, ColumnView<T> column, size_t count, int64_t lowest) {
    const auto most = static_cast<int64_t>(count);
    bool sound = true;
    for (size_t i = 0; i < column.size; ++i) {
      const auto value = static_cast<int64_t>(column[i]);
      sound &= value >= lowest && value < most;
      if (column.stride == 0) break;  // one value for all
    }
    if (!sound) fail(name, "numbers of rows that are not there");
    return column;
  }

  nb::dict arrays_;
};

}  // namespace opscope
