// A roctracer without a GPU, for tests: the functions that opscope calls, and what is played through them.
// There are no headers of ROCm's to compile it from, so its record is declared here once more, as AMD's
// documentation has it.
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
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

namespace {

enum { ACTIVITY_DOMAIN_HIP_OPS = 2, ACTIVITY_DOMAIN_HIP_API = 3 };
enum { HIP_OP_ID_DISPATCH = 0, HIP_OP_ID_COPY = 1 };

struct activity_record_t {
  uint32_t domain;
  uint32_t kind;
  uint32_t op;
  uint64_t correlation_id;
  uint64_t begin_ns;
  uint64_t end_ns;
  union {
    struct {
      int device_id;
      uint64_t queue_id;
    };
    struct {
      uint32_t process_id;
      uint32_t thread_id;
    };
  };
  union {
    size_t bytes;
    const char* kernel_name;
  };
};

struct roctracer_properties_t {
  uint32_t mode;
  size_t buffer_size;
  void (*alloc_fun)(char** ptr, size_t size, void* arg);
  void* alloc_arg;
  void (*buffer_callback_fun)(const char* begin, const char* end, void* arg);
  void* buffer_callback_arg;
};

// As in fake_cupti_play.cpp.
struct Played {
  uint64_t start, end, bytes, graph_node;
  uint32_t kind, correlation, device, context, stream, name;
  uint32_t grid[3], block[3];
  uint32_t registers, shared_memory, copy_kind, source, target, event, sync_type, graph;
};

constexpr uint32_t kKernel = 10, kCopy = 1, kSet = 2;  // kinds of Played

struct State {
  std::mutex mutex;
  roctracer_properties_t properties{};
  size_t pools = 0;
  std::set<uint32_t> domains;
  std::vector<activity_record_t> records;
  std::map<uint32_t, std::string> call_names;
  std::set<std::string> names;
  std::map<std::string, int> settings;
  size_t delivered = 0;
};

State& state() {
  static State* only = new State;
  return *only;
}

uint64_t now() {
  timespec time{};
  clock_gettime(CLOCK_MONOTONIC, &time);
  return static_cast<uint64_t>(time.tv_sec) * 1'000'000'000 + static_cast<uint64_t>(time.tv_nsec);
}

int setting(const char* name) { return state().settings[name]; }

void emit(const activity_record_t& record) {
  if (state().domains.count(record.domain) != 0) state().records.push_back(record);
}

void show(const std::vector<activity_record_t>& records, const roctracer_properties_t& properties,
          size_t most) {
  for (size_t first = 0; first < records.size(); first += most) {
    const size_t count = std::min(most, records.size() - first);
    const auto* begin = reinterpret_cast<const char*>(records.data() + first);
    properties.buffer_callback_fun(begin, begin + count * sizeof(activity_record_t),
                                   properties.buffer_callback_arg);
  }
}

}  // namespace

EXPORT uint32_t roctracer_version_major() { return 4; }
EXPORT uint32_t roctracer_version_minor() { return 1; }
EXPORT const char* roctracer_error_string() { return "refused by the test"; }

EXPORT int roctracer_open_pool_expl(const roctracer_properties_t* properties, void** pool) {
  if (setting("no_pool")) return -1;
  state().properties = *properties;
  ++state().pools;
  *pool = &state();
  return 0;
}

EXPORT int roctracer_close_pool_expl(void*) {
  --state().pools;
  return 0;
}

EXPORT int roctracer_enable_domain_activity_expl(uint32_t domain, void*) {
  if (setting("no_domain") == static_cast<int>(domain)) return -1;
  state().domains.insert(domain);
  return 0;
}

EXPORT int roctracer_disable_domain_activity(uint32_t domain) {
  state().domains.erase(domain);
  return 0;
}

