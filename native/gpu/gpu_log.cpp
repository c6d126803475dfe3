#include "gpu/gpu_log.h"

#include <algorithm>
#include <cstring>
#include <iterator>

#include "gpu/cupti_layout.h"

namespace opscope::gpu {

namespace {

template <typename R>
const R& as(const void* record) {
  return *static_cast<const R*>(record);
}

bool is_noise(uint32_t function, uint8_t api) {
  return api == 0
             ? std::ranges::find(cupti::kNoisyRuntimeCalls, function) != std::end(cupti::kNoisyRuntimeCalls)
             : std::ranges::find(cupti::kNoisyDriverCalls, function) != std::end(cupti::kNoisyDriverCalls);
}

}  // namespace

void GpuLog::parse(const cupti::Library& library, uint8_t* buffer, size_t valid) {
  void* record = nullptr;
  while (library.next_record(buffer, valid, &record) == cupti::kSuccess) {
    if (has_room()) {
      ++counts.recorded;
      add(library, record);
    } else {
      ++counts.over_budget;
    }
  }
}

bool GpuLog::has_room() {
  return work.bytes() + calls.bytes() + memory.bytes() + overheads.bytes() + events.bytes() < max_bytes_;
}

void GpuLog::clear() {
  work.clear();
  calls.clear();
  memory.clear();
  overheads.clear();
  events.clear();
  counts = {};
}

void GpuLog::add(const cupti::Library&, const void* record) {
  switch (as<cupti::Record>(record).kind) {
    case cupti::kKernel:
    case cupti::kConcurrentKernel:
      return add_kernel(record);
    case cupti::kMemcpy:
      return add_copy(as<cupti::MemcpyRecord>(record), -1, -1);
    case cupti::kMemcpyPeer: {
      const auto& copy = as<cupti::MemcpyPeerRecord>(record);
      return add_copy(copy, static_cast<int8_t>(copy.source_device),
                      static_cast<int8_t>(copy.destination_device));
    }
    case cupti::kMemset:
      return add_set(record);
    case cupti::kRuntime:
      return add_call(record, 0);
    case cupti::kDriver:
      return add_call(record, 1);
    case cupti::kSynchronization:
      return add_synchronization(record);
    case cupti::kCudaEvent: {
      const auto& event = as<cupti::CudaEventRecord>(record);
      events.append() = {event.event, event.correlation, event.stream};
      return;
    }
    case cupti::kOverhead:
      return add_overhead(record);
    case cupti::kMemory:
      return add_memory(record);
    case cupti::kMemoryPool:
      return add_memory_pool(record);
    default:
      --counts.recorded;
      ++counts.unknown;
  }
}

// CUPTI gives the same text the same address for as long as the kernel is loaded; a comparison guards
// against an address that came to mean another one.
uint32_t GpuLog::kernel_name(const char* name) {
  if (name == nullptr) name = "unnamed kernel";
  const auto known = name_at_.find(name);
  if (known != name_at_.end() && kernel_names[known->second] == name) return known->second;
  const auto [entry, is_new] = name_ids_.try_emplace(name, static_cast<uint32_t>(kernel_names.size()));
  if (is_new) kernel_names.emplace_back(name);
  return name_at_[name] = entry->second;
}

template <typename R>
Work& GpuLog::add_work(const R& record, WorkKind kind) {
  if (record.start == 0 || record.end == 0) ++counts.unfinished;
  device_of_context[record.context] = record.device;
  Work& row = work.append();
  row = {};
  row.kind = kind;
  row.start = record.start;
  row.end = record.end;
  row.correlation = record.correlation;
  row.device = record.device;
  row.context = record.context;
  row.stream = record.stream;
  row.graph = record.graph;
  row.graph_node = record.graph_node;
  row.peer_device = row.target_device = -1;
  return row;
}

void GpuLog::add_kernel(const void* record) {
  const auto& kernel = as<cupti::KernelRecord>(record);
  Work& row = add_work(kernel, WorkKind::kKernel);
  row.name = kernel_name(kernel.name);
  row.queued = kernel.queued;
  row.submitted = kernel.submitted;
  row.registers = kernel.registers_per_thread;
  row.shared_memory = kernel.static_shared_memory + kernel.dynamic_shared_memory;
  for (int axis = 0; axis < 3; ++axis) {
    row.grid[axis] = static_cast<uint32_t>(kernel.grid[axis]);
    row.block[axis] = static_cast<uint32_t>(kernel.block[axis]);
  }
}

template <typename R>
void GpuLog::add_copy(const R& record, int8_t peer_device, int8_t target_device) {
  Work& row = add_work(record, WorkKind::kCopy);
  row.bytes = static_cast<int64_t>(record.bytes);
  row.copy_kind = record.copy_kind;
  row.source_memory = record.source_kind;
  row.destination_memory = record.destination_kind;
  row.peer_device = peer_device;
  row.target_device = target_device;
}

void GpuLog::add_set(const void* record) {
  const auto& set = as<cupti::MemsetRecord>(record);
  Work& row = add_work(set, WorkKind::kSet);
  row.bytes = static_cast<int64_t>(set.bytes);
  row.destination_memory = static_cast<uint8_t>(set.memory_kind);
}

void GpuLog::add_call(const void* record, uint8_t api) {
  const auto& call = as<cupti::ApiRecord>(record);
  if (is_noise(call.function, api)) {
    --counts.recorded;
    ++counts.noise;
    return;
  }
  if (call.start == 0 || call.end == 0) {
    ++counts.unfinished;
    return;
  }
  calls.append() = {call.start, call.end, call.thread, call.correlation, call.function, call.result, api};
}

void GpuLog::add_synchronization(const void* record) {
  const auto& sync = as<cupti::SynchronizationRecord>(record);
  Work& row = work.append();
  row = {};
  row.kind = WorkKind::kSynchronization;
  row.start = sync.start;
  row.end = sync.end;
  row.correlation = sync.correlation;
  row.context = sync.context;
  row.device = UINT32_MAX;  // that of the context, once that is known
  row.stream = sync.stream;
  row.event = sync.event;
  row.sync_kind = static_cast<uint8_t>(sync.type);
  row.peer_device = row.target_device = -1;
}

void GpuLog::add_memory(const void* record) {
  const auto& operation = as<cupti::MemoryRecord>(record);
  const bool is_release = operation.operation == 2;
  const auto bytes = static_cast<int64_t>(operation.bytes);
  memory.append() = {operation.timestamp,
                     operation.address,
                     is_release ? -bytes : bytes,
                     operation.correlation,
                     operation.device,
                     operation.memory_kind,
                     is_release,
                     false};
}

void GpuLog::add_memory_pool(const void* record) {
  const auto& operation = as<cupti::MemoryPoolRecord>(record);
  const bool is_created = operation.operation == 1;
  const auto bytes = static_cast<int64_t>(operation.size);
  memory.append() = {operation.timestamp,
                     operation.address,
                     is_created ? bytes : -bytes,
                     operation.correlation,
                     operation.device,
                     0,
                     !is_created,
                     true};
}

void GpuLog::add_overhead(const void* record) {
  const auto& overhead = as<cupti::OverheadRecord>(record);
  const uint32_t thread = overhead.object_kind == cupti::kObjectThread ? overhead.object[1] : 0;
  overheads.append() = {overhead.start, overhead.end, overhead.overhead_kind, thread};
}

}  // namespace opscope::gpu
