// Columns that Python hands over as NumPy arrays, checked once, so that what reads them need not.
#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

#include <string>
#include <utility>

#include "numpy/column_view.h"

namespace opscope {

namespace nb = nanobind;

// What a column is called; for the time of the call that gets it.
struct ColumnName {
  ColumnName(const char* name) : text(name) {}
  ColumnName(const std::string& name) : text(name.c_str()) {}

  std::string with(const char* ending) const { return std::string(text) + ending; }

  const char* text;
};

// Columns by name, such as "events.start_ns". Keeps the arrays alive for as long as it lives.
class NumpyColumns {
 public:
  explicit NumpyColumns(nb::dict arrays) : arrays_(std::move(arrays)) {}

  // Must have `rows` elements. An array that is not given is an empty column if `rows` is 0.
  template <class T>
  ColumnView<T> get(ColumnName name, size_t rows) const {
    return as<T>(of_length(name, nb::dtype<T>(), rows));
  }

  // Of any length, empty if not given.
  template <class T>
  ColumnView<T> any(ColumnName name) const {
    return as<T>(of_any_length(name, nb::dtype<T>()));
  }

  // `rows` elements, or not given.
  template <class T>
  ColumnView<T> optional(ColumnName name, size_t rows) const {
    return arrays_.contains(name.text) ? get<T>(name, rows) : ColumnView<T>{};
  }

  // Of any length; every element a number in [lowest, count), as whoever reads them indexes with them
  // unchecked.
  template <class T>
  ColumnView<T> indices(ColumnName name, size_t count, int64_t lowest = 0) const {
    return checked(name, any<T>(name), count, lowest);
  }

  // The same with `rows` elements, -1 standing for none where `lowest` is.
  template <class T>
  ColumnView<T> indices(ColumnName name, size_t rows, size_t count, int64_t lowest) const {
    return checked(name, get<T>(name, rows), count, lowest);
  }

  // A ragged column of `rows` rows. Its offsets are checked when they are used.
  ListView list(ColumnName name, size_t rows) const;

  // Which of `children` rows are whose of `parents`; may be left out, and all of them have none then.
  Rows rows(ColumnName name, size_t parents, size_t children) const;

  // A table of text: the offsets of name i and of the one after it in `bytes`.
  std::pair<ColumnView<int64_t>, ColumnView<uint8_t>> texts(ColumnName name) const;

 private:
  // A column of a type that is known where it is used: what reads arrays is compiled once.
  struct Untyped {
    const void* data = nullptr;
    ptrdiff_t stride = 1;
    size_t size = 0;
  };
  Untyped of_any_length(ColumnName name, nb::dlpack::dtype dtype) const;
  Untyped of_length(ColumnName name, nb::dlpack::dtype dtype, size_t rows) const;

  template <class T>
  static ColumnView<T> as(const Untyped& column) {
    return {static_cast<const T*>(column.data), column.stride, column.size};
  }

  [[noreturn]] static void fail(ColumnName name, const char* what);

  template <class T>
  static ColumnView<T> checked(ColumnName name, ColumnView<T> column, size_t count, int64_t lowest) {
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
