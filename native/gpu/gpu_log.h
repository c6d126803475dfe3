// What CUPTI delivered, in our own compact form: filled by one thread that parses its buffers, read
// when a window is decoded. Times are CUPTI's until then.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>
#include <vector>

#include "gpu/cupti_library.h"

namespace opscope::gpu {

// Grows by blocks, so that nothing is ever moved and a million rows cost no pause.
template <typename T>
class Blocks {
 public:
  static constexpr size_t kRows = 4096;
  T& append() {
    if (size_ == blocks_.size() * kRows) blocks_.push_back(std::make_unique<std::array<T, kRows>>());
    const size_t row = size_++;
    return (*blocks_[row / kRows])[row % kRows];
  }
  const T& operator[](size_t row) const { return (*blocks_[row / kRows])[row % kRows]; }
  size_t size() const { return size_; }
  size_t bytes() const { return blocks_.size() * kRows * sizeof(T); }
  void clear() {
    blocks_.clear();
    size_ = 0;
  }

 private:
  std::vector<std::unique_ptr<std::array<T, kRows>>> blocks_;
  size_t size_ = 0;
};

enum class WorkKind : uint8_t { kKernel = 0, kCopy = 1, kSet = 2, kSynchronization = 3 };

// A row of the gpu table.
struct Work {
  uint64_t start, end, queued, submitted, graph_node;
  int64_t bytes;
  uint32_t correlation, device, context, stream, graph, name;
  uint32_t grid[3], block[3];
  int32_t registers, shared_memory;
  uint32_t event;  // CUDA event waited for
  WorkKind kind;
  uint8_t copy_kind, source_memory, destination_memory, sync_kind;
  int8_t peer_device, target_device;
};

struct Call {
  uint64_t start, end;
  uint32_t thread, correlation, function, result;
  uint8_t api;  // 0 runtime, 1 driver
};

struct MemoryOperation {
  uint64_t time, address;
  int64_t bytes;
  uint32_t correlation, device, memory_kind;
  uint8_t action;
  bool is_pool;
};

struct Overhead {
  uint64_t start, end;
  uint32_t kind, thread;  // thread 0: not of one
};

struct EventRecord {
  uint32_t event, correlation, stream;
};

struct Counts {
  uint64_t recorded = 0;
  uint64_t over_budget = 0;  // no room left in this log
  uint64_t dropped = 0;      // by CUPTI: no buffer for them
  uint64_t unfinished = 0;   // delivered without times
  uint64_t unknown = 0;      // of kinds we do not know
  uint64_t noise = 0;        // calls that tell nothing
};

class GpuLog {
 public:
  explicit GpuLog(size_t max_bytes) : max_bytes_(max_bytes) {}

  // [one thread] Appends the records of a buffer; the caller holds mutex().
  void parse(const cupti::Library& library, uint8_t* buffer, size_t valid);

  std::mutex& mutex() { return mutex_; }
  void clear();
  void set_max_bytes(size_t bytes) { max_bytes_ = bytes; }

  Blocks<Work> work;
  Blocks<Call> calls;
  Blocks<MemoryOperation> memory;
  Blocks<Overhead> overheads;
  Blocks<EventRecord> events;
  std::vector<std::string> kernel_names;
  std::unordered_map<uint32_t, uint32_t> device_of_context;
  Counts counts;

 private:
  bool has_room();
  void add(const cupti::Library& library, const void* record);
  template <typename R>
  Work& add_work(const R& record, WorkKind kind);
  template <typename R>
  void add_copy(const R& record, int8_t peer_device, int8_t target_device);
  void add_kernel(const void* record);
  void add_set(const void* record);
  void add_call(const void* record, uint8_t api);
  void add_synchronization(const void* record);
  void add_memory(const void* record);
  void add_memory_pool(const void* record);
  void add_overhead(const void* record);
  uint32_t kernel_name(const char* name);

  std::mutex mutex_;
  size_t max_bytes_;
  std::unordered_map<std::string, uint32_t> name_ids_;
  std::unordered_map<const char*, uint32_t> name_at_;  // CUPTI gives a kernel's name one address
};

}  // namespace opscope::gpu
