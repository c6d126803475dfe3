// Python bindings of the writers, except Perfetto's (perfetto_binding.cpp).
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <memory>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "numpy/to_numpy.h"
#include "writers/chrome_json.h"
#include "writers/shared_bindings.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace opscope {
namespace writers {

nb::object to_array(TextBuffer&& text) {
  const size_t size = text.size();
  char* const data = text.release().release();
  return array_of(data, size, nb::dtype<uint8_t>(), data,
                  [](void* p) noexcept { delete[] static_cast<char*>(p); });
}

namespace {

class PyChromeWriter {
 public:
  PyChromeWriter(nb::dict arrays, std::vector<std::string> tracks, std::vector<std::string> fragments,
                 std::vector<std::string> dtype_names, std::string header, std::string footer,
                 int64_t base_ns)
      : columns_(std::move(arrays)) {
    ChromeTrace trace(columns_, std::move(tracks), std::move(fragments));
    trace.dtype_names = std::move(dtype_names);
    trace.header = std::move(header);
    trace.footer = std::move(footer);
    trace.base_ns = base_ns;
    writer_ = std::make_unique<ChromeWriter>(std::move(trace));
  }

  nb::object next_block(size_t bytes) { return next_block_of(*writer_, bytes); }
  size_t rows_written() const { return writer_->rows_written(); }

 private:
  NumpyColumns columns_;
  std::unique_ptr<ChromeWriter> writer_;
};

}  // namespace
}  // namespace writers

void bind_writers(nb::module_& m) {
  using writers::PyChromeWriter;
  using Texts = std::vector<std::string>;
  nb::class_<PyChromeWriter>(m, "ChromeWriter")
      .def(nb::init<nb::dict, Texts, Texts, Texts, std::string, std::string, int64_t>(), "columns"_a,
           nb::kw_only(), "tracks"_a, "fragments"_a, "dtype_names"_a, "header"_a, "footer"_a, "base_ns"_a)
      .def("next_block", &PyChromeWriter::next_block, "size"_a, nb::lock_self())
      .def_prop_ro("rows_written", &PyChromeWriter::rows_written, nb::lock_self());
}

}  // namespace opscope
