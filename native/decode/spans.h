// The spans of one thread while a window is decoded: what each runs in, and when it ended.
#pragma once

#include <cstdint>
#include <deque>
#include <unordered_map>
#include <vector>

#include "log/checked_view.h"
#include "log/core_api.h"
#include "log/log_view.h"
#include "log/record.h"

namespace opscope {

// In columns that refer to rows: none.
constexpr int32_t kNone = -1;

constexpr uint32_t kNoIndex = UINT32_MAX;  // of a span that is not in the log

// Which windows want records of this kind.
inline uint32_t want_of(RecordKind kind) {
  if (!is_span(kind)) return kWantMemory;
  return is_known(kind) ? kWantedBy[static_cast<size_t>(kind)] : 0;
}

// Whether a span ended on its stack, and within its parent, if that has an end.
inline bool ends_in(const Record& span, const Record* parent) {
  if (!is_closed(span.load_state())) return false;
  const bool is_over = parent != nullptr && is_closed(parent->load_state());
  return !is_over || parent->load_end() >= span.load_end();
}

// What of a row in `events` may become known when that has been written already.
struct WrittenRow {
  int32_t event = -1;
  int32_t parent = -1;
  int64_t start_ns = 0;
  int64_t duration_ns = 0;
  bool unfinished = true;
  bool raised = false;
  bool is_async = false;

  bool operator==(const WrittenRow&) const = default;
};

// A span of an earlier piece of a log that is decoded in pieces, in which something later may lie.
struct CarriedSpan {
  Record record;
  WrittenRow row;
  uint64_t index = 0;           // in its thread's log; that of the piece's end of functions from before
  uint64_t bound = UINT64_MAX;  // it is over by then, whatever is noted: what it began in has ended
  uint64_t left_at =
      UINT64_MAX;       // its log had this many records when it was first seen to have left the stack
  int64_t root = -1;    // a number of the outermost around it according to the stack
  int32_t caller = -1;  // place in the list, as the stack was
  uint32_t function = UINT32_MAX;  // the Python function that it is or runs in
  bool is_initial = false;         // it was running when the window opened
};

// A place in the log that later records may name as what is around them.
struct CarriedPlace {
  uint32_t index;
  int32_t around;    // place in the list of carried spans; -1: none of the window's
  uint64_t left_at;  // as of CarriedSpan; of spans of other windows
};

// One thread's spans of the window, in start order.
struct ThreadSpans {
  const ThreadView* log = nullptr;  // nullptr: a thread that only sat in Python all the while
  int64_t system_thread_id = 0;
  bool is_new = true;     // Python did not know it when the window opened
  bool is_nested = true;  // by its stack: each span ended there and then, and within its parent

  // When a function that was running when the window opened ended, or was first known to be over.
  struct InitialEnd {
    uint64_t ticks;
    bool is_noticed;
  };
  // Those functions, outermost first.
  std::deque<Record> initial;
  std::vector<InitialEnd> initial_ends;

  std::deque<Record> made;  // spans that were made of others when decoding

  std::vector<const Record*> spans;
  std::vector<uint32_t> indices;  // of spans in the log, where process-wide ids are made of them
  std::vector<int32_t> parents;   // ordinal in `spans`, -1
  std::vector<int32_t> callers;   // likewise, as the stack was; empty where that is the same
  std::vector<uint64_t> ends;     // in ticks; empty where each ends as its record says, or with its parent
  std::vector<const Record*> memory;  // allocations, frees, failures
  std::vector<int32_t> memory_spans;  // the span each happened in
  std::vector<int32_t> memory_after;  // how many spans had begun before it
  std::vector<const Record*> outputs;
  std::vector<int32_t> output_spans;
  std::vector<const Record*> scripts;
  std::vector<int32_t> script_spans;
  std::vector<const Record*> parameters;
  std::vector<int32_t> ids;  // ordinal -> event id

  // Of pieces before: the first of `spans`, whose records are copies.
  std::vector<CarriedSpan> carried;
  std::vector<CarriedPlace> places;
  int64_t next_root = 0;
  std::vector<int64_t> roots;    // by ordinal, once they are nested by time
  std::vector<uint64_t> bounds;  // likewise: when each is over at the latest
  size_t state = SIZE_MAX;       // number of what is carried of this thread

  int32_t carried_around(uint32_t parent) const;
};

// Ends that were recorded apart from their span: it had left the stack, or ended on another thread.
class Ends {
 public:
  struct End {
    uint64_t ticks = 0;  // 0: none
    const ThreadView* thread = nullptr;
    bool is_counted =
        false;  // an unmatched end is a loss; one of a Python call may be from before the window
    uint64_t native_thread = 0;  // whose it is, 0 for any
    bool is_later = false;       // it comes again with the next piece
    bool is_noticed = false;     // it may have been earlier
  };

  // A kClose record.
  void add(const Record& record, const ThreadView* thread, bool is_later = false);
  // Once all are added.
  void sort();
  // When a function that this thread was running at `start` ended, at UINT64_MAX if it did not.
  End end_of_started(uint64_t key, uint64_t start, uint64_t native_thread) const;

  // A span of this window that has no end in its record.
  void expect(const Record& span) { expected_[span.load_end()].push_back(&span); }
  // Gives each end to the last span with its key that began before it. A key is an address: when two
  // spans have the same, the earlier one is over, or around the later one.
  void match();
  End find(const Record& span) const;
  // In ticks, UINT64_MAX where it is not known.
  uint64_t end_of(const Record& span) const;

  uint64_t unmatched() const { return total_ - matched_; }

 private:
  using ByKey = std::unordered_map<uint64_t, std::vector<End>>;

  ByKey apart_;       // in time order
  ByKey of_started_;  // likewise, of Python calls, which may have been running from the start
  std::unordered_map<uint64_t, std::vector<const Record*>> expected_;
  std::unordered_map<const Record*, End> found_;
  uint64_t total_ = 0;
  uint64_t matched_ = 0;
};

// Gives each span of the thread the innermost parent that it lies in, where the stack could not know it: a
// span that outlives the one it began in (an annotation entered by a function or under a dispatch mode)
// belongs to what contains it and contains what ran meanwhile; one that another thread ended was on its own
// thread's stack for longer than it lasted. `stopped`: when the window closed, in ticks; UINT64_MAX where
// ticks cannot be compared.
void nest_by_time(ThreadSpans& thread, const Ends& ends, uint64_t stopped);

// Fills in when the functions that were running at `start` ended; of spans of pieces before, has their ends
// be looked for too.
void find_initial_ends(ThreadSpans& thread, const Ends& ends, uint64_t start, uint64_t native_thread);
void find_carried_ends(ThreadSpans& thread, Ends& ends, uint64_t start, uint64_t native_thread);
// One of them ended then.
void end_initial(ThreadSpans& thread, size_t i, ThreadSpans::InitialEnd end);

// Numbers the spans of all threads in start order, from `first` on. Returns the thread of each.
std::vector<uint32_t> merge_by_start(std::deque<ThreadSpans>& threads, int32_t first);

}  // namespace opscope
