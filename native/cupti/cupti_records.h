// Reading CUPTI's activity records into the log of device activity.
#pragma once

#include <cstddef>
#include <cstdint>

#include "cupti/cupti_library.h"
#include "gpu/gpu_log.h"

namespace opscope::cupti {

// Appends the records of a buffer; the caller holds log.mutex(). May raise std::bad_alloc.
void parse_buffer(const Library& library, uint8_t* buffer, size_t valid, gpu::GpuLog& log);

}  // namespace opscope::cupti
