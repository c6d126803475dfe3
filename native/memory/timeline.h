// What happened to every block of memory, in order of time, as torch's memory profiler tells it.
#pragma once

#include <cstdint>
#include <vector>

#include "memory/categories.h"

namespace opscope::memory {

using Action = MemoryAction;

constexpr int64_t kBeforeRecording = -1;

struct Timeline {
  std::vector<int64_t> time_ns;  // kBeforeRecording for what was there before
  std::vector<uint8_t> action;
  std::vector<int32_t> key;  // kUnknown: a block that no recorded tensor used
  std::vector<int32_t> version;
  std::vector<int64_t> size_bytes;
  std::vector<int8_t> device_type, device_index;
};

Timeline build_timeline(const Tables& tables, const TreeOrder& tree, const TensorKeys& keys,
                        const DataFlow& flow, const Categories& categories);

}  // namespace opscope::memory
