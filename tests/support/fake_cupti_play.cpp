// Activity that somebody described, row by row, through the fake CUPTI: what a file says that a device did.
// Each row becomes the record that this CUDA release has for it.
#include <memory>

#include "fake_cupti_state.h"

using namespace fake;

namespace {

// One piece of activity; tests/recorded_gpu/play.py has the same fields in the same order.
struct Played {
  uint64_t start, end, bytes, graph_node;
  uint32_t kind, correlation, device, context, stream, name;
  uint32_t grid[3], block[3];
  uint32_t registers, shared_memory, copy_kind, source, target, event, sync_type, graph;
};

template <typename R>
R work(const Played& row, CUpti_ActivityKind kind) {
  auto record = zeroed<R>(kind);
  record.start = row.start;
  record.end = row.end;
  record.deviceId = row.device;
  record.contextId = row.context;
  record.streamId = row.stream;
  record.correlationId = row.correlation;
  record.graphNodeId = row.graph_node;
  record.graphId = row.graph;
  return record;
}

template <typename R>
void emit_copy(R record, const Played& row) {
  record.bytes = row.bytes;
  record.copyKind = row.copy_kind;
  record.srcKind = row.source;
  record.dstKind = row.target;
  emit(record, false);
}

void emit_kernel(const Played& row, const char* const* names) {
  auto kernel = work<Kernel>(row, CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL);
  kernel.name = state().names.insert(names[row.name]).first->c_str();
  kernel.gridX = row.grid[0], kernel.gridY = row.grid[1], kernel.gridZ = row.grid[2];
  kernel.blockX = row.block[0], kernel.blockY = row.block[1], kernel.blockZ = row.block[2];
  kernel.registersPerThread = row.registers;
  kernel.dynamicSharedMemory = row.shared_memory;
  emit(kernel, false);
}

void emit_set(const Played& row) {
  auto set = work<Memset>(row, CUPTI_ACTIVITY_KIND_MEMSET);
  set.bytes = row.bytes;
  set.memoryKind = row.target;
  emit(set, false);
}

void emit_synchronization(const Played& row) {
  auto wait = zeroed<Synchronization>(CUPTI_ACTIVITY_KIND_SYNCHRONIZATION);
  wait.type = static_cast<CUpti_ActivitySynchronizationType>(row.sync_type);
  wait.start = row.start;
  wait.end = row.end;
  wait.correlationId = row.correlation;
  wait.contextId = row.context;
  wait.streamId = row.stream;
  wait.cudaEventId = row.event;
  emit(wait, false);
}

void emit_event(const Played& row) {
  auto event = zeroed<CudaEvent>(CUPTI_ACTIVITY_KIND_CUDA_EVENT);
  event.correlationId = row.correlation;
  event.contextId = row.context;
  event.streamId = row.stream;
  event.eventId = row.event;
  emit(event, false);
}

}  // namespace

// A call of the runtime (0) or driver (1) begins on this thread; the time, for fake_end_call.
EXPORT uint64_t fake_begin_call() {
  std::lock_guard lock(state().mutex);
  return now();
}

EXPORT void fake_end_call(int api, uint32_t function, uint64_t start, uint32_t correlation) {
  std::lock_guard lock(state().mutex);
  call(api == 0 ? CUPTI_ACTIVITY_KIND_RUNTIME : CUPTI_ACTIVITY_KIND_DRIVER, function, start, correlation);
}

// Work that runs on: it is over, and its records complete, at fake_finish or a forced flush.
EXPORT void fake_play(const Played* rows, size_t count, const char* const* names) {
  std::lock_guard lock(state().mutex);
  for (size_t i = 0; i < count; ++i) {
    const Played& row = rows[i];
    switch (row.kind) {
      case CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL:
        emit_kernel(row, names);
        break;
      case CUPTI_ACTIVITY_KIND_MEMCPY:
        emit_copy(work<Memcpy>(row, CUPTI_ACTIVITY_KIND_MEMCPY), row);
        break;
      case CUPTI_ACTIVITY_KIND_MEMCPY2:
        emit_copy(work<CUpti_ActivityMemcpyPtoP4>(row, CUPTI_ACTIVITY_KIND_MEMCPY2), row);
        break;
      case CUPTI_ACTIVITY_KIND_MEMSET:
        emit_set(row);
        break;
      case CUPTI_ACTIVITY_KIND_SYNCHRONIZATION:
        emit_synchronization(row);
        break;
      default:
        emit_event(row);
    }
  }
}

EXPORT size_t fake_played_bytes() { return sizeof(Played); }

// How the library calls a function: as in the file, with a version where CUPTI has one.
EXPORT void fake_name_call(int api, uint32_t function, const char* name) {
  std::lock_guard lock(state().mutex);
  state().call_names[{api, function}] = name;
}

// As many launches as wanted, each a call and its kernel, in buffers that complete meanwhile.
EXPORT void fake_launch_many(const char* name, size_t count, uint32_t streams, uint64_t duration) {
  const size_t at_once = 20'000;
  for (size_t done = 0; done < count;) {
    std::vector<Bytes> records;
    {
      std::lock_guard lock(state().mutex);
      for (size_t i = 0; i < at_once && done < count; ++i, ++done) {
        const uint64_t start = now();
        const uint32_t correlation = ++state().correlation;
        call(CUPTI_ACTIVITY_KIND_RUNTIME, CUPTI_RUNTIME_TRACE_CBID_cudaLaunchKernel_v7000, start,
             correlation);
        const auto stream = static_cast<uint32_t>(done % streams);
        add_kernel(correlation, name, stream % 2, 7 + stream, duration, 0);
      }
      records.swap(state().complete_records);
    }
    deliver_from_threads(std::move(records), nullptr, 0);
  }
}

// As CUPTI does by itself now and then: buffers with what is over complete.
EXPORT void fake_flush() { cuptiActivityFlushAll(0); }
