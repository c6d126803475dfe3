// The spans of one thread while a window is decoded: what each runs in, and when it ended.
#pragma once

#include <cstdint>
#include <deque>
#include <unordered_map>
#include <vector>

#include "log/log_view.h"
#include "log/record.h"

namespace opscope {

constexpr uint32_t kNoIndex = UINT32_MAX;  // of a span that is not in the log

// One thread's spans of the window, in start order.
struct ThreadSpans {
  const ThreadView* log = nullptr;  // nullptr: a thread that only sat in Python all the while
  int64_t system_thread_id = 0;
  bool is_new = true;     // Python did not know it when the window opened
  bool is_nested = true;  // by its stack: each span ended there and then, and within its parent

  // Functions that were running when the window opened, outermost first, and when each ended.
  std::deque<Record> initial;
  std::vector<uint64_t> initial_ends;

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
};

// Ends that were recorded apart from their span: it had left the stack, or ended on another thread.
class Ends {
 public:
  struct End {
    uint64_t ticks = 0;  // 0: none
    const ThreadView* thread = nullptr;
    bool is_counted = false;     // one that nobody has is a loss: of a Python call it may be from before
    uint64_t native_thread = 0;  // whose it is, 0 for any
  };

  // A kClose record.
  void add(const Record& record, const ThreadView* thread);
  // Once all are added.
  void sort();
  // When a function that this thread was running at `start` ended, UINT64_MAX if it did not.
  uint64_t end_of_started(uint64_t key, uint64_t start, uint64_t native_thread) const;

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

}  // namespace opscope
