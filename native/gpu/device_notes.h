// Device activity in the file of a streamed recording. Notes contain everything for decoding, so the file
// alone is readable, even after the process was killed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "gpu/device_source.h"

namespace opscope::gpu {

enum class NoteKind : uint32_t {
  kWork = 1,
  kCalls = 2,
  kMemory = 3,
  kOverheads = 4,
  kEventRecords = 5,
  kKernelNames = 6,  // names that earlier notes lack
  kCallNames = 7,
  kContexts = 8,
  kGraphNodes = 9,
  kSource = 10,  // replaces the last one
};

struct DeviceNote {
  NoteKind kind;
  std::string bytes;
};

using CallFunction = std::pair<uint32_t, uint32_t>;  // RuntimeApi, function

// Tracks which notes a stream has. For one thread at a time.
class DeviceNotes {
 public:
  // Notes that the stream of this window lacks, at most a few thousand rows per table. The note of the source
  // follows when all rows are noted. `delivered`: ticks of the delivery of the rows.
  std::vector<DeviceNote> next(uint32_t window, GpuLog& log, GraphNodes& nodes, DeviceSource& source,
                               uint64_t delivered);
  // The log has removed its rows.
  void forget_rows() { work_ = calls_ = memory_ = overheads_ = events_ = 0; }

 private:
  void note_rows(GpuLog& log, const DeviceSource& source);
  void note_names(GpuLog& log);
  void note_nodes(GraphNodes& nodes);
  template <typename T>
  void note_table(const Blocks<T>& rows, size_t& noted, NoteKind kind);

  uint32_t window_ = 0;
  size_t work_ = 0, calls_ = 0, memory_ = 0, overheads_ = 0, events_ = 0;  // noted rows
  size_t kernel_names_ = 0, contexts_ = 0;
  uint64_t nodes_until_ = 0;  // in ticks
  std::set<CallFunction> named_calls_;
  std::vector<DeviceNote> notes_;
};

// Data read from notes.
struct NotedDevices {
  // Call it for notes in order. Raises Damage for invalid notes.
  void add(NoteKind kind, std::string_view bytes);
  std::string call_name(RuntimeApi api, uint32_t function) const;

  bool has_source = false;  // otherwise nothing is known
  GpuLog log{SIZE_MAX};
  GraphNodes nodes;
  DeviceClock clock;
  SourceState source;
  int8_t device_type = 0;
  uint64_t delivered = 0;  // ticks of the last delivery
  std::map<CallFunction, std::string> call_names;
};

}  // namespace opscope::gpu
