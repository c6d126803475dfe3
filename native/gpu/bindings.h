#pragma once

#include <nanobind/nanobind.h>

#include <cstdint>

namespace opscope {

class StreamedLog;
struct Window;

// Decodes the window's device activity, if wanted, into `result["gpu"]`.
void decode_gpu_into(nanobind::dict& result, const Window& window);
// The same for the device activity in the file.
void decode_noted_into(nanobind::dict& result, const StreamedLog& log);

}  // namespace opscope
