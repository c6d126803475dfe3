// What opscope needs of a kind of devices to record what they do: the vendor's library behind one
// interface. CUPTI (native/cupti/) is one; another vendor's tracing library would be another.
//
// A source finds its library at run time and appends to the log it was made with: work, calls of the
// device's runtime, driver allocations, overheads. Times stay in nanoseconds of the device's clock;
// `clock` says how they become the recorder's ticks.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "gpu/gpu_log.h"
#include "gpu/graph_nodes.h"
#include "log/clock.h"

namespace opscope::gpu {

// A device's nanoseconds and the recorder's ticks, as a straight line between them.
//
// A library that can be given a clock (CUPTI) reads the recorder's ticks through such a line, and decoding
// inverts it: times are exact. Where it keeps its own, the line goes through two comparisons of both clocks.
class DeviceClock {
 public:
  struct Point {
    uint64_t device_ns = 0;
    uint64_t ticks = 0;
    uint64_t gap_ticks = 0;  // between the two reads of ticks around the one of the device's clock
  };

  // Both clocks at one moment: of several readings the one that took least.
  static Point read(int (*get_timestamp)(uint64_t* device_ns)) {
    Point best{0, 0, UINT64_MAX};
    for (int attempt = 0; attempt < 32; ++attempt) {
      uint64_t device_ns = 0;
      const uint64_t before = now_ticks();
      get_timestamp(&device_ns);
      const uint64_t gap = now_ticks() - before;
      if (gap < best.gap_ticks) best = {device_ns, before + gap / 2, gap};
    }
    return best;
  }

  DeviceClock() = default;
  DeviceClock(Point from, Point to) : from_(from) {
    const auto elapsed = static_cast<double>(static_cast<int64_t>(to.device_ns - from.device_ns));
    const auto ticks = static_cast<double>(static_cast<int64_t>(to.ticks - from.ticks));
    if (elapsed > 0 && ticks > 0) ticks_per_ns_ = static_cast<int64_t>(ticks / elapsed * kOne);
    ns_per_tick_ = static_cast<int64_t>((static_cast<__int128>(1) << 80) / ticks_per_ns_);
  }

  bool is_set() const { return from_.ticks != 0 || from_.device_ns != 0; }

  uint64_t ticks(uint64_t device_ns) const {
    const auto elapsed = static_cast<int64_t>(device_ns - from_.device_ns);
    return from_.ticks + static_cast<uint64_t>((static_cast<__int128>(elapsed) * ticks_per_ns_) >> 32);
  }
  // A library asks for this twice per call of the program's, so it multiplies by the reciprocal.
  uint64_t device_ns(uint64_t ticks) const {
    const auto elapsed = static_cast<int64_t>(ticks - from_.ticks);
    return from_.device_ns + static_cast<uint64_t>((static_cast<__int128>(elapsed) * ns_per_tick_) >> 48);
  }

 private:
  static constexpr double kOne = 4294967296.0;
  Point from_;
  int64_t ticks_per_ns_ = int64_t{1} << 32;
  int64_t ns_per_tick_ = int64_t{1} << 48;
};

// What a source says of itself: the ledger and the metadata of a trace tell it.
struct SourceState {
  std::string library_name;  // what the library is called
  std::string library_path;
  uint32_t library_version = 0;
  bool clock_is_ours = false;              // the library reads the recorder's clock: times need no converting
  double clock_error_ns = 0;               // else: how far off a converted time can be
  uint64_t refused_buffers = 0;            // the library asked for one when the budget was used up
  std::vector<std::string> missing_kinds;  // of records that this library or machine has not
};

// All calls come from GpuActivity, one at a time, from any thread that does not hold the log's mutex.
// A source is never destroyed: threads of the library may be in it whenever the process ends. A forked
// child has a new one, because the old one's locks may be held by threads that the child does not have.
class DeviceSource {
 public:
  DeviceSource() = default;
  DeviceSource(const DeviceSource&) = delete;
  DeviceSource& operator=(const DeviceSource&) = delete;

  // DeviceType of its devices (schema/codes.h), which is torch's for their tensors.
  virtual int8_t device_type() const = 0;
  // Loads the library: the first of `candidates` (paths or names for dlopen) that fits. Returns why that
  // is impossible, or an empty string. Called until it has worked once.
  virtual std::string load(const std::vector<std::string>& candidates) = 0;
  // Begins or goes on collecting; `with_events`: also which recorded event a wait is for. `may_share`: what
  // else is attached to the library is known to collect nothing, so that it does no harm. Returns why it
  // cannot, or an empty string; then it is as after stop().
  virtual std::string start(bool with_events, bool may_share) = 0;
  // Collects nothing until start(), but keeps what it has set up.
  virtual void pause() = 0;
  // Has everything delivered and leaves nothing of ours in the library. Idempotent.
  virtual void stop() = 0;
  // Has everything that is over appended to the log before it returns; while started or stopped.
  virtual void collect() = 0;
  // Has what is over and costs no wait appended to the log; what runs may keep back what is beside it.
  virtual void deliver() { collect(); }
  // While stopped: nothing that was delivered is needed, nor its counts.
  virtual void forget() = 0;
  // How many bytes of buffers the library may hold.
  virtual void set_buffer_budget(size_t bytes) = 0;

  // The device's clock and the recorder's, for what was collected since forget().
  virtual DeviceClock clock() = 0;
  virtual SourceState state() = 0;
  // Name of a function of the runtime or of the driver.
  virtual std::string call_name(RuntimeApi api, uint32_t function) const = 0;

 protected:
  ~DeviceSource() = default;
};

using MakeSource = DeviceSource* (*)(GpuLog& log, GraphNodes& nodes);

}  // namespace opscope::gpu
