// The recorder: one per process. Threads append to their logs; a profile is a window over the logs.
//
// Opening and closing a window notes a time and one log position per thread, and moves no data. Memory is
// released once no window, open or not yet decoded, can need it.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "log/block_pool.h"
#include "log/clock.h"
#include "log/core_api.h"
#include "log/journal.h"
#include "log/log_view.h"
#include "log/name_table.h"
#include "log/needed_records.h"
#include "log/stream.h"
#include "log/thread_log.h"
#include "log/window.h"

namespace opscope {

// One thread's part of a window: log indices [begin, end).
struct Slice {
  std::shared_ptr<ThreadLog> thread;
  uint64_t begin;
  uint64_t end;   // kStillOpen while the window is open
  Drops dropped;  // in the window; while it is open: the thread's count at its opening
};

// Changed under the registry's mutex while open, constant afterwards: decoders read it without the mutex.
struct Window : WindowFacts {
  uint32_t id = 0;
  bool open = true;
  uint32_t collects = 0;                  // part of `wants` that it collects now
  uint64_t first_new_thread = 0;          // threads with this or a higher number began after it opened
  uint64_t most_used_bytes = UINT64_MAX;  // limit of the pool while it is open
  std::vector<Slice> slices;
  uint64_t generation = 0;  // of PythonCalls, when the initial stacks were noted
};

// Whether the window includes this thread's records.
inline bool covers(const Window& window, const ThreadLog& log) {
  return window.only_thread == 0 || window.only_thread == log.system_thread_id;
}

// Held tensors released in one step. A thread's first tensor and a fork wait for a step; a thread that
// acquires a block does one step, and it can hardly have used more tensors in one block.
constexpr uint64_t kTensorsAtOnce = 4096;

// Whether addresses of tensors must not be reused while this is wanted.
constexpr bool holds_tensors(uint32_t wants) {
  constexpr uint32_t kIdentity = kWantInputs | kWantMemory;
  return (wants & kIdentity) == kIdentity;
}
// A window that collects them in some stretches needs them only within each.
inline bool holds_tensors(const Window& window) {
  return holds_tensors(window.collects) && !window.is_in_pieces;
}

int64_t system_thread_id();

struct RecorderStatistics {
  uint64_t threads;
  uint64_t windows;
  uint64_t mapped_bytes;
  uint64_t used_bytes;  // of records, payloads, texts, and tensors held for their addresses
  uint64_t text_bytes;  // of texts only, which are freed when no window is kept
  uint64_t records;     // ever appended by threads that still have a log
  uint32_t wanted;
  uint64_t open_windows;
};

class Recorder {
 public:
  // Never destroyed: threads may still append while the process exits.
  static Recorder& instance();

  // [MT] Reuses blocks of the stream whose records are in segments.
  void release_spent();

  // [MT] Creates pages of the first blocks, which takes milliseconds; call it before a window opens.
  void prepare_blocks();
  // [MT] An id for open_window(), for callers that need it before the window is open.
  uint32_t reserve_window();
  // [MT] Raises std::runtime_error if the bridge refuses; then no window is opened. Opening a window while no
  // other is open clears the fault. `collects`: what the window collects until collect() changes it.
  // `most_growth_bytes`: growth limit of the records' memory while the window is open. Windows share records,
  // so the highest limit applies.
  uint32_t open_window(uint32_t wants, bool all_threads, uint32_t reserved = 0,
                       uint32_t collects = UINT32_MAX, uint64_t most_growth_bytes = UINT64_MAX);
  // [MT] Idempotent. Opening and closing take O(threads), for any number of kept windows.
  void close_window(uint32_t id);
  // [MT] Collects nothing until resumed. For an open window only; idempotent.
  void pause_window(uint32_t id, bool paused);
  // [MT] Makes these windows, if open, collect only `wants` until the next call. Returns windows that now
  // collect something that they did not before.
  std::vector<std::shared_ptr<Window>> collect(const std::vector<uint32_t>& ids, uint32_t wants);
  // [MT] Releases held tensors that no open window collects: the holes that their structs leave in the heap
  // slow down everything that follows.
  void release_unneeded_tensors();
  // [MT] Makes a closed window of the records so far and returns its id; window `id` continues. 0: no such
  // window. A copy of a closed window is equal to it.
  uint32_t snapshot_window(uint32_t id);
  // [MT] A window for decoding, kept until discarded; nullptr if there is none.
  std::shared_ptr<Window> window(uint32_t id);
  // [MT] Decoder's view of a closed window, valid while a ReadLock is held.
  LogView view_of(const Window& window);
  // [MT] Sets what Python was running when the window opened.
  void set_initial_stacks(uint32_t id, std::vector<InitialStack> stacks, uint64_t generation = 0);
  // [owner of `log`] Keys of frames with `may_begin` that windows noted here after `last_generation`.
  std::vector<uint64_t> frames_that_may_begin(const ThreadLog& log, uint64_t last_generation);
  // [owner of `log`] The same for all frames, outermost first in each window.
  std::vector<uint64_t> initial_frames(const ThreadLog& log, uint64_t last_generation);
  // [owner of `log`] Removes a frame from windows that noted it as running: its call was reported later.
  void forget_initial_frame(const ThreadLog& log, uint64_t key);
  void discard_window(uint32_t id);
  // [MT] Releases tensors held for closed windows while other windows are open.
  void release_old_tensors();
  // [MT] Bytes used by recording: of the pool and of torch's memory.
  uint64_t used_bytes();

