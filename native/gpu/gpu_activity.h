// What devices do: collected while a window wants it, from whatever source this process has for its devices.
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

  // The kind of devices that is recorded. Before anything else, and while nothing is collected.
  void set_source(gpu::MakeSource make);

  // [MT] Where to look for the source's library, best first; only before the first recording that wants it.
  void set_candidates(std::vector<std::string> paths);
  // [MT] Bytes of the library's buffers and of what is kept of them.
  void set_budget(size_t buffer_bytes, size_t log_bytes);
  // [MT] Collects what `wanted` asks for. Returns why it cannot, or an empty string. Callers wait for the
  // device before they stop wanting it: work that still runs then may never be reported. `may_share`: what
  // else uses the library is known not to collect anything.
  std::string configure(uint32_t wanted, bool may_share = false);
  // [MT] Collects nothing until resumed, whatever windows want. Returns as configure().
  std::string pause(bool paused);
  // [MT] Has everything that is over appended to the log.
  void collect();
  // [MT] What was delivered is in the file of the recording that streams, if one does. `all`: also what is
  // over but was not delivered. While something is collected, a thread calls this once a second.
  void note(bool all);
  // [MT] That thread no longer calls the library: the process ends, and the library may be unloaded first. A
  // later stop of a recording still writes notes.
  void end_noting();
  // [MT] No window needs what was collected.
  void forget();

  gpu::GpuLog& log() { return log_; }
  gpu::GraphNodes& nodes() { return nodes_; }
  int8_t device_type() const { return source_->device_type(); }
  std::string call_name(RuntimeApi api, uint32_t function) const { return source_->call_name(api, function); }
  // [MT]
  gpu::DeviceClock clock();
  // [MT]
  gpu::SourceState state();

 private:
  GpuActivity();
  std::string apply();  // under mutex_
  std::string start();  // likewise
  void begin_noting();  // likewise
  void note_forever();
  static void after_fork_in_child();

  std::mutex mutex_;  // configuration; no callback of the source's library takes it
  gpu::MakeSource make_source_ = nullptr;
  gpu::DeviceSource* source_ = nullptr;  // never destroyed
  std::vector<std::string> candidates_;
  bool loaded_ = false;
  // A parent had the library, which may wait for threads that a forked child does not have.
  bool is_lost_ = false;
  bool started_ = false;  // and not stopped since; it may be paused
  bool may_share_ = false;
  uint32_t collected_ = 0;  // of kWantGpu and kWantGpuSync, what the source collects now
  uint32_t wanted_ = 0;
  bool paused_ = false;
  gpu::DeviceNotes notes_;
  bool is_noted_by_thread_ = false;
  std::atomic<bool> notes_no_more_{false};
  std::condition_variable has_started_;
  std::mutex noting_;  // taken before mutex_ to write notes
  uint32_t full_ = 0;  // of this stream's window there was no room for a note; under noting_
  gpu::GpuLog log_;
  gpu::GraphNodes nodes_;
};

}  // namespace opscope
