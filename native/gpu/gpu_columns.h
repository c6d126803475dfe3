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

struct CallColumns {  // in order of start
  std::vector<int32_t> name, function, result;
  std::vector<int64_t> start_ns, duration_ns, system_thread_id, correlation_id;
  std::vector<uint8_t> api;
};

struct WorkColumns {  // in order of start
  std::vector<uint8_t> kind, copy_kind, source_memory, destination_memory, sync_kind;
  std::vector<int8_t> device_type, device_index, peer_device, target_device;
  std::vector<int32_t> name, context, stream, call, registers_per_thread, shared_memory_bytes, wait_on_stream;
  std::vector<int64_t> start_ns, duration_ns, correlation_id, size_bytes, queued_ns, submitted_ns;
  std::vector<int64_t> graph, graph_node, wait_on_cuda_event_record_corr_id;
  ListColumn grid, block;
};

struct NodeColumns {  // captured nodes that this window's work refers to, or that it captured
  std::vector<int64_t> node, time_ns, system_thread_id;  // time 0: captured before the window
};

struct GpuMemoryColumns {
  std::vector<int64_t> time_ns, size_bytes, correlation_id;
  std::vector<uint8_t> action, memory, is_pool;
  std::vector<int8_t> device_index;
  std::vector<uint64_t> address;
};

struct OverheadColumns {
  std::vector<int32_t> kind;
  std::vector<int64_t> start_ns, duration_ns, system_thread_id;
};

struct GpuColumns {
  CallColumns calls;
  WorkColumns work;
  NodeColumns nodes;
  GpuMemoryColumns memory;
  OverheadColumns overheads;
  LocalNames names;
  gpu::Counts counts;
  gpu::SourceState source;
  uint64_t launched_outside = 0;  // work in the window that a call outside it launched: left out
  uint64_t without_launch = 0;    // work whose call was not seen
};

// What the window saw of the device. Call GpuActivity::collect() first.
GpuColumns decode_gpu(GpuActivity& activity, const Window& window);

}  // namespace opscope
