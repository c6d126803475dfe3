// CUDA devices through CUPTI, attached only while a window wants them.
//
// CUPTI fills opscope's buffers. It requests and returns them on any threads, even the program's.
//
// A process has one CUPTI for all its clients, such as torch's profiler and Nsight. So stop() detaches
// completely: CUPTI returns every buffer, all kinds of records are off, and the subscription ends. Callers
// wait for the device first, because running work of a kind that is switched off may never be reported.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "cupti/cupti_library.h"
#include "gpu/device_source.h"
#include "gpu/gpu_log.h"
#include "gpu/record_buffers.h"

namespace opscope::cupti {

// Appends the records of a buffer; the caller holds log.mutex(). May raise std::bad_alloc.
void parse_buffer(const Library& library, uint8_t* buffer, size_t valid, gpu::GpuLog& log);

class CuptiSource final : public gpu::DeviceSource {
 public:
  CuptiSource(gpu::GpuLog& log, gpu::GraphNodes& nodes);

  int8_t device_type() const override;
  std::string load(const std::vector<std::string>& candidates) override;
  std::string start(bool with_events, bool may_share) override;
  void pause() override;
  void stop() override;
  void collect() override;
  void deliver() override;
  void forget() override;
  void set_buffer_budget(size_t bytes) override { buffers_.set_budget(bytes); }
  gpu::DeviceClock clock() override;
  gpu::SourceState state() override;
  std::string call_name(RuntimeApi api, uint32_t function) const override;

 private:
  std::string attach(bool may_share);
  std::string subscribe(bool may_share);
  std::string turn_on_kinds(bool with_events);
  int turn_on(uint32_t kind);
  bool set_clock();
  void set_our_line();
  void disable_noisy_calls();
  void set_zeroed_buffers(bool are_zero);
  void flush();
  void wait_until_parsed();
  void detach();
  void parse(uint8_t* buffer, size_t valid) noexcept;
  double clock_error_ns() const;
  gpu::DeviceClock::Point read_clocks() const;
  void add_node(void* node, void* original);

  // CUPTI calls these on any thread. Those without a `user` find the source in a variable.
  static void request_buffer(uint8_t** buffer, size_t* bytes, size_t* max_records);
  static void complete_buffer(void* context, uint32_t stream, uint8_t* buffer, size_t bytes, size_t valid);
  static void on_callback(void* user, int domain, uint32_t id, const void* data);
  static uint64_t timestamp();

  gpu::GpuLog& log_;
  gpu::GraphNodes& nodes_;
  gpu::RecordBuffers buffers_;

  Library library_{};
  void* subscriber_ = nullptr;
  bool attached_ = false;        // opscope's callbacks are in CUPTI
  bool shares_ = false;          // attached without a subscription
  std::vector<uint32_t> kinds_;  // enabled kinds
  std::vector<std::string> missing_kinds_;

  // Relation of CUPTI's nanoseconds to ticks with opscope's clock. Set once, so that earlier windows keep
  // their times.
  gpu::DeviceClock our_clock_;
  bool clock_is_ours_ = false;
  bool has_clock_ = false;                   // the clock of activity since forget() is known
  gpu::DeviceClock::Point started_, ended_;  // of CUPTI's own clock, if it rejects opscope's
};

// For GpuActivity::set_source.
gpu::DeviceSource* make_cupti_source(gpu::GpuLog& log, gpu::GraphNodes& nodes);

}  // namespace opscope::cupti
