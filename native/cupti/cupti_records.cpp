#include <algorithm>
#include <ranges>

#include "cupti/cupti_layout.h"
#include "cupti/cupti_source.h"

namespace opscope::cupti {

namespace {

using gpu::GpuLog;
using gpu::Work;

static_assert(kStreamWaitEvent == gpu::kStreamWaitsForEvent, "the log has CUPTI's codes");

template <typename R>
const R& as(const void* record) {
  return *static_cast<const R*>(record);
}

template <typename List>
bool contains(const List& functions, uint32_t function) {
  return std::ranges::find(functions, function) != std::ranges::end(functions);
}

template <typename R>
Work& add_work(GpuLog& log, const R& record, GpuKind kind) {
  if (record.start == 0 || record.end == 0) ++log.counts.unfinished;  // decoding leaves it out
  log.device_of_context[record.context] = record.device;
  Work& row = log.add_work(kind, record.start, record.end);
  row.correlation = record.correlation;
  row.device = record.device;
  row.context = record.context;
  row.stream = record.stream;
  row.graph = record.graph;
  row.graph_node = record.graph_node;
  return row;
}

void add_kernel(GpuLog& log, const KernelRecord& kernel) {
  Work& row = add_work(log, kernel, GpuKind::kKernel);
  row.name = log.kernel_name(kernel.name);
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
Work& add_copy(GpuLog& log, const R& record) {
  Work& row = add_work(log, record, GpuKind::kCopy);
  row.bytes = static_cast<int64_t>(record.bytes);
  row.copy_kind = record.copy_kind;
  row.source_memory = record.source_kind;
  row.destination_memory = record.destination_kind;
  return row;
}

void add_peer_copy(GpuLog& log, const MemcpyPeerRecord& record) {
  Work& row = add_copy(log, record);
  row.peer_device = static_cast<int8_t>(record.source_device);
  row.target_device = static_cast<int8_t>(record.destination_device);
}

void add_set(GpuLog& log, const MemsetRecord& set) {
  Work& row = add_work(log, set, GpuKind::kSet);
  row.bytes = static_cast<int64_t>(set.bytes);
  row.destination_memory = static_cast<uint8_t>(set.memory_kind);
}

void add_call(GpuLog& log, const ApiRecord& call, bool is_runtime) {
  const bool is_noise =
      is_runtime ? contains(kNoisyRuntimeCalls, call.function) : contains(kNoisyDriverCalls, call.function);
  if (is_noise) {
    --log.counts.recorded;
    ++log.counts.noise;
    return;
  }
  if (call.start == 0 || call.end == 0) {
    ++log.counts.unfinished;
    return;
  }
  const bool is_notable = is_runtime || contains(kNotableDriverCalls, call.function);
  const RuntimeApi api = is_runtime ? RuntimeApi::kRuntime : RuntimeApi::kDriver;
  log.calls.append() = {call.start,    call.end,    call.thread, call.correlation,
                        call.function, call.result, api,         is_notable};
}

void add_synchronization(GpuLog& log, const SynchronizationRecord& sync) {
  Work& row = log.add_work(GpuKind::kSynchronisation, sync.start, sync.end);
  row.correlation = sync.correlation;
  row.context = sync.context;
  row.device = gpu::kUnknownDevice;
  row.stream = sync.stream;
  row.event = sync.event;
  row.sync_kind = static_cast<uint8_t>(sync.type);
}

void add_memory(GpuLog& log, const MemoryRecord& operation) {
  const bool is_release = operation.operation == 2;
  const auto bytes = static_cast<int64_t>(operation.bytes);
  log.memory.append() = {operation.timestamp,
                         operation.address,
                         is_release ? -bytes : bytes,
                         operation.correlation,
                         operation.device,
                         operation.memory_kind,
                         is_release ? AllocationAction::kFree : AllocationAction::kAllocate,
                         false};
}

void add_memory_pool(GpuLog& log, const MemoryPoolRecord& operation) {
  const bool is_created = operation.operation == 1;
  const auto bytes = static_cast<int64_t>(operation.size);
  log.memory.append() = {operation.timestamp,
                         operation.address,
                         is_created ? bytes : -bytes,
                         operation.correlation,
                         operation.device,
                         0,
                         is_created ? AllocationAction::kAllocate : AllocationAction::kFree,
                         true};
}

void add_overhead(GpuLog& log, const OverheadRecord& overhead) {
  const uint32_t thread = overhead.object_kind == kObjectThread ? overhead.object[1] : 0;
  log.overheads.append() = {overhead.start, overhead.end, overhead.overhead_kind, thread};
}

void add_event(GpuLog& log, const CudaEventRecord& event) {
  log.events.append() = {event.event, event.correlation, event.stream};
}

void add(GpuLog& log, const void* record) {
  switch (as<Record>(record).kind) {
    case kKernel:
    case kConcurrentKernel:
      return add_kernel(log, as<KernelRecord>(record));
    case kMemcpy:
      add_copy(log, as<MemcpyRecord>(record));
      return;
    case kMemcpyPeer:
      return add_peer_copy(log, as<MemcpyPeerRecord>(record));
    case kMemset:
      return add_set(log, as<MemsetRecord>(record));
    case kRuntime:
      return add_call(log, as<ApiRecord>(record), /*is_runtime=*/true);
    case kDriver:
      return add_call(log, as<ApiRecord>(record), /*is_runtime=*/false);
    case kSynchronization:
      return add_synchronization(log, as<SynchronizationRecord>(record));
    case kCudaEvent:
      return add_event(log, as<CudaEventRecord>(record));
    case kOverhead:
      return add_overhead(log, as<OverheadRecord>(record));
    case kMemory:
      return add_memory(log, as<MemoryRecord>(record));
    case kMemoryPool:
      return add_memory_pool(log, as<MemoryPoolRecord>(record));
    default:
      --log.counts.recorded;
      ++log.counts.unknown;
  }
}

}  // namespace

void parse_buffer(const Library& library, uint8_t* buffer, size_t valid, GpuLog& log) {
  void* record = nullptr;
  while (library.next_record(buffer, valid, &record) == kSuccess) {
    if (log.accept()) add(log, record);
  }
}

}  // namespace opscope::cupti
