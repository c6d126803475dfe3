// The recorder: one per process. Threads append to their logs; a profile is a window over the logs.
//
// Opening and closing a window notes a time and one log position per thread, and moves no data.
// Memory is given back once no window, open or undecoded, can still need it.
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
  Drops dropped;  // in the window; while it is open, what the thread's count was when it opened
};

// Written under the registry's mutex while it is open. After its closing nothing changes it, so a decoder
// reads it without the mutex.
struct Window : WindowFacts {
  uint32_t id = 0;
  bool open = true;
  uint32_t collects = 0;          // of `wants`, what it has collected now; the rest it had, or will have
  uint64_t first_new_thread = 0;  // threads with this number or a later one began after it opened
  uint64_t most_used_bytes = UINT64_MAX;  // of the pool, while it is open
  std::vector<Slice> slices;
  uint64_t generation = 0;  // of PythonCalls, when the initial stacks were noted
};

// Does the window have what this thread records?
inline bool covers(const Window& window, const ThreadLog& log) {
  return window.only_thread == 0 || window.only_thread == log.system_thread_id;
}

// So many held tensors are let go of at once: a thread's first tensor waits for that, and a fork; and where a
// program takes a block, it does. With one it can hardly have used more.
constexpr uint64_t kTensorsAtOnce = 4096;

// Whether addresses of tensors must not be reused while this is wanted.
constexpr bool holds_tensors(uint32_t wants) {
  constexpr uint32_t kIdentity = kWantInputs | kWantMemory;
  return (wants & kIdentity) == kIdentity;
}
inline bool holds_tensors(const Window& window) {
  return holds_tensors(window.wants) && !window.is_in_pieces;
}

// Of the calling thread.
int64_t system_thread_id();

struct RecorderStatistics {
  uint64_t threads;
  uint64_t windows;
  uint64_t mapped_bytes;
  uint64_t used_bytes;  // by records, payloads and texts, and by tensors whose addresses are kept
  uint64_t text_bytes;  // of those, by texts that are forgotten once no window is kept
  uint64_t records;     // that threads which still have a log have ever appended
  uint32_t wanted;
  uint64_t open_windows;
};

class Recorder {
 public:
  // Never destroyed: threads may still be appending while the process exits.
  static Recorder& instance();

  // [MT] Has blocks of the stream whose content is in segments be used again.
  void release_spent();

  // [MT] Touch the memory of the first blocks, which takes milliseconds: before a window opens.
  void prepare_blocks();
  // [MT] An id for open_window(), for a caller that must know it before the window is open.
  uint32_t reserve_window();
  // [MT] Raises std::runtime_error if the bridge refuses; then no window is opened. A fault is forgotten when
  // a window opens while no other is open.
  // `collects`: what it collects from its opening on, until collect() says otherwise.
  // `most_growth_bytes`: while it is open, records may take so much more memory than they have now; of
  // several windows, whose records are the same, the one that may have most decides.
  uint32_t open_window(uint32_t wants, bool all_threads, uint32_t reserved = 0,
                       uint32_t collects = UINT32_MAX, uint64_t most_growth_bytes = UINT64_MAX);
  // [MT] Idempotent. Opening and closing take O(threads), however many windows are kept.
  void close_window(uint32_t id);
  // [MT] Collect nothing until resumed. Only for an open window; idempotent.
  void pause_window(uint32_t id, bool paused);
  // [MT] Collect only `wants` of what these windows want until told otherwise; of those that are open.
  // Returns the ones that collect something now that they did not before.
  std::vector<std::shared_ptr<Window>> collect(const std::vector<uint32_t>& ids, uint32_t wants);
  // [MT] A closed window with what this one has so far, which goes on; 0 if there is none. Of a closed one it
  // has the same.
  uint32_t snapshot_window(uint32_t id);
  // [MT] A closed window for decoding; it stays until discarded. nullptr if there is none.
  std::shared_ptr<Window> window(uint32_t id);
  // [MT] What decoding reads of a closed window, good while a ReadLock is held.
  LogView view_of(const Window& window);
  // [MT] What Python was running when the window opened.
  void set_initial_stacks(uint32_t id, std::vector<InitialStack> stacks, uint64_t generation = 0);
  // [owner of `log`] Keys of the frames with `may_begin` that windows noted on this thread since generation
  // `last_generation`.
  std::vector<uint64_t> frames_that_may_begin(const ThreadLog& log, uint64_t last_generation);
  // [owner of `log`] Likewise of all frames, outermost first in each window.
  std::vector<uint64_t> initial_frames(const ThreadLog& log, uint64_t last_generation);
  // [owner of `log`] The call of one of them was reported: it was not running when windows opened, and they
  // forget it.
  void forget_initial_frame(const ThreadLog& log, uint64_t key);
  // [MT] The window's memory is no longer needed.
  void discard_window(uint32_t id);
  // [MT] Releases tensors held for closed windows while other windows are open.
  void release_old_tensors();
  // [MT] What recording takes: of the pool, and of torch's memory.
  uint64_t used_bytes();

