// Columns that Python hands to a writer, and blocks that a writer hands to Python.
#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

#include <string>
#include <utility>

#include "chrome_arguments.h"
#include "column.h"
#include "text_buffer.h"

namespace opscope::writers {

namespace nb = nanobind;

// Columns by name, such as "events.start_ns". Keeps the arrays alive for as long as it lives.
class PythonColumns {
 public:
  explicit PythonColumns(nb::dict arrays) : arrays_(std::move(arrays)) {}

  // Must have `rows` elements. An array that is not given is an empty column if `rows` is 0.
  template <class T>
  Column<T> get(const std::string& name, size_t rows) const {
    Column<T> column = any<T>(name);
    if (column.size == rows) return column;
    throw nb::value_error(
        ("column " + name + " has " + std::to_string(column.size) + " rows, expected " + std::to_string(rows))
            .c_str());
  }

  // Of any length, empty if not given.
  template <class T>
  Column<T> any(const std::string& name) const {
    if (!arrays_.contains(name.c_str())) return {};
    nb::ndarray<const T, nb::ndim<1>, nb::device::cpu> array;
    if (!nb::try_cast(arrays_[name.c_str()], array, false)) {
      throw nb::type_error(("column " + name + " has the wrong dtype or shape").c_str());
    }
    return {array.data(), array.stride(0), array.size()};
  }

  ListColumn list(const std::string& name) const {
    return {any<int64_t>(name + ".offsets"), any<int64_t>(name + ".values")};
  }
  Rows rows(const std::string& name) const { return {any<int64_t>(name)}; }

 private:
  nb::dict arrays_;
};

ChromeTensors read_tensors(const PythonColumns& columns);
ChromeScalars read_scalars(const PythonColumns& columns);

using Block = nb::ndarray<nb::numpy, uint8_t, nb::ndim<1>>;

Block to_array(TextBuffer&& text);

// The next block of what `writer` writes, None after the last.
template <class Writer>
nb::object next_block_of(Writer& writer, size_t bytes) {
  TextBuffer text(bytes + bytes / 64);  // rows are whole, so a block ends a little late
  bool more = false;
  {
    nb::gil_scoped_release release;
    more = writer.write(text, bytes);
  }
  return more ? nb::cast(to_array(std::move(text))) : nb::none();
}

}  // namespace opscope::writers
