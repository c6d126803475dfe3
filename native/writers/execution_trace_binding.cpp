// Python bindings of the execution trace writer.
#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/unordered_map.h>
#include <nanobind/stl/vector.h>

#include <memory>
#include <string>
#include <tuple>
#include <unordered_map>
#include <utility>
#include <vector>

#include "writers/execution_trace.h"
#include "writers/shared_bindings.h"

using namespace nanobind::literals;

namespace opscope {
namespace writers {
namespace {

using Texts = std::vector<std::string>;
using Kernels = std::vector<std::tuple<std::string, std::string, std::string>>;
using SchemaSizes = std::vector<std::tuple<size_t, size_t>>;
using NestedRows = std::unordered_map<int32_t, std::tuple<Texts, Texts, Texts>>;

// An ExecutionTraceWriter and the arrays it reads.
class PyExecutionTraceWriter {
 public:
  void begin(nb::dict arrays, Texts schemas, const SchemaSizes& schema_sizes, const Kernels& kernels,
             Texts fragments, NestedRows nested, Texts dtype_names, std::vector<int64_t> itemsizes,
             Texts device_names, int64_t base_ns, bool has_times) {
    auto columns = std::make_unique<NumpyColumns>(std::move(arrays));
    std::vector<SchemaSize> sizes;
    for (const auto& [inputs, outputs] : schema_sizes) sizes.push_back({inputs, outputs});
    std::vector<KernelText> kernel_texts;
    for (const auto& [backend, file, stream] : kernels) kernel_texts.push_back({backend, file, stream});
    NodeTrace trace(*columns, std::move(schemas), std::move(sizes), std::move(kernel_texts),
                    std::move(fragments));
    trace.names = {std::move(dtype_names), std::move(itemsizes), std::move(device_names), {}};
    for (auto& [name, texts] : nested) {
      auto& [values, shapes, types] = texts;
      trace.names.nested[name] = {std::move(values), std::move(shapes), std::move(types)};
    }
    trace.base_ns = base_ns;
    trace.has_times = has_times;
    writer_.begin(std::move(trace));
    columns_ = std::move(columns);
  }

  nb::object next_block(size_t bytes) { return next_block_of(writer_, bytes); }
  size_t rows_written() const { return writer_.rows_written(); }

 private:
  std::unique_ptr<NumpyColumns> columns_;
  ExecutionTraceWriter writer_;
};

}  // namespace
}  // namespace writers

void bind_execution_trace(nanobind::module_& m) {
  using writers::PyExecutionTraceWriter;
  nanobind::class_<PyExecutionTraceWriter>(m, "ExecutionTraceWriter")
      .def(nanobind::init<>())
      .def("begin", &PyExecutionTraceWriter::begin, "columns"_a, nanobind::kw_only(), "schemas"_a,
           "schema_sizes"_a, "kernels"_a, "fragments"_a, "nested"_a, "dtype_names"_a, "itemsizes"_a,
           "device_names"_a, "base_ns"_a, "has_times"_a)
      .def("next_block", &PyExecutionTraceWriter::next_block, "size"_a)
      .def_prop_ro("rows_written", &PyExecutionTraceWriter::rows_written);
}

}  // namespace opscope
