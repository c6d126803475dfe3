// What tests play through the fake CUPTI: fake_* functions, each of which emits the records that CUPTI
// would emit of it, and another profiler in the process.
#include "fake_cupti_state.h"

using namespace fake;

// -- another profiler in the process, that behaves as torch's own ---------------------------------------

namespace {

uint8_t others_buffer[1 << 16];
size_t others_records = 0;

void others_request(uint8_t** buffer, size_t* size, size_t* max_records) {
  *buffer = others_buffer;
  *size = sizeof(others_buffer);
  *max_records = 0;
}

// A buffer that it never gave away means that somebody else's was left in CUPTI.
void others_complete(CUcontext, uint32_t, uint8_t* buffer, size_t, size_t valid) {
  if (buffer != nullptr && buffer != others_buffer) abort();
  CUpti_Activity* record = nullptr;
  while (cuptiActivityGetNextRecord(buffer, valid, &record) == CUPTI_SUCCESS) ++others_records;
}

void others_callback(void*, CUpti_CallbackDomain, CUpti_CallbackId, const void*) {}

uint64_t others_time() { return 12345; }

}  // namespace

// It subscribes at its first use, for good, and records. Returns what subscribing returned.
EXPORT int fake_other_begins() {
  CUpti_SubscriberHandle handle;
  const CUptiResult result = cuptiSubscribe(&handle, others_callback, nullptr);
  if (result != CUPTI_SUCCESS && state().callback != others_callback) return result;
  others_records = 0;
  cuptiActivityRegisterTimestampCallback(others_time);
  cuptiActivityRegisterCallbacks(others_request, others_complete);
  cuptiActivityEnable(CUPTI_ACTIVITY_KIND_RUNTIME);
  cuptiActivityEnable(CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL);
  return CUPTI_SUCCESS;
}

EXPORT void fake_other_ends() {
  cuptiActivityFlushAll(0);
  cuptiActivityDisable(CUPTI_ACTIVITY_KIND_RUNTIME);
  cuptiActivityDisable(CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL);
  cuptiActivityFlushAll(1);
}

// -- the script --------------------------------------------------------------------------------------

EXPORT void fake_set(const char* name, int value) {
  std::lock_guard lock(state().mutex);
  state().settings[name] = value;
}

EXPORT void fake_reset() {
  std::lock_guard lock(state().mutex);
  State& s = state();
  s.settings.clear();
  s.pending.clear();
  s.complete_records.clear();
  s.busy_until.clear();
  s.dropped = s.lost = s.delivered = 0;
  s.call_names.clear();
  s.finalized = s.zeroed = s.not_zero = 0;
  if (s.callback == others_callback) s.callback = nullptr;
}

EXPORT size_t fake_count(const char* what) {
  std::lock_guard lock(state().mutex);
  if (std::strcmp(what, "kinds") == 0) return state().kinds.size();
  if (std::strcmp(what, "subscribed") == 0) return state().callback != nullptr;
  if (std::strcmp(what, "held buffers") == 0) return state().held != nullptr;
  if (std::strcmp(what, "thread id type") == 0) return state().thread_id_type;
  if (std::strcmp(what, "finalized") == 0) return state().finalized;
  if (std::strcmp(what, "buffers are zero") == 0) return state().buffers_are_zero;
  if (std::strcmp(what, "zeroed buffers") == 0) return state().zeroed;
  if (std::strcmp(what, "buffers not zero") == 0) return state().not_zero;
  if (std::strcmp(what, "lost") == 0) return state().lost;
  if (std::strcmp(what, "delivered") == 0) return state().delivered;
  if (std::strcmp(what, "others records") == 0) return others_records;
  return state().subscriptions;
}

EXPORT uint32_t fake_launch(const char* name, uint32_t device, uint32_t stream, uint64_t duration) {
  std::lock_guard lock(state().mutex);
  const uint64_t start = now();
  const uint32_t correlation = ++state().correlation;
  if (setting("driver_calls")) {
    call(CUPTI_ACTIVITY_KIND_DRIVER, CUPTI_DRIVER_TRACE_CBID_cuLaunchKernel, start + 1, correlation);
  }
  call(CUPTI_ACTIVITY_KIND_RUNTIME, CUPTI_RUNTIME_TRACE_CBID_cudaLaunchKernel_v7000, start, correlation);
  add_kernel(correlation, name, device, stream, duration, 0);
  return correlation;
}

