// A CUPTI without a GPU, for tests: the functions opscope calls, and fake_* functions that play what a
// program does. Compiled from NVIDIA's own headers, so records have the layout of that CUDA release.
//
// A test scripts activity call by call: launches, copies, graphs, waits. Each emits the records that
// CUPTI would emit, in buffers that the subscriber provides. fake_set(...) makes it misbehave.
#include <cupti.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace {

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
#elif CUPTI_API_VERSION >= 19
using Kernel = CUpti_ActivityKernel9;
using Memcpy = CUpti_ActivityMemcpy5;
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
#if CUPTI_API_VERSION >= 22
using Overhead = CUpti_ActivityOverhead3;
#else
using Overhead = CUpti_ActivityOverhead;
#endif

using Bytes = std::vector<uint8_t>;
using Stream = std::pair<uint32_t, uint32_t>;  // device, stream

constexpr uint64_t kSubmitNs = 2'000;

struct State {
  std::mutex mutex;
  CUpti_CallbackFunc callback = nullptr;
  void* user = nullptr;
  CUpti_BuffersCallbackRequestFunc request = nullptr;
  CUpti_BuffersCallbackCompleteFunc complete = nullptr;
  uint64_t (*timestamp)() = nullptr;
  std::set<uint32_t> kinds;
  std::set<uint32_t> callbacks;
  std::map<std::string, int> settings;
  std::vector<Bytes> pending;  // of work that has not finished
  std::vector<Bytes> complete_records;
  std::map<Stream, uint64_t> busy_until;
  std::set<std::string> names;  // kernels' names keep their addresses
  uint32_t correlation = 0;
  uint64_t node = 0;
  size_t dropped = 0;
  size_t subscriptions = 0;
  uint8_t* held = nullptr;  // a buffer that waits for records
  size_t held_size = 0;
  std::set<std::pair<uint32_t, uint32_t>> silenced;  // kind and function
  size_t finalized = 0;
  size_t thread_id_type = 0;
};

State& state() {
  static State* only = new State;
  return *only;
}

int setting(const char* name) {
  const auto found = state().settings.find(name);
  return found == state().settings.end() ? 0 : found->second;
}

uint64_t now() {
  if (state().timestamp != nullptr) return state().timestamp();
  timespec time{};
  clock_gettime(CLOCK_REALTIME, &time);
  return static_cast<uint64_t>(time.tv_sec) * 1'000'000'000 + static_cast<uint64_t>(time.tv_nsec);
}

uint32_t thread_id() { return static_cast<uint32_t>(syscall(SYS_gettid)); }

template <typename R>
R zeroed(CUpti_ActivityKind kind) {
  R record;
  std::memset(&record, 0, sizeof(record));
  record.kind = kind;
  return record;
}

template <typename R>
void emit(const R& record, bool finished = true) {
  if (state().kinds.count(record.kind) == 0) return;
  State& s = state();
  if (s.held == nullptr) {
    size_t max_records = 0;
    s.request(&s.held, &s.held_size, &max_records);
  }
  Bytes bytes(sizeof(R));
  std::memcpy(bytes.data(), &record, sizeof(R));
  (finished ? state().complete_records : state().pending).push_back(std::move(bytes));
}

size_t record_size(uint32_t kind) {
  switch (kind) {
    case CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL:
      return sizeof(Kernel);
    case CUPTI_ACTIVITY_KIND_MEMCPY:
      return sizeof(Memcpy);
    case CUPTI_ACTIVITY_KIND_MEMCPY2:
      return sizeof(CUpti_ActivityMemcpyPtoP4);
    case CUPTI_ACTIVITY_KIND_MEMSET:
      return sizeof(Memset);
    case CUPTI_ACTIVITY_KIND_SYNCHRONIZATION:
      return sizeof(Synchronization);
    case CUPTI_ACTIVITY_KIND_CUDA_EVENT:
      return sizeof(CudaEvent);
    case CUPTI_ACTIVITY_KIND_OVERHEAD:
      return sizeof(Overhead);
    case CUPTI_ACTIVITY_KIND_MEMORY2:
      return sizeof(Memory);
    case CUPTI_ACTIVITY_KIND_NAME:
      return sizeof(CUpti_ActivityName);
    default:
      return sizeof(CUpti_ActivityAPI);
  }
}

