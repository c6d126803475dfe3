// Spans of one thread during the decoding of a window: parent and end of each.
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

// No row, in columns that refer to rows.
constexpr int32_t kNone = -1;

constexpr uint32_t kNoIndex = UINT32_MAX;  // of a span that is not in the log

// Wants whose windows include records of this kind.
inline uint32_t want_of(RecordKind kind) {
  if (!is_span(kind)) return kWantMemory;
  return is_known(kind) ? kWantedBy[static_cast<size_t>(kind)] : 0;
}

// Whether a span ended on its stack, and within its parent if that has an end.
inline bool ends_in(const Record& span, const Record* parent) {
  if (!is_closed(span.load_state())) return false;
  const bool is_over = parent != nullptr && is_closed(parent->load_state());
  return !is_over || parent->load_end() >= span.load_end();
}

// Columns of a row in `events` that may change after it is written.
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

// A span of an earlier piece that may contain later records.
struct CarriedSpan {
  Record record;
  WrittenRow row;
  uint64_t index = 0;              // in its thread's log; of functions from before: the end of the piece
  uint64_t bound = UINT64_MAX;     // it ends by then in any case: its parent has ended
  uint64_t left_at = UINT64_MAX;   // number of records in its log when it was first seen off the stack
  int64_t root = -1;               // number of the outermost parent according to the stack
  int32_t caller = -1;             // index in the list, according to the stack
  uint32_t function = UINT32_MAX;  // Python function that it is or runs in
  bool is_initial = false;         // running when the window opened
};

// A log position that later records may name as their parent.
struct CarriedPlace {
  uint32_t index;
  int32_t around;    // index in the list of carried spans; -1: not in the window
  uint64_t left_at;  // as in CarriedSpan; of spans of other windows
};

// One thread's spans of the window, in start order.
struct ThreadSpans {
  const ThreadView* log = nullptr;  // nullptr: a thread that only ran Python functions from before
  int64_t system_thread_id = 0;
  bool is_new = true;     // Python did not know it when the window opened
  bool is_nested = true;  // by its stack: each span ended on it, and within its parent

  // End of a function that was running when the window opened, or the time at which its end was noticed.
  struct InitialEnd {
    uint64_t ticks;
    bool is_noticed;
  };
  // Functions that were running when the window opened, outermost first.
  std::deque<Record> initial;
  std::vector<InitialEnd> initial_ends;

  std::deque<Record> made;  // spans created during decoding

  std::vector<const Record*> spans;
  std::vector<uint32_t> indices;      // of spans in the log, if ids of the whole process need them
  std::vector<int32_t> parents;       // ordinal in `spans`, or -1
  std::vector<int32_t> callers;       // the same according to the stack; empty if equal
  std::vector<uint64_t> ends;         // in ticks; empty if each span ends as recorded, or with its parent
  std::vector<const Record*> memory;  // allocations, frees, failures
  std::vector<int32_t> memory_spans;  // parent span of each
  std::vector<int32_t> memory_after;  // number of spans that had begun before it
  std::vector<const Record*> outputs;
  std::vector<int32_t> output_spans;
  std::vector<const Record*> scripts;
  std::vector<int32_t> script_spans;
  std::vector<const Record*> parameters;
  std::vector<int32_t> ids;  // ordinal -> event id

  // Spans of earlier pieces: the first of `spans`, with copied records.
  std::vector<CarriedSpan> carried;
  std::vector<CarriedPlace> places;
  int64_t next_root = 0;
  std::vector<int64_t> roots;    // by ordinal, after nesting by time
  std::vector<uint64_t> bounds;  // by ordinal: latest possible end
  size_t state = SIZE_MAX;       // index of the thread's carried state

  int32_t carried_around(uint32_t parent) const;
};

// Ends recorded separately from their spans, which had left the stack or ended on another thread.
class Ends {
 public:
  struct End {
    uint64_t ticks = 0;  // 0: none
    const ThreadView* thread = nullptr;
    bool is_counted =
        false;  // an unmatched end is a loss; that of a Python call may be from before the window
    uint64_t native_thread = 0;  // thread of the span, 0 for any
    bool is_later = false;       // the next piece has it again
    bool is_noticed = false;     // the end may be earlier
  };

  // `record`: a kClose record.
  void add(const Record& record, const ThreadView* thread, bool is_later = false);
  // Call it after the last add().
  void sort();
  // End of a function that this thread was running at `start`; UINT64_MAX for none.
  End end_of_started(uint64_t key, uint64_t start, uint64_t native_thread) const;

  // Registers a span of this window without an end in its record.
  void expect(const Record& span) { expected_[span.load_end()].push_back(&span); }
  // Assigns each end to the last span with its key that began before it. A key is an address: of two spans
  // with the same key, the earlier one has ended or contains the later one.
  void match();
  End find(const Record& span) const;
  // In ticks, UINT64_MAX if unknown.
  uint64_t end_of(const Record& span) const;

  uint64_t unmatched() const { return total_ - matched_; }

 private:
  using ByKey = std::unordered_map<uint64_t, std::vector<End>>;

  ByKey apart_;       // in time order
  ByKey of_started_;  // of Python calls that may have run from the start, in time order
  std::unordered_map<uint64_t, std::vector<const Record*>> expected_;
  std::unordered_map<const Record*, End> found_;
  uint64_t total_ = 0;
  uint64_t matched_ = 0;
};

// Finds the innermost parent of each span of the thread where the stack is wrong. A span that outlives its
// parent on the stack (an annotation entered by a function or under a dispatch mode) contains the spans
// that ran during it. A span that another thread ended stayed on its stack longer than it lasted. `stopped`:
// end of the window in ticks; UINT64_MAX if ticks are not comparable.
void nest_by_time(ThreadSpans& thread, const Ends& ends, uint64_t stopped);

// Sets the ends of functions that were running at `start`; the second also finds ends of carried spans.
void find_initial_ends(ThreadSpans& thread, const Ends& ends, uint64_t start, uint64_t native_thread);
void find_carried_ends(ThreadSpans& thread, Ends& ends, uint64_t start, uint64_t native_thread);
void end_initial(ThreadSpans& thread, size_t i, ThreadSpans::InitialEnd end);

// Numbers the spans of all threads in start order, from `first` on. Returns the thread of each.
std::vector<uint32_t> merge_by_start(std::deque<ThreadSpans>& threads, int32_t first);

}  // namespace opscope
