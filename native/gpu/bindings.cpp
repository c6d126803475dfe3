// What Python sees of device activity.
#include "gpu/bindings.h"

#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <string>
#include <utility>
#include <vector>

#include "gpu/gpu_columns.h"
#include "interpreter/without_gil.h"
#include "numpy/to_numpy.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace opscope {
namespace {

nb::tuple to_lists(ListColumn&& column) {
  return nb::make_tuple(to_array(std::move(column.offsets)), to_array(std::move(column.values)));
}

nb::dict calls(CallColumns&& c) {
  nb::dict table;
  table["name"] = to_array(std::move(c.name));
  table["start_ns"] = to_array(std::move(c.start_ns));
  table["duration_ns"] = to_array(std::move(c.duration_ns));
  table["system_thread_id"] = to_array(std::move(c.system_thread_id));
  table["correlation_id"] = to_array(std::move(c.correlation_id));
  table["api"] = to_array(std::move(c.api));
  table["function"] = to_array(std::move(c.function));
  table["result"] = to_array(std::move(c.result));
  return table;
}

nb::dict work(WorkColumns&& w) {
  nb::dict table;
  table["kind"] = to_array(std::move(w.kind));
  table["name"] = to_array(std::move(w.name));
  table["start_ns"] = to_array(std::move(w.start_ns));
  table["duration_ns"] = to_array(std::move(w.duration_ns));
  table["device_type"] = to_array(std::move(w.device_type));
  table["device_index"] = to_array(std::move(w.device_index));
  table["context"] = to_array(std::move(w.context));
  table["stream"] = to_array(std::move(w.stream));
  table["correlation_id"] = to_array(std::move(w.correlation_id));
  table["launch"] = to_array(std::move(w.call));
  table["size_bytes"] = to_array(std::move(w.size_bytes));
  table["registers_per_thread"] = to_array(std::move(w.registers_per_thread));
  table["shared_memory_bytes"] = to_array(std::move(w.shared_memory_bytes));
  table["queued_ns"] = to_array(std::move(w.queued_ns));
  table["submitted_ns"] = to_array(std::move(w.submitted_ns));
  table["graph"] = to_array(std::move(w.graph));
  table["graph_node"] = to_array(std::move(w.graph_node));
  table["copy_kind"] = to_array(std::move(w.copy_kind));
  table["source_memory"] = to_array(std::move(w.source_memory));
  table["destination_memory"] = to_array(std::move(w.destination_memory));
  table["peer_device"] = to_array(std::move(w.peer_device));
  table["target_device"] = to_array(std::move(w.target_device));
  table["sync_kind"] = to_array(std::move(w.sync_kind));
  table["wait_on_cuda_event_record_corr_id"] = to_array(std::move(w.wait_on_cuda_event_record_corr_id));
  table["wait_on_stream"] = to_array(std::move(w.wait_on_stream));
  table["grid"] = to_lists(std::move(w.grid));
  table["block"] = to_lists(std::move(w.block));
  return table;
}

nb::dict memory(GpuMemoryColumns&& m) {
  nb::dict table;
  table["time_ns"] = to_array(std::move(m.time_ns));
  table["action"] = to_array(std::move(m.action));
  table["device_index"] = to_array(std::move(m.device_index));
  table["memory"] = to_array(std::move(m.memory));
  table["address"] = to_array(std::move(m.address));
  table["size_bytes"] = to_array(std::move(m.size_bytes));
  table["correlation_id"] = to_array(std::move(m.correlation_id));
  table["is_pool"] = to_array(std::move(m.is_pool)).attr("view")("bool");
  return table;
}

nb::dict nodes(NodeColumns&& n) {
  nb::dict table;
  table["node"] = to_array(std::move(n.node));
  table["time_ns"] = to_array(std::move(n.time_ns));
  table["system_thread_id"] = to_array(std::move(n.system_thread_id));
  return table;
}

nb::dict overheads(OverheadColumns&& o) {
  nb::dict table;
  table["kind"] = to_array(std::move(o.kind));
  table["start_ns"] = to_array(std::move(o.start_ns));
  table["duration_ns"] = to_array(std::move(o.duration_ns));
  table["system_thread_id"] = to_array(std::move(o.system_thread_id));
  return table;
}

nb::dict counts(const GpuColumns& columns) {
  nb::dict result;
  result["recorded"] = columns.counts.recorded;
  result["over_budget"] = columns.counts.over_budget;
  result["dropped"] = columns.counts.dropped;
  result["unfinished"] = columns.counts.unfinished;
  result["unknown"] = columns.counts.unknown;
  result["noise"] = columns.counts.noise;
  result["refused_buffers"] = columns.source.refused_buffers;
  result["launched_outside"] = columns.launched_outside;
  result["without_launch"] = columns.without_launch;
  result["clock_error_ns"] = columns.source.clock_error_ns;
  return result;
}

}  // namespace

void decode_gpu_into(nb::dict& result, const Window& window) {
  if ((window.wants & kWantGpu) == 0) return;
  GpuColumns columns;
  {
    const WithoutGil without_gil;
    GpuActivity& activity = GpuActivity::instance();
    activity.collect();
    columns = decode_gpu(activity, window);
  }
  nb::dict gpu;
  gpu["counts"] = counts(columns);
  gpu["clock_is_ours"] = columns.source.clock_is_ours;
  gpu["library_path"] = columns.source.library_path;
  gpu["library_version"] = columns.source.library_version;
  gpu["missing_kinds"] = columns.source.missing_kinds;
  gpu["calls"] = calls(std::move(columns.calls));
  gpu["work"] = work(std::move(columns.work));
  gpu["nodes"] = nodes(std::move(columns.nodes));
  gpu["memory"] = memory(std::move(columns.memory));
  gpu["overheads"] = overheads(std::move(columns.overheads));
  gpu["name_offsets"] = to_array(std::move(columns.names.offsets));
  gpu["name_text"] = nb::bytes(columns.names.blob.data(), columns.names.blob.size());
  result["gpu"] = gpu;
}

void bind_gpu(nb::module_& m) {
  m.def(
      "set_gpu_candidates",
      [](std::vector<std::string> paths) { GpuActivity::instance().set_candidates(std::move(paths)); },
      "paths"_a);
  m.def(
      "set_gpu_budget",
      [](size_t buffer_bytes, size_t log_bytes) {
        GpuActivity::instance().set_budget(buffer_bytes, log_bytes);
      },
      "buffer_bytes"_a, "log_bytes"_a);
  m.def(
      "pause_gpu",
      [](bool paused) {
        const WithoutGil without_gil;
        return GpuActivity::instance().pause(paused);
      },
      "paused"_a);
  // Returns why device activity cannot be collected; empty if it can, or if no window wants it.
  m.def(
      "configure_gpu",
      [](bool may_share) {
        const WithoutGil without_gil;
        return GpuActivity::instance().configure(Recorder::instance().wanted(), may_share);
      },
      "may_share"_a = false);
  m.def("gpu_is_wanted", [] { return (Recorder::instance().wanted() & kWantGpu) != 0; });
}

}  // namespace opscope