// Delivers records in buffers of the subscriber's; those that get none are dropped and counted.
// `buffer` is one it provided earlier, or nullptr.
void deliver(std::vector<Bytes> records, uint8_t* buffer, size_t size) {
  State& s = state();
  if (setting("out_of_order")) std::reverse(records.begin(), records.end());
  const size_t per_buffer = setting("records_per_buffer") ? setting("records_per_buffer") : SIZE_MAX;
  size_t next = 0;
  while (next < records.size()) {
    size_t max_records = 0;
    if (buffer == nullptr) s.request(&buffer, &size, &max_records);
    if (buffer == nullptr || size == 0) {
      s.dropped += records.size() - next;
      s.complete(nullptr, 0, nullptr, 0, 0);
      return;
    }
    size_t used = 0;
    for (size_t count = 0; next < records.size() && count < per_buffer; ++count, ++next) {
      if (used + records[next].size() > size) break;
      std::memcpy(buffer + used, records[next].data(), records[next].size());
      used += records[next].size();
    }
    s.complete(nullptr, 0, std::exchange(buffer, nullptr), size, used);
  }
}

uint32_t call(CUpti_ActivityKind api, uint32_t function, uint64_t start, uint32_t correlation) {
  if (state().silenced.count({api, function}) != 0) return correlation;
  auto record = zeroed<CUpti_ActivityAPI>(api);
  record.cbid = function;
  record.start = start;
  record.end = now() + 1;
  record.processId = static_cast<uint32_t>(getpid());
  record.threadId = thread_id();
  record.correlationId = correlation;
  emit(record);
  return correlation;
}

// The time span of work on a stream: after what was launched there before.
template <typename R>
void place(R& record, uint32_t device, uint32_t stream, uint64_t duration) {
  uint64_t& busy = state().busy_until[{device, stream}];
  uint64_t start = std::max(busy, now() + kSubmitNs);
  if (setting("before_launch")) start = now() - 1'000'000;
  if (setting("overlap")) start = now() + kSubmitNs;
  record.start = start;
  record.end = busy = start + duration;
  record.deviceId = device;
  record.contextId = device + 1;
  record.streamId = stream;
}

void graph_callback(CUpti_CallbackId id, uint64_t node, uint64_t original) {
  State& s = state();
  if (s.callback == nullptr || s.callbacks.count(id) == 0) return;
  CUpti_GraphData graph{};
  graph.node = reinterpret_cast<CUgraphNode>(node);
  graph.originalNode = reinterpret_cast<CUgraphNode>(original);
  CUpti_ResourceData resource{};
  resource.resourceDescriptor = &graph;
  s.callback(s.user, CUPTI_CB_DOMAIN_RESOURCE, id, &resource);
}

void add_kernel(uint32_t correlation, const char* name, uint32_t device, uint32_t stream, uint64_t duration,
                uint64_t node) {
  auto kernel = zeroed<Kernel>(CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL);
  place(kernel, device, stream, duration);
  kernel.name = state().names.insert(name).first->c_str();
  kernel.correlationId = correlation;
  kernel.gridX = 128, kernel.gridY = 2, kernel.gridZ = 1;
  kernel.blockX = 256, kernel.blockY = 1, kernel.blockZ = 1;
  kernel.registersPerThread = 32;
  kernel.staticSharedMemory = 1024, kernel.dynamicSharedMemory = 512;
  kernel.graphNodeId = node;
  kernel.graphId = node == 0 ? 0 : 7;
  emit(kernel, setting("late") == 0);
}

}  // namespace

#define EXPORT extern "C" __attribute__((visibility("default")))

// -- CUPTI -------------------------------------------------------------------------------------------

EXPORT CUptiResult cuptiGetVersion(uint32_t* version) {
  *version = setting("version") ? setting("version") : CUPTI_API_VERSION;
  return CUPTI_SUCCESS;
}

