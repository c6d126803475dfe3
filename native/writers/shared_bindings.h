// Common part of the writers' bindings: passes blocks of text to Python.
#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

#include <utility>

#include "interpreter/without_gil.h"
#include "numpy/from_numpy.h"
#include "writers/text_buffer.h"

namespace opscope::writers {

nb::object to_array(TextBuffer&& text);

// The next block from `writer`, None after the last.
template <class Writer>
nb::object next_block_of(Writer& writer, size_t bytes) {
  TextBuffer text(bytes + bytes / 64);  // rows are complete, so a block is slightly longer
  bool more = false;
  {
    const WithoutGil without_gil;
    more = writer.write(text, bytes);
  }
  return more ? to_array(std::move(text)) : nb::none();
}

}  // namespace opscope::writers
