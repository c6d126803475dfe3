#pragma once

#include <nanobind/nanobind.h>

#include <cstdint>

namespace opscope {

class StreamedLog;
struct Window;

// Decodes the window's device activity, if it wanted any, into `result["gpu"]`.
void decode_gpu_into(nanobind::dict& result, const Window& window);
// Likewise what the file has of it.
void decode_noted_into(nanobind::dict& result, const StreamedLog& log);

}  // namespace opscope
