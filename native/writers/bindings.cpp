// What Python sees of the writers, but for Perfetto's: that is in perfetto_binding.cpp.
#include "writers/bindings.h"

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <memory>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "interpreter/without_gil.h"
#include "writers/chrome_json.h"
#include "writers/lanes.h"
#include "writers/shared_bindings.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace opscope {
namespace writers {

ChromeTensors read_tensors(const NumpyColumns& columns, size_t events) {
  const size_t n = columns.any<int16_t>("tensors.argument").size;
  return {
      .rows = columns.rows("tensors.rows", events, n),
      .argument = columns.get<int16_t>("tensors.argument", n),
      .element = columns.get<int32_t>("tensors.element", n),
      .role = columns.get<uint8_t>("tensors.role", n),
      .dtype = columns.get<int8_t>("tensors.dtype", n),
      .sizes = columns.list("tensors.sizes", n),
      .strides = columns.list("tensors.strides", n),
  };
}

ChromeScalars read_scalars(const NumpyColumns& columns, size_t events) {
  const size_t n = columns.any<int16_t>("scalars.argument").size;
  return {
      .rows = columns.rows("scalars.rows", events, n),
      .argument = columns.get<int16_t>("scalars.argument", n),
      .role = columns.get<uint8_t>("scalars.role", n),
      .type = columns.get<uint8_t>("scalars.type", n),
      .value = columns.get<int32_t>("scalars.value", n),
  };
}

Block to_array(TextBuffer&& text) {
  const size_t size = text.size();
  char* const data = text.release().release();
  nb::capsule owner(data, [](void* p) noexcept { delete[] static_cast<char*>(p); });
  return Block(data, {size}, owner);
}

namespace {

ChromeEvents read_events(const NumpyColumns& columns, size_t tracks) {
  const size_t n = columns.any<int64_t>("events.start_ns").size;
  return {
      .order = columns.indices<int32_t>("events.order", n),
      .track = columns.indices<int32_t>("events.track", n, tracks, 0),
      .name = columns.get<int32_t>("events.name", n),
      .overload = columns.get<int32_t>("events.overload", n),
      .parent = columns.indices<int32_t>("events.parent", n, n, -1),
      .kind = columns.get<uint8_t>("events.kind", n),
      .start_ns = columns.get<int64_t>("events.start_ns", n),
      .duration_ns = columns.get<int64_t>("events.duration_ns", n),
      .sequence_number = columns.get<int64_t>("events.sequence_number", n),
      .forward_thread = columns.get<int32_t>("events.forward_thread", n),
      .record_function_id = columns.optional<int64_t>("events.record_function_id", n),
      .unfinished = columns.get<bool>("events.unfinished", n),
      .correlation_id = columns.optional<int64_t>("events.correlation_id", n),
      .function = columns.optional<int32_t>("events.function", n),
      .category = columns.optional<int32_t>("events.category", n),
  };
}

ChromeAllocations read_allocations(const NumpyColumns& columns, size_t tracks) {
  const size_t n = columns.any<int64_t>("allocations.time_ns").size;
  return {
      .track = columns.indices<int32_t>("allocations.track", n, tracks, 0),
      .action = columns.get<uint8_t>("allocations.action", n),
      .time_ns = columns.get<int64_t>("allocations.time_ns", n),
      .address = columns.get<uint64_t>("allocations.address", n),
      .size_bytes = columns.get<int64_t>("allocations.size_bytes", n),
      .total_allocated_bytes = columns.get<int64_t>("allocations.total_allocated_bytes", n),
      .total_reserved_bytes = columns.get<int64_t>("allocations.total_reserved_bytes", n),
      .device_type = columns.get<int8_t>("allocations.device_type", n),
      .device_index = columns.get<int8_t>("allocations.device_index", n),
  };
}

ChromeGpu read_gpu(const NumpyColumns& columns, size_t tracks, size_t events) {
  const size_t n = columns.any<int64_t>("gpu.start_ns").size;
  return {
      .track = columns.indices<int32_t>("gpu.track", n, tracks, 0),
      .kind = columns.get<uint8_t>("gpu.kind", n),
      .name = columns.get<int32_t>("gpu.name", n),
      .start_ns = columns.get<int64_t>("gpu.start_ns", n),
      .duration_ns = columns.get<int64_t>("gpu.duration_ns", n),
      .device_index = columns.get<int8_t>("gpu.device_index", n),
      .context = columns.get<int32_t>("gpu.context", n),
      .stream = columns.get<int32_t>("gpu.stream", n),
      .correlation_id = columns.get<int64_t>("gpu.correlation_id", n),
      .launch = columns.indices<int32_t>("gpu.launch", n, events, -1),
      .size_bytes = columns.get<int64_t>("gpu.size_bytes", n),
      .grid = columns.list("gpu.grid", n),
      .block = columns.list("gpu.block", n),
      .registers_per_thread = columns.get<int32_t>("gpu.registers_per_thread", n),
      .shared_memory_bytes = columns.get<int32_t>("gpu.shared_memory_bytes", n),
      .queued_ns = columns.get<int64_t>("gpu.queued_ns", n),
      .graph = columns.get<int64_t>("gpu.graph", n),
      .graph_node = columns.get<int64_t>("gpu.graph_node", n),
      .peer_device = columns.get<int8_t>("gpu.peer_device", n),
      .target_device = columns.get<int8_t>("gpu.target_device", n),
      .wait_on_cuda_event_record_corr_id = columns.get<int64_t>("gpu.wait_on_cuda_event_record_corr_id", n),
      .wait_on_stream = columns.get<int32_t>("gpu.wait_on_stream", n),
      .blocks_per_sm = columns.optional<int64_t>("gpu.blocks_per_sm", n),
      .warps_per_sm = columns.optional<int64_t>("gpu.warps_per_sm", n),
      .occupancy_percent = columns.optional<int64_t>("gpu.occupancy_percent", n),
      .category = columns.optional<int32_t>("gpu.category", n),
      .collective = columns.indices<int32_t>("gpu.collective", events, -1),
  };
}

ChromeTrace read_trace(const NumpyColumns& columns, size_t tracks, size_t fragments) {
  ChromeTrace trace;
  std::tie(trace.name_offsets, trace.name_bytes) = columns.texts("names");
  trace.events = read_events(columns, tracks);
  const size_t events = trace.events.start_ns.size;
  trace.tensors = read_tensors(columns, events);
  trace.scalars = read_scalars(columns, events);
  trace.extras.fragment = columns.indices<int32_t>("extras.fragment", fragments);
  trace.extras.rows = columns.rows("extras.rows", events, trace.extras.fragment.size);
  trace.flows.id = columns.any<int64_t>("flows.id");
  trace.flows.end = columns.get<uint8_t>("flows.end", trace.flows.id.size);
  trace.flows.rows = columns.rows("flows.rows", events, trace.flows.id.size);
  trace.allocations = read_allocations(columns, tracks);
  trace.gpu = read_gpu(columns, tracks, events);
  return trace;
}

// A ChromeWriter and the arrays it reads.
class PyChromeWriter {
 public:
  PyChromeWriter(nb::dict arrays, std::vector<std::string> tracks, std::vector<std::string> fragments,
                 std::vector<std::string> dtype_names, std::string header, std::string footer,
                 int64_t base_ns)
      : columns_(std::move(arrays)) {
    ChromeTrace trace = read_trace(columns_, tracks.size(), fragments.size());
    trace.tracks = std::move(tracks);
    trace.fragments = std::move(fragments);
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

nb::object place_on_lanes(nb::dict arrays, size_t tracks) {
  const NumpyColumns columns(std::move(arrays));
  const size_t n = columns.any<int64_t>("start_ns").size;
  const LaneInput input{
      .track = columns.indices<int32_t>("track", n, tracks, 0),
      .start_ns = columns.get<int64_t>("start_ns", n),
      .duration_ns = columns.get<int64_t>("duration_ns", n),
      .yields = columns.get<uint8_t>("yields", n),
      .order = columns.indices<int32_t>("order", n),
  };
  auto lanes = std::make_unique<std::vector<int32_t>>();
  {
    const WithoutGil without_gil;
    *lanes = assign_lanes(input);
  }
  if (lanes->empty()) return nb::none();
  auto* const data = lanes->data();
  const size_t size = lanes->size();
  nb::capsule owner(lanes.release(), [](void* p) noexcept { delete static_cast<std::vector<int32_t>*>(p); });
  return nb::cast(nb::ndarray<nb::numpy, int32_t, nb::ndim<1>>(data, {size}, owner));
}

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
  bind_perfetto(m);
  bind_execution_trace(m);
  m.def("assign_lanes", &writers::place_on_lanes, "columns"_a, nb::kw_only(), "tracks"_a);
}

}  // namespace opscope
