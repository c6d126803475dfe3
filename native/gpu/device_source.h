// Interface to a vendor's tracing library, for recording a kind of devices. CUPTI (native/cupti/) implements
// it.
//
// A source finds its library at run time and appends to its log: work, calls of the device's runtime, driver
// allocations, overheads. Times are in nanoseconds of the device; `clock` converts them to ticks.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "gpu/gpu_log.h"
#include "gpu/graph_nodes.h"
#include "log/clock.h"

namespace opscope::gpu {

// Linear relation between a device's nanoseconds and the recorder's ticks.
//
// A library that accepts a clock (CUPTI) reads the recorder's ticks through it, and decoding inverts it:
// times are exact. Otherwise it is fitted to two comparisons of both clocks.
class DeviceClock {
 public:
  struct Point {
    uint64_t device_ns = 0;
    uint64_t ticks = 0;
    uint64_t gap_ticks = 0;  // between the two readings of ticks around that of the device's clock
  };

  // Both clocks at one time: the fastest of several readings.
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
  // Libraries call this twice per call by the program, so it multiplies by the reciprocal.
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

// Facts of a source, for a trace's ledger and metadata.
struct SourceState {
  std::string library_name;
  std::string library_path;
  uint32_t library_version = 0;
  bool clock_is_ours = false;              // the library reads the recorder's clock: times need no conversion
  double clock_error_ns = 0;               // otherwise: maximum error of a converted time
  uint64_t refused_buffers = 0;            // requests of the library when the budget was used up
  std::vector<std::string> missing_kinds;  // kinds of records that this library or machine lacks
};

// GpuActivity makes all calls, one at a time, on any thread that does not hold the log's mutex. A source is
// never destroyed: threads of the library may be in it when the process ends. A forked child has a new one,
// because the parent's threads may have held the old one's locks.
class DeviceSource {
 public:
  DeviceSource() = default;
  DeviceSource(const DeviceSource&) = delete;
  DeviceSource& operator=(const DeviceSource&) = delete;

  // DeviceType of its devices (schema/codes.h); the same as torch's for their tensors.
  virtual int8_t device_type() const = 0;
  // Loads the first of `candidates` (paths or names for dlopen) that is suitable. Returns the reason of a
  // failure, or an empty string. Called until it has succeeded once.
  virtual std::string load(const std::vector<std::string>& candidates) = 0;
  // Begins or resumes collecting. `with_events`: also which recorded event a wait is for. `may_share`: other
  // clients of the library are known to collect nothing. Returns the reason of a failure, or an empty string;
  // after a failure the state is as after stop().
  virtual std::string start(bool with_events, bool may_share) = 0;
  // Collects nothing until start(); stays attached.
  virtual void pause() = 0;
  // Delivers everything and detaches from the library. Idempotent.
  virtual void stop() = 0;
  // Appends all finished activity to the log before it returns; call it between start() and stop().
  virtual void collect() = 0;
  // Appends finished activity that needs no wait. Running work may delay its neighbours in a buffer.
  virtual void deliver() { collect(); }
  // After stop(): drops counts and everything delivered.
  virtual void forget() = 0;
  // Limits the bytes of the library's buffers.
  virtual void set_buffer_budget(size_t bytes) = 0;

  // Relation of the device's clock to the recorder's, for activity since forget().
  virtual DeviceClock clock() = 0;
  virtual SourceState state() = 0;
  // Name of a function of the runtime or the driver.
  virtual std::string call_name(RuntimeApi api, uint32_t function) const = 0;

 protected:
  ~DeviceSource() = default;
};

using MakeSource = DeviceSource* (*)(GpuLog& log, GraphNodes& nodes);

}  // namespace opscope::gpu
