// Compares cupti/cupti_layout.h with NVIDIA's headers of every installed release, at compile time.
#include "cupti/cupti_layout.h"

#include <cupti.h>

namespace ours = opscope::cupti;

#define SAME(ours_record, theirs_record, ours_field, theirs_field)                                 \
  static_assert(offsetof(ours::ours_record, ours_field) == offsetof(theirs_record, theirs_field)); \
  static_assert(sizeof(ours::ours_record::ours_field) == sizeof(theirs_record::theirs_field))

#if CUPTI_API_VERSION >= 130400
using Kernel = CUpti_ActivityKernel13;
using Memcpy = CUpti_ActivityMemcpy7;
using Memset = CUpti_ActivityMemset5;
#elif CUPTI_API_VERSION >= 130000
using Kernel = CUpti_ActivityKernel10;
using Memcpy = CUpti_ActivityMemcpy6;
using Memset = CUpti_ActivityMemset4;
#elif CUPTI_API_VERSION >= 26
using Kernel = CUpti_ActivityKernel9;
using Memcpy = CUpti_ActivityMemcpy6;
using Memset = CUpti_ActivityMemset4;
#else
using Kernel = CUpti_ActivityKernel8;
using Memcpy = CUpti_ActivityMemcpy5;
using Memset = CUpti_ActivityMemset4;
#endif
#if CUPTI_API_VERSION >= 26
using Synchronization = CUpti_ActivitySynchronization2;
using CudaEvent = CUpti_ActivityCudaEvent2;
using Memory = CUpti_ActivityMemory4;
#else
using Synchronization = CUpti_ActivitySynchronization;
using CudaEvent = CUpti_ActivityCudaEvent;
using Memory = CUpti_ActivityMemory3;
#endif
#if CUPTI_API_VERSION >= 130000
using MemoryPool = CUpti_ActivityMemoryPool3;
#else
using MemoryPool = CUpti_ActivityMemoryPool2;
#endif
#if CUPTI_API_VERSION >= 22
using Overhead = CUpti_ActivityOverhead3;
#else
using Overhead = CUpti_ActivityOverhead;
#endif

SAME(KernelRecord, Kernel, kind, kind);
SAME(KernelRecord, Kernel, registers_per_thread, registersPerThread);
SAME(KernelRecord, Kernel, start, start);
SAME(KernelRecord, Kernel, end, end);
SAME(KernelRecord, Kernel, device, deviceId);
SAME(KernelRecord, Kernel, context, contextId);
SAME(KernelRecord, Kernel, stream, streamId);
static_assert(offsetof(ours::KernelRecord, grid) == offsetof(Kernel, gridX));
static_assert(offsetof(ours::KernelRecord, block) == offsetof(Kernel, blockX));
SAME(KernelRecord, Kernel, static_shared_memory, staticSharedMemory);
SAME(KernelRecord, Kernel, dynamic_shared_memory, dynamicSharedMemory);
SAME(KernelRecord, Kernel, correlation, correlationId);
SAME(KernelRecord, Kernel, name, name);
SAME(KernelRecord, Kernel, queued, queued);
SAME(KernelRecord, Kernel, submitted, submitted);
SAME(KernelRecord, Kernel, graph_node, graphNodeId);
SAME(KernelRecord, Kernel, graph, graphId);
SAME(MemcpyRecord, Memcpy, copy_kind, copyKind);
SAME(MemcpyRecord, Memcpy, source_kind, srcKind);
SAME(MemcpyRecord, Memcpy, destination_kind, dstKind);
SAME(MemcpyRecord, Memcpy, bytes, bytes);
SAME(MemcpyRecord, Memcpy, start, start);
SAME(MemcpyRecord, Memcpy, end, end);
SAME(MemcpyRecord, Memcpy, device, deviceId);
SAME(MemcpyRecord, Memcpy, context, contextId);
SAME(MemcpyRecord, Memcpy, stream, streamId);
SAME(MemcpyRecord, Memcpy, correlation, correlationId);
SAME(MemcpyRecord, Memcpy, graph_node, graphNodeId);
SAME(MemcpyRecord, Memcpy, graph, graphId);
SAME(MemcpyPeerRecord, CUpti_ActivityMemcpyPtoP4, bytes, bytes);
SAME(MemcpyPeerRecord, CUpti_ActivityMemcpyPtoP4, start, start);
SAME(MemcpyPeerRecord, CUpti_ActivityMemcpyPtoP4, device, deviceId);
SAME(MemcpyPeerRecord, CUpti_ActivityMemcpyPtoP4, source_device, srcDeviceId);
SAME(MemcpyPeerRecord, CUpti_ActivityMemcpyPtoP4, correlation, correlationId);
SAME(MemcpyPeerRecord, CUpti_ActivityMemcpyPtoP4, graph_node, graphNodeId);
SAME(MemcpyPeerRecord, CUpti_ActivityMemcpyPtoP4, graph, graphId);
SAME(MemsetRecord, Memset, value, value);
SAME(MemsetRecord, Memset, bytes, bytes);
SAME(MemsetRecord, Memset, start, start);
SAME(MemsetRecord, Memset, stream, streamId);
SAME(MemsetRecord, Memset, correlation, correlationId);
SAME(MemsetRecord, Memset, memory_kind, memoryKind);
SAME(MemsetRecord, Memset, graph_node, graphNodeId);
SAME(MemsetRecord, Memset, graph, graphId);
SAME(ApiRecord, CUpti_ActivityAPI, function, cbid);
SAME(ApiRecord, CUpti_ActivityAPI, start, start);
SAME(ApiRecord, CUpti_ActivityAPI, end, end);
SAME(ApiRecord, CUpti_ActivityAPI, thread, threadId);
SAME(ApiRecord, CUpti_ActivityAPI, correlation, correlationId);
SAME(ApiRecord, CUpti_ActivityAPI, result, returnValue);
SAME(SynchronizationRecord, Synchronization, type, type);
SAME(SynchronizationRecord, Synchronization, start, start);
SAME(SynchronizationRecord, Synchronization, end, end);
SAME(SynchronizationRecord, Synchronization, correlation, correlationId);
SAME(SynchronizationRecord, Synchronization, context, contextId);
SAME(SynchronizationRecord, Synchronization, stream, streamId);
SAME(SynchronizationRecord, Synchronization, event, cudaEventId);
SAME(CudaEventRecord, CudaEvent, correlation, correlationId);
SAME(CudaEventRecord, CudaEvent, event, eventId);
SAME(OverheadRecord, Overhead, overhead_kind, overheadKind);
SAME(OverheadRecord, Overhead, object_kind, objectKind);
static_assert(offsetof(ours::OverheadRecord, object) == offsetof(Overhead, objectId));
SAME(OverheadRecord, Overhead, start, start);
SAME(OverheadRecord, Overhead, end, end);
SAME(MemoryRecord, Memory, operation, memoryOperationType);
SAME(MemoryRecord, Memory, memory_kind, memoryKind);
SAME(MemoryRecord, Memory, correlation, correlationId);
SAME(MemoryRecord, Memory, address, address);
SAME(MemoryRecord, Memory, bytes, bytes);
SAME(MemoryRecord, Memory, timestamp, timestamp);
SAME(MemoryRecord, Memory, device, deviceId);
SAME(MemoryPoolRecord, MemoryPool, operation, memoryPoolOperationType);
SAME(MemoryPoolRecord, MemoryPool, correlation, correlationId);
SAME(MemoryPoolRecord, MemoryPool, device, deviceId);
SAME(MemoryPoolRecord, MemoryPool, address, address);
SAME(MemoryPoolRecord, MemoryPool, size, size);
SAME(MemoryPoolRecord, MemoryPool, timestamp, timestamp);

