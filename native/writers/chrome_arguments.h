// Arguments of an operator: the four parallel lists of a Chrome trace.
//
//     "Concrete Inputs": ["", "1"], "Input type": ["float", "Scalar"],
//     "Input Strides": [[4, 1], []], "Input Dims": [[2, 4], []]
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "numpy/column_source.h"
#include "writers/json_escape.h"
#include "writers/text_buffer.h"

namespace opscope::writers {

// Columns of columns/schema.py. `rows`: rows of each event, in order of argument, then element.
struct ChromeTensors : TableColumns {
  ChromeTensors(const ColumnSource& from, size_t events)
      : TableColumns(from, "tensors", from.any<int16_t>("tensors.argument").size),
        rows(from.rows("tensors.rows", events, size())) {}

  Rows rows;
  ColumnView<int16_t> argument = column("argument");
  ColumnView<int32_t> element = column("element");
  ColumnView<uint8_t> role = column("role");
  ColumnView<int8_t> dtype = column("dtype");
  ListView sizes = column("sizes");
  ListView strides = column("strides");
};

struct ChromeScalars : TableColumns {
  ChromeScalars(const ColumnSource& from, size_t events)
      : TableColumns(from, "scalars", from.any<int16_t>("scalars.argument").size),
        rows(from.rows("scalars.rows", events, size())) {}

  Rows rows;
  ColumnView<int16_t> argument = column("argument");
  ColumnView<uint8_t> role = column("role");
  ColumnView<uint8_t> type = column("type");
  ColumnView<int32_t> value = column("value");
};

class ArgumentWriter {
 public:
  // All parameters must outlive this. dtype_names: name of each c10::ScalarType, by number.
  ArgumentWriter(const ChromeTensors& tensors, const ChromeScalars& scalars,
                 const std::vector<std::string>& dtype_names, const EscapedNames& names)
      : tensors_(tensors), scalars_(scalars), dtype_names_(dtype_names), names_(names) {}

  // Appends the lists, each with a leading comma; nothing if the event has no recorded inputs.
  void write(TextBuffer& out, size_t event);

 private:
  struct Argument {
    enum Kind : uint8_t { kMissing, kTensor, kTensorList, kScalar };
    Kind kind = kMissing;
    size_t begin = 0;  // rows of tensors, or one row of scalars
    size_t end = 0;
  };

  void collect(size_t event);
  void place(int16_t position, Argument argument);
  void write_value(TextBuffer& out, const Argument& argument) const;
  void write_type(TextBuffer& out, const Argument& argument) const;
  void write_lists(TextBuffer& out, const Argument& argument, const ListView& lists) const;

  const ChromeTensors& tensors_;
  const ChromeScalars& scalars_;
  const std::vector<std::string>& dtype_names_;
  const EscapedNames& names_;
  std::vector<Argument> arguments_;  // of the current event
};

}  // namespace opscope::writers
