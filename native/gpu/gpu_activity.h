// Collects device activity while a window wants it, from the process's source.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "gpu/device_notes.h"
#include "gpu/device_source.h"

namespace opscope {

class GpuActivity {
 public:
  static GpuActivity& instance();

  // Sets the kind of recorded devices. Call it first, while nothing is collected.
  void set_source(gpu::MakeSource make);

  // [MT] Paths of the source's library, best first; call it before the first recording that wants devices.
  void set_candidates(std::vector<std::string> paths);
  // [MT] Limits the bytes of the library's buffers and of the log.
  void set_budget(size_t buffer_bytes, size_t log_bytes);
  // [MT] Collects what `wanted` includes. Returns the reason of a failure, or an empty string. Before a
  // caller ends collecting it waits for the device: work that still runs may never be reported. `may_share`:
  // other clients of the library are known to collect nothing.
  std::string configure(uint32_t wanted, bool may_share = false);
  // [MT] Collects nothing until resumed, even if windows want devices. Returns as configure().
  std::string pause(bool paused);
  // [MT] Appends all finished activity to the log.
  void collect();
  // [MT] Writes delivered activity to the stream's file, if there is one. `all`: also finished activity that
  // was not delivered. While something is collected, a thread calls this once a second.
  void note(bool all);
  // [MT] Stops that thread's calls of the library: the process ends, and the library may be unloaded first.
  // Stopping a recording later still writes notes.
  void stop_notes();
  // [MT] Drops all collected activity; no window needs it.
  void forget();

  gpu::GpuLog& log() { return log_; }
  gpu::GraphNodes& nodes() { return nodes_; }
  int8_t device_type() const { return source_->device_type(); }
  std::string call_name(RuntimeApi api, uint32_t function) const { return source_->call_name(api, function); }
  gpu::DeviceClock clock();
  gpu::SourceState state();

 private:
  GpuActivity();
  std::string apply();  // under mutex_
  std::string start();  // under mutex_
  void begin_noting();  // under mutex_
  void note_forever();
  static void after_fork_in_child();

  std::mutex mutex_;  // configuration; no callback of the source's library acquires it
  gpu::MakeSource make_source_ = nullptr;
  gpu::DeviceSource* source_ = nullptr;  // never destroyed
  std::vector<std::string> candidates_;
  bool loaded_ = false;
  // The process was forked from one that had the library, which may wait for threads of the parent.
  bool is_lost_ = false;
  bool started_ = false;  // and not stopped since; it may be paused
  bool may_share_ = false;
  uint32_t collected_ = 0;  // part of kWantGpu and kWantGpuSync that the source collects now
  uint32_t wanted_ = 0;
  bool paused_ = false;
  gpu::DeviceNotes notes_;
  bool is_noted_by_thread_ = false;
  std::atomic<bool> has_stopped_notes_{false};
  std::condition_variable has_started_;
  std::mutex noting_;  // acquired before mutex_ to write notes
  uint32_t full_ = 0;  // window whose stream had no room for a note; under noting_
  gpu::GpuLog log_;
  gpu::GraphNodes nodes_;
};

}  // namespace opscope