static_assert(int{ours::kMemcpy} == CUPTI_ACTIVITY_KIND_MEMCPY);
static_assert(int{ours::kMemset} == CUPTI_ACTIVITY_KIND_MEMSET);
static_assert(int{ours::kKernel} == CUPTI_ACTIVITY_KIND_KERNEL);
static_assert(int{ours::kDriver} == CUPTI_ACTIVITY_KIND_DRIVER);
static_assert(int{ours::kRuntime} == CUPTI_ACTIVITY_KIND_RUNTIME);
static_assert(int{ours::kConcurrentKernel} == CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL);
static_assert(int{ours::kOverhead} == CUPTI_ACTIVITY_KIND_OVERHEAD);
static_assert(int{ours::kMemcpyPeer} == CUPTI_ACTIVITY_KIND_MEMCPY2);
static_assert(int{ours::kCudaEvent} == CUPTI_ACTIVITY_KIND_CUDA_EVENT);
static_assert(int{ours::kSynchronization} == CUPTI_ACTIVITY_KIND_SYNCHRONIZATION);
static_assert(int{ours::kMemory} == CUPTI_ACTIVITY_KIND_MEMORY2);
static_assert(int{ours::kMemoryPool} == CUPTI_ACTIVITY_KIND_MEMORY_POOL);
static_assert(int{ours::kMaxLimitReached} == CUPTI_ERROR_MAX_LIMIT_REACHED);
static_assert(int{ours::kHardwareBusy} == CUPTI_ERROR_HARDWARE_BUSY);
static_assert(int{ours::kInsufficientPrivileges} == CUPTI_ERROR_INSUFFICIENT_PRIVILEGES);
static_assert(int{ours::kMultipleSubscribers} == CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED);
static_assert(int{ours::kVirtualizedInsufficientPrivileges} ==
              CUPTI_ERROR_VIRTUALIZED_DEVICE_INSUFFICIENT_PRIVILEGES);
static_assert(int{ours::kDriverApi} == CUPTI_CB_DOMAIN_DRIVER_API);
static_assert(int{ours::kRuntimeApi} == CUPTI_CB_DOMAIN_RUNTIME_API);
static_assert(int{ours::kResource} == CUPTI_CB_DOMAIN_RESOURCE);
static_assert(int{ours::kGraphNodeCreated} == CUPTI_CBID_RESOURCE_GRAPHNODE_CREATED);
static_assert(int{ours::kGraphNodeCloned} == CUPTI_CBID_RESOURCE_GRAPHNODE_CLONED);
static_assert(ours::kSystemThreadId == CUPTI_ACTIVITY_THREAD_ID_TYPE_SYSTEM);
static_assert(ours::kBuffersAreZero == CUPTI_ACTIVITY_ATTR_ZEROED_OUT_ACTIVITY_BUFFER);
static_assert(int{ours::kFlushForced} == CUPTI_ACTIVITY_FLAG_FLUSH_FORCED);
static_assert(int{ours::kObjectThread} == CUPTI_ACTIVITY_OBJECT_THREAD);
static_assert(int{ours::kStreamWaitEvent} == CUPTI_ACTIVITY_SYNCHRONIZATION_TYPE_STREAM_WAIT_EVENT);
static_assert(offsetof(ours::ResourceData, descriptor) == offsetof(CUpti_ResourceData, resourceDescriptor));
static_assert(offsetof(ours::GraphData, node) == offsetof(CUpti_GraphData, node));
static_assert(offsetof(ours::GraphData, original_node) == offsetof(CUpti_GraphData, originalNode));
