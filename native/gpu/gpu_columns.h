// Decodes device activity of one window into the gpu table, and into the runtime calls that become events.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "decode/columns.h"
#include "decode/window_clock.h"
#include "gpu/gpu_activity.h"
#include "log/recorder.h"
#include "log/streamed_log.h"

namespace opscope {

// Calls and work are in order of their starts.
struct DeviceColumns : DeviceTables {
  LocalNames names;
  gpu::Counts counts;
  gpu::SourceState source;
  uint64_t launched_outside = 0;    // work in the window that an outside call launched: left out
  uint64_t without_launch = 0;      // work without a known call
  uint64_t begun_later = 0;         // work without a known call that began after the window: left out
  int64_t end_without_data_ns = 0;  // length of the window's end without deliveries
};

// Input of decoding: from this process, or from notes in a file.
struct DeviceView {
  gpu::GpuLog& log;
  gpu::GraphNodes& nodes;
  gpu::DeviceClock clock;
  gpu::SourceState source;
  int8_t device_type;
  std::function<std::string(RuntimeApi api, uint32_t function)> call_name;
};

// Device activity of the window. `host`: the window's clock.
DeviceColumns decode_devices(const DeviceView& devices, const WindowFacts& window, const WindowClock& host);
// The same in this process. Call GpuActivity::collect() first.
DeviceColumns decode_gpu(GpuActivity& activity, const Window& window);
// The same for the process that wrote this log; nullopt if it recorded no devices.
std::optional<DeviceColumns> decode_noted(const StreamedLog& log);

}  // namespace opscope