  // [MT] Records go to a new file from now on, until end_stream(): records of the window that will open under
  // this id, and of all others. `about`: a text for readers of the file. Raises std::system_error if the file
  // cannot be created, std::runtime_error if another recording streams. `is_ring`: the file has only what the
  // windows need; a streamed recording or another ring replaces it.
  void begin_stream(uint32_t window, const std::string& path, uint64_t max_bytes, const std::string& about,
                    bool is_ring = false);
  // [MT] If the ring of `window` streams, its window is `next` from now on, because `window` is about to go.
  void move_stream(uint32_t window, uint32_t next) noexcept;
  // [MT] Replaces the ring's `about` and adds a note for its readers unless it is empty. False if no ring
  // streams or there is no room.
  bool describe_ring(const std::string& about, const std::string& note);
  // [MT] Marks in the stream that the process is alive.
  void note_moment();
  // [MT] The current stream.
  struct StreamState {
    std::string path;  // "" if nothing streams
    bool is_ring = false;
    bool is_full = false;  // there was no room for something
  };
  StreamState stream_state();
  // [MT] Adds a text to the current stream; without one it is lost.
  void note_in_stream(const std::string& text);
  // [MT] Window of the streamed recording; 0 if none streams, or a ring.
  uint32_t streamed_window();
  // [MT] Adds notes of devices to that stream. False: it has ended or is full. `is_last`: complete up to now.
  bool note_devices(uint32_t window, uint32_t kind, const std::string& bytes, bool is_last);
  // [MT] Ends the stream of a closed window; idempotent. The file stays.
  void end_stream(uint32_t window);

  void attach_bridge(const BridgeApi* bridge);
  const BridgeApi* bridge() const { return bridge_; }
  const CoreApi& core_api() const { return core_api_; }
  // Sets the function that finds the Python caller of an operator. Call it before any bridge is attached.
  void set_place_in_python(uint32_t (*place)(const ThreadLog*)) { core_api_.place_in_python = place; }

  // [MT] This thread's log, created on first use; nullptr while the thread is being torn down.
  static ThreadLog* this_thread() noexcept;
  // [owner of `log`] Id of a name, kNoName if the table is full.
  uint32_t intern(ThreadLog* log, const char* text, const char* overload = "");
  NameTable& names() { return names_; }
  // Texts other than names; they are freed when no window is kept.
  Journal& journal() { return journal_; }
  BlockPool& pool() { return pool_; }
  uint32_t wanted() const { return wanted_.load(std::memory_order_relaxed); }
  const ClockAnchor& origin() const { return origin_; }
  // [MT] Sets whether the ends of Python calls are reported from now on.
  void watch_calls(bool on) { calls_are_watched_.store(on, std::memory_order_relaxed); }

  // [MT] First fault that stopped the recording, or an empty string.
  std::string fault();
  void set_fault(const char* what) noexcept;
  RecorderStatistics statistics();

  void forget_thread(ThreadLog* log);

  // [owner of `log`] Reads the program's name of this thread if it is not yet known; programs may set it
  // after the thread's first event. Returns whether it is known.
  bool read_program_name(ThreadLog& log);

