// A CUPTI without a GPU, for tests: the functions opscope calls, and fake_* functions that play what a
// program does. Compiled from NVIDIA's own headers, so records have the layout of that CUDA release.
//
// A test scripts activity call by call: launches, copies, graphs, waits. Each emits the records that
// CUPTI would emit, in buffers that the subscriber provides. fake_set(...) makes it misbehave.
#include "fake_cupti_state.h"

using namespace fake;

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
  const auto played = state().call_names.find({domain == CUPTI_CB_DOMAIN_DRIVER_API ? 1 : 0, id});
  if (played != state().call_names.end()) {
    *name = played->second.c_str();
    return CUPTI_SUCCESS;
  }
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

EXPORT CUptiResult cuptiActivitySetAttribute(CUpti_ActivityAttribute attribute, size_t* size, void* value) {
  if (attribute != CUPTI_ACTIVITY_ATTR_ZEROED_OUT_ACTIVITY_BUFFER) return CUPTI_ERROR_INVALID_PARAMETER;
  if (*size != sizeof(uint8_t)) return CUPTI_ERROR_PARAMETER_SIZE_NOT_SUFFICIENT;
  state().buffers_are_zero = *static_cast<uint8_t*>(value) != 0;
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
    deliver_from_threads(std::move(records), buffer, size);
  } else if (buffer != nullptr) {
    s.complete(nullptr, 0, buffer, size, 0);
  }
  return CUPTI_SUCCESS;
}

EXPORT CUptiResult cuptiActivityGetNumDroppedRecords(CUcontext, uint32_t, size_t* dropped) {
  std::lock_guard lock(state().mutex);
  *dropped = std::exchange(state().dropped, 0);
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