EXPORT int roctracer_flush_activity_expl(void*) {
  State& s = state();
  std::vector<activity_record_t> records;
  size_t most = 0, threads = 0;
  {
    std::lock_guard lock(s.mutex);
    records.swap(s.records);
    s.delivered += records.size();
    most = setting("records_per_buffer") ? setting("records_per_buffer") : SIZE_MAX / 2;
    threads = std::max(setting("threads"), 1);
    if (setting("shuffled")) std::shuffle(records.begin(), records.end(), std::mt19937(setting("shuffled")));
  }
  std::vector<std::vector<activity_record_t>> parts(threads);
  for (size_t i = 0; i < records.size(); ++i) parts[i % threads].push_back(records[i]);
  std::vector<std::thread> showing;
  for (const auto& part : parts) {
    showing.emplace_back([&part, &s, most] { show(part, s.properties, most); });
  }
  for (std::thread& thread : showing) thread.join();
  return 0;
}

EXPORT int roctracer_next_record(const activity_record_t* record, const activity_record_t** next) {
  *next = record + 1;
  return 0;
}

EXPORT int roctracer_get_timestamp(uint64_t* timestamp) {
  *timestamp = now();
  return 0;
}

EXPORT const char* roctracer_op_string(uint32_t domain, uint32_t op, uint32_t kind) {
  static const char* const copies[] = {"CopyHostToDevice", "CopyDeviceToHost", "CopyDeviceToDevice",
                                       "FillBuffer"};
  if (domain == ACTIVITY_DOMAIN_HIP_OPS) return op == HIP_OP_ID_COPY && kind < 4 ? copies[kind] : "Dispatch";
  std::lock_guard lock(state().mutex);
  const auto found = state().call_names.find(op);
  return found == state().call_names.end() ? nullptr : found->second.c_str();
}

// -- the script ----------------------------------------------------------------------------------------

EXPORT void fake_set(const char* name, int value) {
  std::lock_guard lock(state().mutex);
  state().settings[name] = value;
}

EXPORT void fake_reset() {
  std::lock_guard lock(state().mutex);
  state().settings.clear();
  state().records.clear();
  state().delivered = 0;
}

EXPORT size_t fake_count(const char* what) {
  std::lock_guard lock(state().mutex);
  if (std::strcmp(what, "pools") == 0) return state().pools;
  if (std::strcmp(what, "domains") == 0) return state().domains.size();
  return std::strcmp(what, "delivered") == 0 ? state().delivered : 0;
}

EXPORT uint64_t fake_begin_call() { return now(); }

EXPORT void fake_end_call(int, uint32_t function, uint64_t start, uint32_t correlation) {
  std::lock_guard lock(state().mutex);
  activity_record_t record{};
  record.domain = ACTIVITY_DOMAIN_HIP_API;
  record.op = function;
  record.begin_ns = start;
  record.end_ns = now() + 1;
  record.correlation_id = correlation;
  record.process_id = static_cast<uint32_t>(getpid());
  record.thread_id = static_cast<uint32_t>(syscall(SYS_gettid));
  emit(record);
}

EXPORT void fake_name_call(int, uint32_t function, const char* name) {
  std::lock_guard lock(state().mutex);
  state().call_names[function] = name;
}

EXPORT void fake_play(const Played* rows, size_t count, const char* const* names) {
  std::lock_guard lock(state().mutex);
  for (size_t i = 0; i < count; ++i) {
    const Played& row = rows[i];
    activity_record_t record{};
    record.domain = ACTIVITY_DOMAIN_HIP_OPS;
    record.op = row.kind == kKernel ? HIP_OP_ID_DISPATCH : HIP_OP_ID_COPY;
    if (row.kind == kCopy) record.kind = row.copy_kind == 1 ? 0 : row.copy_kind == 2 ? 1 : 2;
    if (row.kind == kSet) record.kind = 3;
    record.begin_ns = row.start;
    record.end_ns = row.end;
    record.correlation_id = row.correlation;
    record.device_id = static_cast<int>(row.device);
    record.queue_id = row.stream;
    record.bytes = row.bytes;
    if (row.kind == kKernel) record.kernel_name = state().names.insert(names[row.name]).first->c_str();
    emit(record);
  }
}

EXPORT size_t fake_played_bytes() { return sizeof(Played); }
EXPORT void fake_flush() { roctracer_flush_activity_expl(nullptr); }
EXPORT void fake_finish() {}
