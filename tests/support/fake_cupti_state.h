// What the fake CUPTI knows, and how records get to the subscriber; see fake_cupti.cpp.
#pragma once

#include <cupti.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <mutex>
#include <random>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#define EXPORT extern "C" __attribute__((visibility("default")))

namespace fake {

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
  size_t lost = 0;       // in all, told or not yet
  size_t delivered = 0;  // in all
  std::map<std::pair<int, uint32_t>, std::string> call_names;
  size_t subscriptions = 0;
  uint8_t* held = nullptr;  // a buffer that waits for records
  size_t held_size = 0;
  std::set<std::pair<uint32_t, uint32_t>> silenced;  // kind and function
  size_t finalized = 0;
  size_t thread_id_type = 0;
  bool buffers_are_zero = false;  // as the subscriber says
  size_t zeroed = 0;              // buffers that it had not said to be
  size_t not_zero = 0;            // buffers that it had, and were not
};

inline State& state() {
  static State* only = new State;
  return *only;
}

inline int setting(const char* name) {
  const auto found = state().settings.find(name);
  return found == state().settings.end() ? 0 : found->second;
}

inline uint64_t now() {
  if (state().timestamp != nullptr) return state().timestamp();
  timespec time{};
  clock_gettime(CLOCK_REALTIME, &time);
  return static_cast<uint64_t>(time.tv_sec) * 1'000'000'000 + static_cast<uint64_t>(time.tv_nsec);
}

inline uint32_t thread_id() { return static_cast<uint32_t>(syscall(SYS_gettid)); }

template <typename R>
R zeroed(CUpti_ActivityKind kind) {
  R record;
  std::memset(&record, 0, sizeof(record));
  record.kind = kind;
  return record;
}

// A buffer of the subscriber's, or nullptr; CUPTI needs it zero.
inline void request(uint8_t*& buffer, size_t& size) {
  State& s = state();
  size_t max_records = 0;
  s.request(&buffer, &size, &max_records);
  if (buffer == nullptr) return;
  if (!s.buffers_are_zero) {
    ++s.zeroed;
    std::memset(buffer, 0, size);
  } else if (buffer[0] != 0 || std::memcmp(buffer, buffer + 1, size - 1) != 0) {
    ++s.not_zero;
  }
}

template <typename R>
void emit(const R& record, bool finished = true) {
  if (state().kinds.count(record.kind) == 0) return;
  State& s = state();
  if (s.held == nullptr) request(s.held, s.held_size);
  Bytes bytes(sizeof(R));
  std::memcpy(bytes.data(), &record, sizeof(R));
  (finished ? state().complete_records : state().pending).push_back(std::move(bytes));
}

inline size_t record_size(uint32_t kind) {
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

// What cuptiActivityGetNumDroppedRecords will say.
inline void note_lost(size_t records) {
  std::lock_guard lock(state().mutex);
  state().dropped += records;
  state().lost += records;
}

// Delivers records in buffers of the subscriber's; those that get none are dropped and counted.
// `buffer` is one it provided earlier, or nullptr.
inline void deliver(std::vector<Bytes> records, uint8_t* buffer, size_t size) {
  State& s = state();
  if (setting("out_of_order")) std::reverse(records.begin(), records.end());
  if (setting("shuffled")) std::shuffle(records.begin(), records.end(), std::mt19937(setting("shuffled")));
  const size_t per_buffer = setting("records_per_buffer") ? setting("records_per_buffer") : SIZE_MAX;
  size_t next = 0;
  while (next < records.size()) {
    if (buffer == nullptr) request(buffer, size);
    if (buffer == nullptr || size == 0) {
      note_lost(records.size() - next);
      s.complete(nullptr, 0, nullptr, 0, 0);
      return;
    }
    const size_t first = next;
    size_t used = 0;
    for (size_t count = 0; next < records.size() && count < per_buffer; ++count, ++next) {
      if (used + records[next].size() > size) break;
      std::memcpy(buffer + used, records[next].data(), records[next].size());
      used += records[next].size();
    }
    {
      std::lock_guard lock(s.mutex);
      s.delivered += next - first;
    }
    s.complete(nullptr, 0, std::exchange(buffer, nullptr), size, used);
  }
  if (buffer != nullptr || records.empty()) s.complete(nullptr, 0, buffer, size, 0);
}

// The same from several threads at once, as work of several contexts completes; of every "lose_one_in"
// records one finds no room.
inline void deliver_from_threads(std::vector<Bytes> records, uint8_t* buffer, size_t size) {
  if (const auto every = static_cast<size_t>(setting("lose_one_in")); every != 0) {
    const size_t before = records.size();
    size_t number = 0;
    std::erase_if(records, [&](const Bytes&) { return ++number % every == 0; });
    note_lost(before - records.size());
  }
  const auto threads = static_cast<size_t>(std::max(setting("threads"), 1));
  std::vector<std::vector<Bytes>> parts(threads);
  for (size_t i = 0; i < records.size(); ++i) parts[i % threads].push_back(std::move(records[i]));
  std::vector<std::thread> others;
  for (size_t i = 1; i < threads; ++i) {
    others.emplace_back([part = std::move(parts[i])]() mutable { deliver(std::move(part), nullptr, 0); });
  }
  deliver(std::move(parts[0]), buffer, size);
  for (std::thread& other : others) other.join();
}

inline uint32_t call(CUpti_ActivityKind api, uint32_t function, uint64_t start, uint32_t correlation) {
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
  if (setting("before_launch")) start = now() - 10'000'000;
  if (setting("overlap")) start = now() + kSubmitNs;
  record.start = start;
  record.end = busy = start + duration;
  record.deviceId = device;
  record.contextId = device + 1;
  record.streamId = stream;
}

inline void graph_callback(CUpti_CallbackId id, uint64_t node, uint64_t original) {
  State& s = state();
  if (s.callback == nullptr || s.callbacks.count(id) == 0) return;
  CUpti_GraphData graph{};
  graph.node = reinterpret_cast<CUgraphNode>(node);
  graph.originalNode = reinterpret_cast<CUgraphNode>(original);
  CUpti_ResourceData resource{};
  resource.resourceDescriptor = &graph;
  s.callback(s.user, CUPTI_CB_DOMAIN_RESOURCE, id, &resource);
}

inline void add_kernel(uint32_t correlation, const char* name, uint32_t device, uint32_t stream,
                       uint64_t duration, uint64_t node) {
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

}  // namespace fake