  // [MT] What is recorded from now on goes to a new file, until end_stream(): that of the window that will be
  // opened under this id, and of all others. `about`: a text for readers of the file. Raises
  // std::system_error where there can be no such file, std::runtime_error where another recording streams.
  // `is_ring`: the file has what the windows need and no more; it makes room for a recording that streams,
  // and for another ring.
  void begin_stream(uint32_t window, const std::string& path, uint64_t max_bytes, const std::string& about,
                    bool is_ring = false);
  // [MT] Of the ring that streams, if it is this window's: it is `next` from now on, because this one goes.
  void hand_stream_on(uint32_t window, uint32_t next) noexcept;
  // [MT] Another text in place of `about`, of the ring that streams, and a note for its readers unless it is
  // empty. False if none streams, or there is no room.
  bool describe_ring(const std::string& about, const std::string& note);
  // [MT] Marks in the stream that the process is still alive.
  void note_moment();
  // [MT] What streams now.
  struct StreamState {
    std::string path;  // "": nothing does
    bool is_ring = false;
    bool is_full = false;  // something found no room
  };
  StreamState stream_state();
  // [MT] Adds a text to the running stream; without one it is lost.
  void note_in_stream(const std::string& text);
  // [MT] The window of the recording that streams; 0 if none does, or a ring.
  uint32_t streamed_window();
  // [MT] Adds notes of devices to that stream. False if it has ended, or has no room for it.
  // `is_last`: that is all there is until now.
  bool note_devices(uint32_t window, uint32_t kind, const std::string& bytes, bool is_last);
  // [MT] Once the window is closed; idempotent. The file stays.
  void end_stream(uint32_t window);

  void attach_bridge(const BridgeApi* bridge);
  const BridgeApi* bridge() const { return bridge_; }
  const CoreApi& core_api() const { return core_api_; }
  // Before any bridge is attached: who knows where in Python an operator is called.
  void set_place_in_python(uint32_t (*place)(const ThreadLog*)) { core_api_.place_in_python = place; }

  // [MT] This thread's log, made on first use; nullptr while the thread is being torn down.
  static ThreadLog* this_thread() noexcept;
  // [owner of `log`] The id of a name, kNoName when the table is full.
  uint32_t intern(ThreadLog* log, const char* text, const char* overload = "");
  NameTable& names() { return names_; }
  // Of texts that are forgotten once no window is kept, other than names.
  Journal& journal() { return journal_; }
  BlockPool& pool() { return pool_; }
  uint32_t wanted() const { return wanted_.load(std::memory_order_relaxed); }
  const ClockAnchor& origin() const { return origin_; }
  // [MT] Are the ends of Python calls reported from now on?
  void watch_calls(bool on) { calls_are_watched_.store(on, std::memory_order_relaxed); }

  // [MT] The first fault that stopped what is being recorded, or an empty string.
  std::string fault();
  void set_fault(const char* what) noexcept;
  RecorderStatistics statistics();

  void forget_thread(ThreadLog* log);

  // [owner of `log`] Whether it is known by now what the program calls this thread: when a thread is first
  // met, the program may not yet have said.
  bool ask_for_name(ThreadLog& log);

  // Returns Python's id of the calling thread's state, 0 if it has none. Called without the GIL. Set once, at
  // import.
  uint64_t (*python_thread)() = [] { return uint64_t{0}; };
  // What the program calls the calling thread, empty for what the system does. Likewise.
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
  std::string configure();  // under mutex_; why torch refused, or an empty string
  void set_wanted(uint32_t wanted);
  void release_memory();                 // under mutex_
  void limit_memory();                   // under mutex_, when a window was opened or is open no more
  void release_spent_blocks() noexcept;  // under mutex_
  void release_spent_tensors();          // under mutex_
  void hold_tensors(uint32_t wanted);    // under mutex_
  uint64_t oldest_tensors() const;       // under mutex_; the first mark that an open window needs
  void leave_out_recorded(const Window& window, InitialStack& stack);
  template <typename Function>
  std::vector<uint64_t> keys_of_initial(const ThreadLog& log, uint64_t last_generation, Function&& is_asked);
  void end(Window& window,
           uint64_t ticks) const;   // under mutex_: what is known of it; nothing changes it now
  void end_slices(Window& window);  // likewise: its part of every thread
  void add_slice(Window& window, Slice slice);
  void remove_slices(Window& window);
  void stream_facts(const Window& window) noexcept;   // under mutex_
  bool begin_journal();                               // likewise: of the stream
  std::unique_ptr<Journal> renew_journal() noexcept;  // likewise: what it has replaced
  void stop_streaming();                              // likewise
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
  std::atomic<uint64_t> lost_spans_{0};  // of threads that had no log any more
  std::atomic<uint64_t> lost_allocations_{0};
  std::vector<std::shared_ptr<ThreadLog>> threads_;
  std::map<uint32_t, std::shared_ptr<Window>> windows_;
  std::vector<std::shared_ptr<Window>> open_;  // those of them that are open: few, however many are kept
  // What a child that is being forked has of windows that have closed; and what this process has of those
  // that had closed when it was forked itself.
  std::map<uint32_t, std::vector<ThreadView>> for_child_, inherited_;
  std::unique_ptr<Stream> stream_;
  NeededRecords needed_;  // by the slices of windows_
  uint32_t next_window_ = 1;
  uint64_t next_thread_ = 0;
  uint32_t readers_ = 0;
  uint32_t configured_ = 0;
  bool is_holding_ = false;  // tensors, as the bridge was told
  const BridgeApi* bridge_ = nullptr;
  CoreApi core_api_;
  ClockAnchor origin_;
  std::string fault_;
};

// While one exists no recorded memory is given back. A decoder needs it because it walks logs without holding
// the mutex, and other windows may be discarded meanwhile.
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
