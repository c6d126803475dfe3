// ROCm devices, from roctracer: on while a window wants them, off otherwise.
//
// roctracer fills buffers of its own and shows each when it is full or flushed, on a thread of its choice.
// Its records have nanoseconds of its clock, which becomes ours by two comparisons.
#pragma once

#include <cstdint>
#include <string>
#include <unordered_map>
#include <vector>

#include "gpu/device_source.h"
#include "roctracer/roctracer_library.h"

namespace opscope::roctracer {

class RoctracerSource final : public gpu::DeviceSource {
 public:
  explicit RoctracerSource(gpu::GpuLog& log) : log_(log) {}

  int8_t device_type() const override;
  std::string load(const std::vector<std::string>& candidates) override;
  std::string start(bool with_events, bool may_share) override;
  void pause() override;
  void stop() override;
  void collect() override;
  void forget() override { has_clock_ = false; }
  // What roctracer holds is its own.
  void set_buffer_budget(size_t /*bytes*/) override {}
  gpu::DeviceClock clock() override;
  gpu::SourceState state() override;
  std::string call_name(RuntimeApi api, uint32_t function) const override;

 private:
  static void show_buffer(const char* begin, const char* end, void* source);
  std::string refused(const char* what) const;
  void parse(const Record* record, const Record* end);
  void add(const Record& record);
  void add_call(const Record& record);
  void add_copy(const Record& record);
  bool is_noise(uint32_t function);
  gpu::DeviceClock::Point read_clocks() const;

  gpu::GpuLog& log_;
  Library library_{};
  void* pool_ = nullptr;
  bool collects_ = false;
  bool has_clock_ = false;
  gpu::DeviceClock::Point started_, ended_;
  std::unordered_map<uint32_t, bool> noise_;  // by function; under the log's mutex
};

// For GpuActivity::set_source.
gpu::DeviceSource* make_roctracer_source(gpu::GpuLog& log, gpu::GraphNodes& nodes);

}  // namespace opscope::roctracer
