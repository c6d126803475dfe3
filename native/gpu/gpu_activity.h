// GPU activity from CUPTI: on while a window wants it, off otherwise.
//
// CUPTI fills buffers of ours. It asks for them and hands them back on threads of its choice, the
// program's included, so those callbacks only move pointers; a thread of our own parses.
//
// CUPTI is one per process and others want it too: torch's own profiler, Nsight. So nothing of ours stays in
// it once no window wants devices: release() has every buffer handed back, switches all kinds off and
// gives the subscription up. Callers wait for the device first, because work that is still running when
// its kind is switched off may never be reported.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <unordered_map>
#include <utility>
#include <vector>

#include "gpu/cupti_library.h"
#include "gpu/gpu_clock.h"
#include "gpu/gpu_log.h"

namespace opscope {

struct Window;

// A node of a CUDA graph: where and when it was captured, or the node it is a copy of.
struct GraphNode {
  uint64_t original = 0;  // 0: it was captured
  uint64_t ticks = 0;
  int64_t thread = 0;
};

class GpuActivity {
 public:
  static GpuActivity& instance();

  // [MT] Where to look for CUPTI, best first; only before the first recording that wants it.
  void set_candidates(std::vector<std::string> paths);
  // [MT] Bytes of CUPTI's buffers and of what is kept of them.
  void set_budget(size_t buffer_bytes, size_t log_bytes);
  // [MT] Collects what `wanted` asks for. Returns why it cannot, or an empty string. `may_share`: a
  // subscription that another holds is known not to collect anything, so doing without one is harmless.
  std::string configure(uint32_t wanted, bool may_share = false);
  // [MT] Collects nothing until resumed, whatever windows want. Returns as configure().
  std::string pause(bool paused);
  // [MT] Has CUPTI deliver everything that is finished, and waits until it is parsed.
  void collect();
  // [MT] No window needs what was collected.
  void forget();

  bool active() const { return enabled_ != 0; }
  gpu::GpuLog& log() { return log_; }
  gpu::DeviceClock clock();
  double clock_error_ns();
  bool clock_is_ours() const { return clock_is_ours_; }
  std::string library_path() const { return library_.path; }
  uint32_t library_version() const { return library_.version; }
  std::string call_name(uint8_t api, uint32_t function) const;
  // [MT] The node that was captured for this one, if that was seen.
  bool find_capture(uint64_t node, uint64_t& captured, GraphNode& capture);
  // [MT] Every node that was captured, not cloned.
  std::vector<std::pair<uint64_t, GraphNode>> captures();
  uint64_t refused_buffers();
  std::vector<std::string> missing_kinds();

 private:
  struct Filled {
    uint8_t* buffer;
    size_t valid;
  };

  GpuActivity();
  std::string apply();
  std::string enable(uint32_t wanted);
  std::string attach();
  std::string subscribe();
  bool set_clock();
  void leave_out_noise();
  void flush();
  void wait_until_parsed();
  void disable();
  void release();
  void detach();
  bool start_parser();
  void parse_forever();
  void parse(const Filled& filled) noexcept;
  bool keep_buffer(uint8_t* buffer) noexcept;  // under buffers_mutex_; false if it is given back
  uint8_t* take_buffer();
  gpu::DeviceClock::Point read_clocks() const;
  void add_node(void* node, void* original);

  static void request_buffer(uint8_t** buffer, size_t* bytes, size_t* max_records);
  static void complete_buffer(void* context, uint32_t stream, uint8_t* buffer, size_t bytes, size_t valid);
  static void on_callback(void* user, int domain, uint32_t id, const void* data);
  static uint64_t timestamp();
  static void after_fork_in_child();

  std::mutex mutex_;  // configuration; never held while a buffer callback could need it
  std::vector<std::string> candidates_;
  cupti::Library library_{};
  bool loaded_ = false;
  void* subscriber_ = nullptr;
  bool attached_ = false;  // our callbacks are in CUPTI
  bool may_share_ = false;
  bool shares_ = false;  // attached without a subscription
  uint32_t enabled_ = 0;
  uint32_t wanted_ = 0;
  bool paused_ = false;
  std::vector<uint32_t> kinds_;
  std::vector<std::string> missing_kinds_;

  bool clock_is_ours_ = false;
  gpu::DeviceClock our_clock_;
  bool has_clock_ = false;
  gpu::DeviceClock::Point started_, ended_;  // of CUPTI's own clock, where it refuses ours

  std::mutex buffers_mutex_;
  std::condition_variable filled_or_idle_;
  std::vector<uint8_t*> free_;
  std::deque<Filled> filled_;
  size_t max_buffers_ = 64;  // a burst of a million records, if the parser gets no processor meanwhile
  size_t buffers_ = 0;
  uint64_t refused_buffers_ = 0;
  uint64_t dropped_ = 0;
  bool parsing_ = false;
  bool has_parser_ = false;

  std::mutex nodes_mutex_;
  std::unordered_map<uint64_t, GraphNode> nodes_;

  gpu::GpuLog log_;
};

}  // namespace opscope
