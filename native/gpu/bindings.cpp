// Python bindings of device activity.
#include "gpu/bindings.h"

#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <optional>
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

nb::dict account(const DeviceColumns& columns) {
  nb::dict account;
  account["recorded"] = columns.counts.recorded;
  account["over_budget"] = columns.counts.over_budget;
  account["dropped"] = columns.counts.dropped;
  account["unfinished"] = columns.counts.unfinished;
  account["unknown"] = columns.counts.unknown;
  account["noise"] = columns.counts.noise;
  account["refused_buffers"] = columns.source.refused_buffers;
  account["launched_outside"] = columns.launched_outside;
  account["without_launch"] = columns.without_launch;
  account["begun_later"] = columns.begun_later;
  account["clock_error_ns"] = columns.source.clock_error_ns;
  account["end_without_data_ns"] = columns.end_without_data_ns;
  account["clock_is_ours"] = columns.source.clock_is_ours;
  account["library_name"] = columns.source.library_name;
  account["library_path"] = columns.source.library_path;
  account["library_version"] = columns.source.library_version;
  account["missing_kinds"] = columns.source.missing_kinds;
  return account;
}

nb::dict to_devices(DeviceColumns columns) {
  nb::dict devices;
  devices["account"] = account(columns);
  devices["tables"] = to_tables(static_cast<DeviceTables&&>(columns));
  devices["name_offsets"] = to_array(std::move(columns.names.offsets));
  devices["name_text"] = nb::bytes(columns.names.blob.data(), columns.names.blob.size());
  return devices;
}

}  // namespace

void decode_gpu_into(nb::dict& result, const Window& window) {
  result["devices"] = nb::none();
  if ((window.wants & kWantGpu) == 0) return;
  DeviceColumns columns;
  {
    const WithoutGil without_gil;
    GpuActivity& activity = GpuActivity::instance();
    activity.collect();
    columns = decode_gpu(activity, window);
  }
  result["devices"] = to_devices(std::move(columns));
}

void decode_noted_into(nb::dict& result, const StreamedLog& log) {
  result["devices"] = nb::none();
  if ((log.view().window.wants & kWantGpu) == 0) return;
  std::optional<DeviceColumns> columns;
  {
    const WithoutGil without_gil;
    columns = decode_noted(log);
  }
  if (columns) result["devices"] = to_devices(std::move(*columns));
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
  // Returns the reason why device activity cannot be collected; empty if it can, or if no window wants it.
  m.def(
      "configure_gpu",
      [](bool may_share, uint32_t also) {
        const WithoutGil without_gil;
        return GpuActivity::instance().configure(Recorder::instance().wanted() | also, may_share);
      },
      "may_share"_a = false, "also"_a = 0);
  // Writes device activity up to now to the stream's file.
  m.def("note_devices", [] {
    const WithoutGil without_gil;
    GpuActivity::instance().note(/*all=*/true);
  });
  m.def("end_noting_devices", [] {
    const WithoutGil without_gil;
    GpuActivity::instance().stop_notes();
  });
  m.def("gpu_is_wanted", [] { return (Recorder::instance().wanted() & kWantGpu) != 0; });
}

}  // namespace opscope