EXPORT CUptiResult cuptiSubscribe(CUpti_SubscriberHandle* handle, CUpti_CallbackFunc callback, void* user) {
  if (setting("subscribe_error")) return static_cast<CUptiResult>(setting("subscribe_error"));
  State& s = state();
  if (s.callback != nullptr) return CUPTI_ERROR_MAX_LIMIT_REACHED;
  s.callback = callback;
  s.user = user;
  ++s.subscriptions;
  *handle = reinterpret_cast<CUpti_SubscriberHandle>(&s);
  return CUPTI_SUCCESS;
}

EXPORT CUptiResult cuptiUnsubscribe(CUpti_SubscriberHandle) {
  state().callback = nullptr;
  state().callbacks.clear();
  return CUPTI_SUCCESS;
}

EXPORT CUptiResult cuptiEnableCallback(uint32_t enable, CUpti_SubscriberHandle, CUpti_CallbackDomain domain,
                                       CUpti_CallbackId id) {
  if (domain != CUPTI_CB_DOMAIN_RESOURCE) return CUPTI_ERROR_INVALID_PARAMETER;
  if (enable) state().callbacks.insert(id);
  return CUPTI_SUCCESS;
}

EXPORT CUptiResult cuptiGetCallbackName(CUpti_CallbackDomain domain, uint32_t id, const char** name) {
  static const std::map<uint32_t, const char*> runtime = {
      {CUPTI_RUNTIME_TRACE_CBID_cudaLaunchKernel_v7000, "cudaLaunchKernel_v7000"},
      {CUPTI_RUNTIME_TRACE_CBID_cudaMemcpyAsync_v3020, "cudaMemcpyAsync_v3020"},
      {CUPTI_RUNTIME_TRACE_CBID_cudaMemsetAsync_v3020, "cudaMemsetAsync_v3020"},
      {CUPTI_RUNTIME_TRACE_CBID_cudaGraphLaunch_v10000, "cudaGraphLaunch_v10000"},
      {CUPTI_RUNTIME_TRACE_CBID_cudaStreamSynchronize_v3020, "cudaStreamSynchronize_v3020"},
      {CUPTI_RUNTIME_TRACE_CBID_cudaEventRecord_v3020, "cudaEventRecord_v3020"},
      {CUPTI_RUNTIME_TRACE_CBID_cudaStreamWaitEvent_v3020, "cudaStreamWaitEvent_v3020"},
      {CUPTI_RUNTIME_TRACE_CBID_cudaMalloc_v3020, "cudaMalloc_v3020"},
  };
  static const std::map<uint32_t, const char*> driver = {
      {CUPTI_DRIVER_TRACE_CBID_cuLaunchKernel, "cuLaunchKernel"},
      {CUPTI_DRIVER_TRACE_CBID_cuLaunchKernelEx, "cuLaunchKernelEx"},
      {CUPTI_DRIVER_TRACE_CBID_cuMemCreate, "cuMemCreate"},
  };
  const auto& names = domain == CUPTI_CB_DOMAIN_DRIVER_API ? driver : runtime;
  const auto found = names.find(id);
  if (found == names.end()) return CUPTI_ERROR_INVALID_PARAMETER;
  *name = found->second;
  return CUPTI_SUCCESS;
}

EXPORT CUptiResult cuptiActivityRegisterCallbacks(CUpti_BuffersCallbackRequestFunc request,
                                                  CUpti_BuffersCallbackCompleteFunc complete) {
  state().request = request;
  state().complete = complete;
  return CUPTI_SUCCESS;
}

EXPORT CUptiResult cuptiActivityRegisterTimestampCallback(CUpti_TimestampCallbackFunc callback) {
  if (setting("no_timestamp_callback")) return CUPTI_ERROR_NOT_SUPPORTED;
  state().timestamp = callback;
  return CUPTI_SUCCESS;
}

EXPORT CUptiResult cuptiSetThreadIdType(CUpti_ActivityThreadIdType type) {
  state().thread_id_type = type;
  return CUPTI_SUCCESS;
}

EXPORT CUptiResult cuptiActivityEnable(CUpti_ActivityKind kind) {
  if (setting("enable_error")) return static_cast<CUptiResult>(setting("enable_error"));
  if (setting("missing_kind") == static_cast<int>(kind)) return CUPTI_ERROR_NOT_COMPATIBLE;
  state().kinds.insert(kind);
  auto& silenced = state().silenced;
  for (auto it = silenced.begin(); it != silenced.end();)
    it = it->first == kind ? silenced.erase(it) : next(it);
  return CUPTI_SUCCESS;
}

