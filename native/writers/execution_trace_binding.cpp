// What Python sees of the execution trace writer.
#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/unordered_map.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
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

NodeEvents read_events(const NumpyColumns& columns, size_t schemas, size_t kernels) {
  const size_t n = columns.any<int64_t>("events.start_ns").size;
  return {
      .thread = columns.get<int32_t>("events.thread", n),
      .parent = columns.indices<int32_t>("events.parent", n, n, -1),
      .name = columns.get<int32_t>("events.name", n),
      .schema = columns.indices<int32_t>("events.schema", n, schemas, -1),
      .kernel = columns.indices<int32_t>("events.kernel", n, kernels, -1),
      .forward_thread = columns.get<int32_t>("events.forward_thread", n),
      .launch_thread = columns.get<int32_t>("events.launch_thread", n),
      .kind = columns.get<uint8_t>("events.kind", n),
      .scope = columns.get<uint8_t>("events.scope", n),
      .start_ns = columns.get<int64_t>("events.start_ns", n),
      .duration_ns = columns.get<int64_t>("events.duration_ns", n),
      .self_ns = columns.get<int64_t>("events.self_ns", n),
      .sequence_number = columns.get<int64_t>("events.sequence_number", n),
      .record_function_id = columns.get<int64_t>("events.record_function_id", n),
  };
}

// `rows` of a table as those of `events` events, in the order of an index if there is one.
RowsOfEvents read_rows(const NumpyColumns& columns, const std::string& name, size_t events, size_t rows) {
  const auto index = columns.indices<int32_t>(name + ".index", rows);
  return {columns.rows(name + ".rows", events, index.empty() ? rows : index.size), index};
}

ValueTensors read_value_tensors(const NumpyColumns& columns, size_t events) {
  const size_t n = columns.any<int16_t>("tensors.argument").size;
  return {
      .inputs = read_rows(columns, "tensors.inputs", events, n),
      .outputs = read_rows(columns, "tensors.outputs", events, n),
      .argument = columns.get<int16_t>("tensors.argument", n),
      .element = columns.get<int32_t>("tensors.element", n),
      .role = columns.get<uint8_t>("tensors.role", n),
      .dtype = columns.get<int8_t>("tensors.dtype", n),
      .unsized_dtype = columns.get<int8_t>("tensors.unsized_dtype", n),
      .device_type = columns.get<int8_t>("tensors.device_type", n),
      .device_index = columns.get<int8_t>("tensors.device_index", n),
      .layout = columns.get<int8_t>("tensors.layout", n),
      .impl = columns.get<uint64_t>("tensors.impl", n),
      .storage = columns.get<uint64_t>("tensors.storage", n),
      .storage_impl = columns.get<uint64_t>("tensors.storage_impl", n),
      .storage_offset = columns.get<int64_t>("tensors.storage_offset", n),
      .tensor_id = columns.get<int64_t>("tensors.tensor_id", n),
      .allocation_id = columns.get<int64_t>("tensors.allocation_id", n),
      .sizes = columns.list("tensors.sizes", n),
      .strides = columns.list("tensors.strides", n),
  };
}

ValueScalars read_value_scalars(const NumpyColumns& columns, size_t events) {
  const size_t n = columns.any<int16_t>("scalars.argument").size;
  return {
      .inputs = read_rows(columns, "scalars.inputs", events, n),
      .outputs = read_rows(columns, "scalars.outputs", events, n),
      .argument = columns.get<int16_t>("scalars.argument", n),
      .type = columns.get<uint8_t>("scalars.type", n),
      .value = columns.get<int32_t>("scalars.value", n),
  };
}

NodeExtras read_extras(const NumpyColumns& columns, const std::string& name, size_t rows, size_t fragments) {
  const auto fragment = columns.indices<int32_t>(name + ".fragment", fragments);
  return {columns.rows(name + ".rows", rows, fragment.size), fragment};
}

// An ExecutionTraceWriter and the arrays it reads.
class PyExecutionTraceWriter {
 public:
  void begin(nb::dict arrays, Texts schemas, const SchemaSizes& schema_sizes, const Kernels& kernels,
             Texts fragments, NestedRows nested, Texts dtype_names, std::vector<int64_t> itemsizes,
             Texts device_names, int64_t base_ns, bool has_times) {
    auto columns = std::make_unique<NumpyColumns>(std::move(arrays));
    NodeTrace trace;
    std::tie(trace.name_offsets, trace.name_bytes) = columns->texts("names");
    trace.events = read_events(*columns, std::min(schemas.size(), schema_sizes.size()), kernels.size());
    const size_t events = trace.events.start_ns.size;
    trace.thread_numbers = columns->any<int64_t>("threads.number");
    trace.tensors = read_value_tensors(*columns, events);
    trace.scalars = read_value_scalars(*columns, events);
    trace.names = {std::move(dtype_names), std::move(itemsizes), std::move(device_names), {}};
    for (auto& [name, texts] : nested) {
      auto& [values, shapes, types] = texts;
      trace.names.nested[name] = {std::move(values), std::move(shapes), std::move(types)};
    }
    trace.extras = read_extras(*columns, "extras", events, fragments.size());
    trace.schemas = std::move(schemas);
    for (const auto& [inputs, outputs] : schema_sizes) trace.schema_sizes.push_back({inputs, outputs});
    for (const auto& [backend, file, stream] : kernels) trace.kernels.push_back({backend, file, stream});
    trace.fragments = std::move(fragments);
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
