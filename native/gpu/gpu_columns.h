// Decoding what devices did in one window: into the gpu table, and into the runtime calls that become
// events.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "decode/columns.h"
#include "gpu/gpu_activity.h"
#include "log/recorder.h"

namespace opscope {

// Calls and work are in order of start.
struct DeviceColumns : DeviceTables {
  LocalNames names;
  gpu::Counts counts;
  gpu::SourceState source;
  uint64_t launched_outside = 0;  // work in the window that a call outside it launched: left out
  uint64_t without_launch = 0;    // work whose call was not seen
  uint64_t begun_later = 0;       // work whose call was not seen, after the window: left out
};

// What the window saw of the device. Call GpuActivity::collect() first.
DeviceColumns decode_gpu(GpuActivity& activity, const Window& window);

}  // namespace opscope
