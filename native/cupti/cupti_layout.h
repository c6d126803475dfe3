// The part of CUPTI that opscope reads: numbers and records, declared here so that building opscope needs no
// CUDA. Each record is the first part of that in CUDA 11.8. Every later release up to 13.4 appends fields and
// moves none, so these fit all. A test compares them with NVIDIA's headers.
#pragma once

#include <cstddef>
#include <cstdint>

namespace opscope::cupti {

constexpr uint32_t kOldestVersion = 18;     // CUPTI_API_VERSION of CUDA 11.8
constexpr uint32_t kRefusableVersion = 27;  // of CUDA 12.9: earlier ones may crash without a buffer

enum Kind : uint32_t {
  kMemcpy = 1,
  kMemset = 2,
  kKernel = 3,
  kDriver = 4,
  kRuntime = 5,
  kConcurrentKernel = 10,
  kOverhead = 17,
  kMemcpyPeer = 22,  // CUPTI_ACTIVITY_KIND_MEMCPY2
  kCudaEvent = 36,
  kSynchronization = 38,
  kMemory = 49,  // CUPTI_ACTIVITY_KIND_MEMORY2
  kMemoryPool = 50,
};

enum Result : int {
  kSuccess = 0,
  kMaxLimitReached = 12,  // a second subscriber, before 13
  kNotInitialized = 15,
  kHardwareBusy = 26,
  kInsufficientPrivileges = 35,
  kMultipleSubscribers = 39,
  kVirtualizedInsufficientPrivileges = 40,
};

enum Domain : int { kDriverApi = 1, kRuntimeApi = 2, kResource = 3 };
enum ResourceCallback : uint32_t { kGraphNodeCreated = 13, kGraphNodeCloned = 20 };
constexpr int kBuffersAreZero = 5;  // CUPTI_ACTIVITY_ATTR_ZEROED_OUT_ACTIVITY_BUFFER
constexpr int kDefaultThreadId = 0;
constexpr int kSystemThreadId = 1;

// Numbers of functions, equal in every release. torch's profiler leaves out the same calls.
constexpr uint32_t kNoisyRuntimeCalls[] = {
    10,   // cudaGetLastError
    16,   // cudaSetDevice
    17,   // cudaGetDevice
    133,  // cudaEventCreate
    134,  // cudaEventCreateWithFlags
    136,  // cudaEventDestroy
};
constexpr uint32_t kNoisyDriverCalls[] = {
    304,  // cuCtxGetCurrent
    392,  // cuDevicePrimaryCtxGetState
    686,  // cuKernelGetAttribute
    719,  // cuKernelGetName; each cudaLaunchKernel calls it while CUPTI is attached
};
// Driver calls that are shown even if they started no work.
constexpr uint32_t kNotableDriverCalls[] = {
    307,  // cuLaunchKernel
    549,  // cuMemCreate
    550,  // cuMemRelease
    551,  // cuMemMap
    552,  // cuMemUnmap
    554,  // cuMemExportToShareableHandle
    555,  // cuMemImportFromShareableHandle
    652,  // cuLaunchKernelEx
};

constexpr uint32_t kFlushForced = 1;
constexpr uint32_t kStreamWaitEvent = 2;

struct Record {
  uint32_t kind;
};

struct KernelRecord {
  uint32_t kind;
  uint8_t cache_config, shared_memory_config;
  uint16_t registers_per_thread;
  uint32_t global_cache_requested, global_cache_executed;
  uint64_t start, end, completed;
  uint32_t device, context, stream;
  int32_t grid[3], block[3];
  int32_t static_shared_memory, dynamic_shared_memory;
  uint32_t local_memory_per_thread, local_memory_total;
  uint32_t correlation;
  int64_t grid_id;
  const char* name;
  void* reserved;
  uint64_t queued, submitted;
  uint8_t launch_type, carveout_requested_set, carveout_requested, padding;
  uint32_t shared_memory_executed;
  uint64_t graph_node;
  uint32_t shared_memory_limit;
  uint32_t graph;
};

struct MemcpyRecord {
  uint32_t kind;
  uint8_t copy_kind, source_kind, destination_kind, flags;
  uint64_t bytes, start, end;
  uint32_t device, context, stream, correlation, runtime_correlation, padding;
  void* reserved;
  uint64_t graph_node;
  uint32_t graph;
};

struct MemcpyPeerRecord {
  uint32_t kind;
  uint8_t copy_kind, source_kind, destination_kind, flags;
  uint64_t bytes, start, end;
  uint32_t device, context, stream;
  uint32_t source_device, source_context, destination_device, destination_context;
  uint32_t correlation;
  void* reserved;
  uint64_t graph_node;
  uint32_t graph;
};

struct MemsetRecord {
  uint32_t kind, value;
  uint64_t bytes, start, end;
  uint32_t device, context, stream, correlation;
  uint16_t flags, memory_kind;
  uint32_t padding;
  void* reserved;
  uint64_t graph_node;
  uint32_t graph;
};

struct ApiRecord {
  uint32_t kind, function;
  uint64_t start, end;
  uint32_t process, thread, correlation, result;
};

struct SynchronizationRecord {
  uint32_t kind, type;
  uint64_t start, end;
  uint32_t correlation, context, stream, event;
};

struct CudaEventRecord {
  uint32_t kind, correlation, context, stream, event;
};

// The object is a process and thread, or a device, context and stream.
struct OverheadRecord {
  uint32_t kind, overhead_kind, object_kind, object[3];
  uint64_t start, end;
};
constexpr uint32_t kObjectThread = 2;

struct MemoryRecord {
  uint32_t kind, operation, memory_kind, correlation;
  uint64_t address, bytes, timestamp, program_counter;
  uint32_t process, device, context, stream;
};

struct MemoryPoolRecord {
  uint32_t kind, operation, pool_type, correlation, process, device;
  uint64_t bytes_to_keep, address, size, release_threshold, timestamp;
};

struct ResourceData {
  void* context;
  void* handle;
  void* descriptor;
};

struct GraphData {
  void* graph;
  void* original_graph;
  void* node;
  void* original_node;
};

}  // namespace opscope::cupti