#if CUPTI_API_VERSION >= 24
EXPORT CUptiResult cuptiActivityEnableRuntimeApi(CUpti_CallbackId function, uint8_t enable) {
  if (!enable) state().silenced.insert({CUPTI_ACTIVITY_KIND_RUNTIME, function});
  return CUPTI_SUCCESS;
}

EXPORT CUptiResult cuptiActivityEnableDriverApi(CUpti_CallbackId function, uint8_t enable) {
  if (!enable) state().silenced.insert({CUPTI_ACTIVITY_KIND_DRIVER, function});
  return CUPTI_SUCCESS;
}
#endif

EXPORT CUptiResult cuptiFinalize() {
  ++state().finalized;
  return CUPTI_SUCCESS;
}

// Work that is still running when its kind is switched off is never reported.
EXPORT CUptiResult cuptiActivityDisable(CUpti_ActivityKind kind) {
  std::lock_guard lock(state().mutex);
  state().kinds.erase(kind);
  std::erase_if(state().pending, [&](const Bytes& bytes) {
    return reinterpret_cast<const CUpti_Activity*>(bytes.data())->kind == kind;
  });
  return CUPTI_SUCCESS;
}

EXPORT CUptiResult cuptiActivityFlushAll(uint32_t flag) {
  State& s = state();
  std::vector<Bytes> records;
  uint8_t* buffer = nullptr;
  size_t size = 0;
  {
    std::lock_guard lock(s.mutex);
    records.swap(s.complete_records);
    if (flag != 0) {
      for (Bytes& record : s.pending) records.push_back(std::move(record));
      s.pending.clear();
    }
    if (flag != 0 || !records.empty()) {
      buffer = std::exchange(s.held, nullptr);
      size = s.held_size;
    }
  }
  if (!records.empty()) {
    deliver(std::move(records), buffer, size);
  } else if (buffer != nullptr) {
    s.complete(nullptr, 0, buffer, size, 0);
  }
  return CUPTI_SUCCESS;
}

EXPORT CUptiResult cuptiActivityGetNumDroppedRecords(CUcontext, uint32_t, size_t* dropped) {
  *dropped = state().dropped;
  state().dropped = 0;
  return CUPTI_SUCCESS;
}

EXPORT CUptiResult cuptiActivityGetNextRecord(uint8_t* buffer, size_t valid, CUpti_Activity** record) {
  uint8_t* next = buffer;
  if (*record != nullptr) next = reinterpret_cast<uint8_t*>(*record) + record_size((*record)->kind);
  if (valid == 0 || next >= buffer + valid) return CUPTI_ERROR_MAX_LIMIT_REACHED;
  *record = reinterpret_cast<CUpti_Activity*>(next);
  return CUPTI_SUCCESS;
}

EXPORT CUptiResult cuptiGetTimestamp(uint64_t* timestamp) {
  *timestamp = now();
  return CUPTI_SUCCESS;
}

EXPORT CUptiResult cuptiGetResultString(CUptiResult, const char** text) {
  *text = "CUPTI_ERROR_FAKE";
  return CUPTI_SUCCESS;
}

EXPORT CUptiResult cuptiGetGraphNodeId(CUgraphNode node, uint64_t* id) {
  *id = reinterpret_cast<uint64_t>(node);
  return CUPTI_SUCCESS;
}

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
  s.dropped = 0;
  s.finalized = 0;
  if (s.callback == others_callback) s.callback = nullptr;
}

EXPORT size_t fake_count(const char* what) {
  std::lock_guard lock(state().mutex);
  if (std::strcmp(what, "kinds") == 0) return state().kinds.size();
  if (std::strcmp(what, "subscribed") == 0) return state().callback != nullptr;
  if (std::strcmp(what, "held buffers") == 0) return state().held != nullptr;
  if (std::strcmp(what, "thread id type") == 0) return state().thread_id_type;
  if (std::strcmp(what, "finalized") == 0) return state().finalized;
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
