// What the bindings of several writers need: inputs of events, and blocks of text handed to Python.
#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

#include <utility>

#include "interpreter/without_gil.h"
#include "numpy/from_numpy.h"
#include "writers/chrome_arguments.h"
#include "writers/text_buffer.h"

namespace opscope {

void bind_perfetto(nanobind::module_& m);
void bind_execution_trace(nanobind::module_& m);

}  // namespace opscope

namespace opscope::writers {

// Inputs of `events` events.
ChromeTensors read_tensors(const NumpyColumns& columns, size_t events);
ChromeScalars read_scalars(const NumpyColumns& columns, size_t events);

using Block = nb::ndarray<nb::numpy, uint8_t, nb::ndim<1>>;

Block to_array(TextBuffer&& text);

// The next block of what `writer` writes, None after the last.
template <class Writer>
nb::object next_block_of(Writer& writer, size_t bytes) {
  TextBuffer text(bytes + bytes / 64);  // rows are whole, so a block ends a little late
  bool more = false;
  {
    const WithoutGil without_gil;
    more = writer.write(text, bytes);
  }
  return more ? nb::cast(to_array(std::move(text))) : nb::none();
}

}  // namespace opscope::writers