  // Returns Python's unique id of the calling thread's state, or 0. Called without the GIL; set at import.
  uint64_t (*python_thread)() = [] { return uint64_t{0}; };
  // Returns the program's name of the calling thread; empty if it is the system's. Called and set in the same
  // way.
  std::string (*program_thread_name)() = [] { return std::string(); };

 private:
  friend class ReadLock;

  static void name_thread(ThreadLog* log, uint64_t torch_thread_id);
  ThreadLog* make_log();  // this thread's; raises std::bad_alloc

  Recorder();
  uint64_t unknown_frees() const { return bridge_ == nullptr ? 0 : bridge_->unknown_frees(); }
  Drops of_ending_threads() const {
    return {lost_spans_.load(std::memory_order_relaxed), lost_allocations_.load(std::memory_order_relaxed),
            0};
  }
  uint64_t tensors_not_held() const { return bridge_ == nullptr ? 0 : bridge_->tensors_not_held(); }
  std::string configure();  // under mutex_; returns torch's reason for a refusal, or an empty string
  void set_wanted(uint32_t wanted);
  void release_memory();                 // under mutex_
  void limit_memory();                   // under mutex_, when a window opens or closes
  void release_spent_blocks() noexcept;  // under mutex_
  void release_spent_tensors();          // under mutex_
  void hold_tensors(uint32_t wanted);    // under mutex_
  bool release_tensors();                // under mutex_; if no open window needs them
  uint64_t oldest_tensors() const;       // under mutex_; first mark that an open window needs
  void remove_recorded_frames(const Window& window, InitialStack& stack);
  template <typename Function>
  std::vector<uint64_t> keys_of_initial(const ThreadLog& log, uint64_t last_generation, Function&& is_wanted);
  void end(Window& window,
           uint64_t ticks) const;   // under mutex_: final facts of the window
  void end_slices(Window& window);  // under mutex_: its part of every thread
  void add_slice(Window& window, Slice slice);
  void remove_slices(Window& window);
  void stream_facts(const Window& window) noexcept;   // under mutex_
  bool begin_journal();                               // under mutex_: of the stream
  std::unique_ptr<Journal> renew_journal() noexcept;  // under mutex_: returns the replaced journal
  void stop_streaming();                              // under mutex_
  bool is_listed_on_closing(const ThreadLog& thread, const Window* except = nullptr) const;
  std::vector<ThreadView> threads_of(const Window& window) const;
  static void before_fork();
  static void after_fork(bool in_child);
  static void after_fork_in_child();
  void prepare_child() noexcept;  // under all mutexes
  void leave_to_parent();         // under mutex_

  std::mutex mutex_;
  BlockPool pool_;
  Journal name_journal_{pool_, 0};
  NameTable names_{name_journal_};
  Journal journal_{pool_, 1};
  alignas(64) std::atomic<uint32_t> wanted_{0};  // read at every event; its neighbours change rarely
  std::atomic<bool> calls_are_watched_{false};
  std::atomic<uint64_t> lost_spans_{0};  // of threads that no longer had a log
  std::atomic<uint64_t> lost_allocations_{0};
  std::vector<std::shared_ptr<ThreadLog>> threads_;
  std::map<uint32_t, std::shared_ptr<Window>> windows_;
  std::vector<std::shared_ptr<Window>> open_;  // the open ones: few, for any number of kept windows
  // Blocks of closed windows: of this process for a child that is forked, and those that it inherited itself.
  std::map<uint32_t, std::vector<ThreadView>> for_child_, inherited_;
  std::unique_ptr<Stream> stream_;
  NeededRecords needed_;  // by the slices of windows_
  uint32_t next_window_ = 1;
  uint64_t next_thread_ = 0;
  uint32_t readers_ = 0;
  uint32_t configured_ = 0;
  bool is_holding_ = false;  // tensors, as the bridge was last set
  const BridgeApi* bridge_ = nullptr;
  CoreApi core_api_;
  ClockAnchor origin_;
  std::string fault_;
};

// While one exists, no recorded memory is released. Decoders read logs without the mutex, and other windows
// may be discarded at the same time.
class ReadLock {
 public:
  explicit ReadLock(Recorder& recorder);
  ReadLock(const ReadLock&) = delete;
  ReadLock& operator=(const ReadLock&) = delete;
  ~ReadLock();

 private:
  Recorder& recorder_;
};

}  // namespace opscope