// A call of the runtime (0) or driver (1) that starts no work.
EXPORT uint32_t fake_call(int api, uint32_t function) {
  std::lock_guard lock(state().mutex);
  const auto kind = api == 0 ? CUPTI_ACTIVITY_KIND_RUNTIME : CUPTI_ACTIVITY_KIND_DRIVER;
  return call(kind, function, now(), ++state().correlation);
}

// As Triton does it: a call of the driver and none of the runtime.
EXPORT uint32_t fake_driver_launch(const char* name, uint32_t stream, uint64_t duration) {
  std::lock_guard lock(state().mutex);
  const uint32_t correlation = ++state().correlation;
  call(CUPTI_ACTIVITY_KIND_DRIVER, CUPTI_DRIVER_TRACE_CBID_cuLaunchKernelEx, now(), correlation);
  add_kernel(correlation, name, 0, stream, duration, 0);
  return correlation;
}

EXPORT uint32_t fake_copy(uint32_t device, uint32_t stream, uint64_t bytes, uint64_t duration) {
  std::lock_guard lock(state().mutex);
  const uint32_t correlation = ++state().correlation;
  call(CUPTI_ACTIVITY_KIND_RUNTIME, CUPTI_RUNTIME_TRACE_CBID_cudaMemcpyAsync_v3020, now(), correlation);
  auto copy = zeroed<Memcpy>(CUPTI_ACTIVITY_KIND_MEMCPY);
  place(copy, device, stream, duration);
  copy.copyKind = CUPTI_ACTIVITY_MEMCPY_KIND_HTOD;
  copy.srcKind = CUPTI_ACTIVITY_MEMORY_KIND_PINNED;
  copy.dstKind = CUPTI_ACTIVITY_MEMORY_KIND_DEVICE;
  copy.bytes = bytes;
  copy.correlationId = correlation;
  emit(copy, setting("late") == 0);
  return correlation;
}

EXPORT uint32_t fake_peer_copy(uint32_t from, uint32_t to, uint32_t stream, uint64_t bytes,
                               uint64_t duration) {
  std::lock_guard lock(state().mutex);
  const uint32_t correlation = ++state().correlation;
  call(CUPTI_ACTIVITY_KIND_RUNTIME, CUPTI_RUNTIME_TRACE_CBID_cudaMemcpyAsync_v3020, now(), correlation);
  auto copy = zeroed<CUpti_ActivityMemcpyPtoP4>(CUPTI_ACTIVITY_KIND_MEMCPY2);
  place(copy, from, stream, duration);  // the reader may do it as well as the writer
  copy.copyKind = CUPTI_ACTIVITY_MEMCPY_KIND_PTOP;
  copy.srcKind = copy.dstKind = CUPTI_ACTIVITY_MEMORY_KIND_DEVICE;
  copy.srcDeviceId = from;
  copy.dstDeviceId = to;
  copy.bytes = bytes;
  copy.correlationId = correlation;
  emit(copy);
  return correlation;
}

EXPORT uint32_t fake_fill(uint32_t device, uint32_t stream, uint64_t bytes, uint64_t duration) {
  std::lock_guard lock(state().mutex);
  const uint32_t correlation = ++state().correlation;
  call(CUPTI_ACTIVITY_KIND_RUNTIME, CUPTI_RUNTIME_TRACE_CBID_cudaMemsetAsync_v3020, now(), correlation);
  auto set = zeroed<Memset>(CUPTI_ACTIVITY_KIND_MEMSET);
  place(set, device, stream, duration);
  set.bytes = bytes;
  set.memoryKind = CUPTI_ACTIVITY_MEMORY_KIND_DEVICE;
  set.correlationId = correlation;
  emit(set);
  return correlation;
}

EXPORT uint32_t fake_record_event(uint32_t device, uint32_t stream, uint32_t event) {
  std::lock_guard lock(state().mutex);
  const uint32_t correlation = ++state().correlation;
  call(CUPTI_ACTIVITY_KIND_RUNTIME, CUPTI_RUNTIME_TRACE_CBID_cudaEventRecord_v3020, now(), correlation);
  auto record = zeroed<CudaEvent>(CUPTI_ACTIVITY_KIND_CUDA_EVENT);
  record.correlationId = correlation;
  record.contextId = device + 1;
  record.streamId = stream;
  record.eventId = event;
  emit(record);
  return correlation;
}

