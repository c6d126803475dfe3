// Device activity in a compact form for all kinds of devices: a source appends, and decoding a window reads.
// Times are in nanoseconds of the device's clock.
//
// Codes of copies, memories and synchronisations are those of CUPTI's enums, which the tables of a trace use.
// Other sources convert theirs.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>
#include <vector>

#include "schema/codes.h"

namespace opscope::gpu {

// Grows by blocks, so that rows never move and a million rows cause no pause.
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

constexpr uint32_t kUnknownDevice = UINT32_MAX;  // of the context, once that is known

// Synchronisations up to this code wait for a recorded event.
constexpr uint8_t kStreamWaitsForEvent = 2;

// A row of the gpu table.
struct Work {
  uint64_t start, end, queued, submitted, graph_node;
  int64_t bytes;
  uint32_t correlation, device, context, stream, graph, name;
  uint32_t grid[3], block[3];
  int32_t registers, shared_memory;
  uint32_t event;  // event of the wait
  GpuKind kind;
  uint8_t copy_kind, source_memory, destination_memory, sync_kind;
  int8_t peer_device, target_device;
};

// A call of the device's runtime or driver.
struct Call {
  uint64_t start, end;
  uint32_t thread, correlation, function, result;
  RuntimeApi api;
  bool is_notable;  // shown even if no work has its correlation id
};

struct MemoryOperation {
  uint64_t time, address;
  int64_t bytes;
  uint32_t correlation, device, memory_kind;
  AllocationAction action;
  bool is_pool;
};

struct Overhead {
  uint64_t start, end;
  uint32_t kind, thread;  // thread 0: none
};

// An event of the device's runtime, recorded on a stream; waits refer to it.
struct EventRecord {
  uint32_t event, correlation, stream;
};

struct Counts {
  uint64_t recorded = 0;
  uint64_t over_budget = 0;  // this log was full
  uint64_t dropped = 0;      // by the library, for lack of a buffer
  uint64_t unfinished = 0;   // delivered without times
  uint64_t unknown = 0;      // of unknown kinds
  uint64_t noise = 0;        // calls without information
};

// Writers and readers hold mutex().
class GpuLog {
 public:
  explicit GpuLog(size_t max_bytes) : max_bytes_(max_bytes) {}

  std::mutex& mutex() { return mutex_; }

  // Counts an arriving record. False: there is no room, and the record is left out.
  bool accept() {
    const bool has_room = bytes() < max_bytes_;
    ++(has_room ? counts.recorded : counts.over_budget);
    return has_room;
  }
  // Adds a row of work with only these columns set.
  Work& add_work(GpuKind kind, uint64_t start, uint64_t end);
  // Id of a kernel's name; equal texts have equal ids.
  uint32_t kernel_name(const char* name);

  // Removes all rows. Names and contexts stay valid for later windows.
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
  size_t bytes() const {
    return work.bytes() + calls.bytes() + memory.bytes() + overheads.bytes() + events.bytes();
  }

  std::mutex mutex_;
  size_t max_bytes_;
  std::unordered_map<std::string, uint32_t> name_ids_;
  std::unordered_map<const char*, uint32_t> name_at_;  // libraries give each kernel's name one address
};

}  // namespace opscope::gpu