EXPORT uint32_t fake_wait_event(uint32_t device, uint32_t stream, uint32_t event) {
  std::lock_guard lock(state().mutex);
  const uint32_t correlation = ++state().correlation;
  const uint64_t start = now();
  call(CUPTI_ACTIVITY_KIND_RUNTIME, CUPTI_RUNTIME_TRACE_CBID_cudaStreamWaitEvent_v3020, start, correlation);
  auto record = zeroed<Synchronization>(CUPTI_ACTIVITY_KIND_SYNCHRONIZATION);
  record.type = CUPTI_ACTIVITY_SYNCHRONIZATION_TYPE_STREAM_WAIT_EVENT;
  record.start = start;
  record.end = now();
  record.correlationId = correlation;
  record.contextId = device + 1;
  record.streamId = stream;
  record.cudaEventId = event;
  emit(record);
  return correlation;
}

EXPORT uint32_t fake_allocate(uint32_t device, uint64_t address, uint64_t bytes, int release) {
  std::lock_guard lock(state().mutex);
  const uint32_t correlation = ++state().correlation;
  auto record = zeroed<Memory>(CUPTI_ACTIVITY_KIND_MEMORY2);
  record.memoryOperationType = release ? CUPTI_ACTIVITY_MEMORY_OPERATION_TYPE_RELEASE
                                       : CUPTI_ACTIVITY_MEMORY_OPERATION_TYPE_ALLOCATION;
  record.memoryKind = CUPTI_ACTIVITY_MEMORY_KIND_DEVICE;
  record.timestamp = now();
  record.address = address;
  record.bytes = bytes;
  record.deviceId = device;
  record.correlationId = correlation;
  emit(record);
  call(CUPTI_ACTIVITY_KIND_RUNTIME, CUPTI_RUNTIME_TRACE_CBID_cudaMalloc_v3020, record.timestamp - 1,
       correlation);
  return correlation;
}

EXPORT void fake_overhead(uint64_t duration) {
  std::lock_guard lock(state().mutex);
  auto record = zeroed<Overhead>(CUPTI_ACTIVITY_KIND_OVERHEAD);
  record.overheadKind = CUPTI_ACTIVITY_OVERHEAD_CUPTI_BUFFER_FLUSH;
  record.objectKind = CUPTI_ACTIVITY_OBJECT_THREAD;
  record.objectId.pt.threadId = thread_id();
  record.start = now() - duration;
  record.end = record.start + duration;
  emit(record);
}

// A kernel that a stream capture turns into a node; returns the node's id.
EXPORT uint64_t fake_capture_node() {
  const uint64_t node = ++state().node;
  graph_callback(CUPTI_CBID_RESOURCE_GRAPHNODE_CREATED, node, 0);
  return node;
}

// The node's copy in an instantiated graph.
EXPORT uint64_t fake_instantiate_node(uint64_t original) {
  const uint64_t node = ++state().node;
  graph_callback(CUPTI_CBID_RESOURCE_GRAPHNODE_CREATED, node, 0);
  graph_callback(CUPTI_CBID_RESOURCE_GRAPHNODE_CLONED, node, original);
  return node;
}

EXPORT uint32_t fake_launch_graph(const uint64_t* nodes, const char* const* names, size_t count,
                                  uint32_t device, uint32_t stream, uint64_t duration) {
  std::lock_guard lock(state().mutex);
  const uint32_t correlation = ++state().correlation;
  call(CUPTI_ACTIVITY_KIND_RUNTIME, CUPTI_RUNTIME_TRACE_CBID_cudaGraphLaunch_v10000, now(), correlation);
  for (size_t i = 0; i < count; ++i) add_kernel(correlation, names[i], device, stream, duration, nodes[i]);
  return correlation;
}

// Work that was running is over: its records are complete.
EXPORT void fake_finish() {
  std::lock_guard lock(state().mutex);
  for (Bytes& record : state().pending) state().complete_records.push_back(std::move(record));
  state().pending.clear();
}
