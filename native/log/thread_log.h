// Everything that one thread records: its log, arena, stack of open spans, and counters.
//
// Only the owning thread calls the functions marked [owner]. They take no lock, allocate nothing (the stack
// grows a few times in a thread's life) and touch no Python object.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>
#include <string>
#include <vector>

#include "log/arena.h"
#include "log/chunk_log.h"
#include "log/clock.h"
#include "log/name_cache.h"
#include "log/open_spans.h"
#include "log/record.h"

namespace opscope {

// Records lost for lack of memory, by kind.
struct Drops {
  uint64_t spans = 0;
  uint64_t allocations = 0;  // and frees
  uint64_t others = 0;       // late ends, results, parameters

  Drops operator-(const Drops& earlier) const {
    return {spans - earlier.spans, allocations - earlier.allocations, others - earlier.others};
  }
};

class alignas(64) ThreadLog {
  // Data of every event first: a busy program leaves little of this in its caches, so each cache line counts.
  OpenSpans open_;

 public:
  uint32_t source_generation = 0;  // [owner] state of operators when the torch bridge last looked
  uint32_t graphs_running = 0;     // [owner] of compiled code; its operators have a place there

 private:
  ChunkLog log_;
  Arena arena_;
  const std::atomic<bool>* calls_are_watched_;

 public:
  // `calls_are_watched`: whether the ends of Python calls are reported now.
  ThreadLog(BlockPool& pool, uint64_t number, int64_t system_thread_id, uint64_t native_thread,
            std::string name, const std::atomic<bool>& calls_are_watched)
      : log_(pool, static_cast<uint32_t>(number)),
        arena_(pool, static_cast<uint32_t>(number)),
        calls_are_watched_(&calls_are_watched),
        number(number),
        system_thread_id(system_thread_id),
        native_thread(native_thread),
        name(std::make_unique<const std::string>(std::move(name))),
        pool_(pool) {
    dropped_span_.kind = RecordKind::kClose;
  }
  ~ThreadLog() { delete program_name.load(); }

  // [owner] A new open span with its parent set; the caller fills in the rest, then calls publish_span().
  // nullptr: dropped and counted; the matching close_span() is harmless.
  Record* open_span(uint64_t key) {
    if (!open_.make_room()) [[unlikely]] {
      count_loss(dropped_spans_,
                 Loss::kSpan);  // its end will count as one without a start
      return nullptr;
    }
    Record* record = next_record();
    if (record == nullptr) [[unlikely]] {
      count_loss(dropped_spans_, Loss::kSpan);
      // Keeps its place on the stack, so that its end finds it and is not counted as another loss.
      open_.push_back(key, &dropped_span_, current_span());
      return nullptr;
    }
    record->span.end = key;
    record->parent = current_span();
    record->state = static_cast<uint8_t>(SpanState::kOpen);
    const auto index = static_cast<uint32_t>(log_.size());
    open_.push_back(key, record, index);
    return record;
  }
  void publish_span() { log_.publish(); }

  // [owner] Innermost open span that is no annotation; nullptr for none.
  const OpenSpan* innermost_but_annotations() const {
    for (size_t i = open_.size(); i-- > 0;) {
      if (open_[i].record->kind != RecordKind::kAnnotation) return &open_[i];
    }
    return nullptr;
  }

  // [owner] Ends the span opened with `key`; usually it is the top of the stack. Annotations and operators
  // above it have not ended, and perhaps never will (an annotation without an exit): they leave the stack
  // with it. A call inside an operator or annotation may be what ends that span (its `__exit__`) and
  // continues. A span that is not on the stack was opened on another thread or has left: its end is appended.
  // `how` is kept only for the top of the stack.
  void close_span(uint64_t key, uint64_t ticks, EndOf what = EndOf::kSpan,
                  SpanState how = SpanState::kClosed) {
    if (is_top(key)) [[likely]] {
      finish(open_.back().record, ticks, how);
      open_.pop_back();
      return;
    }
    close_out_of_order(key, ticks, what);
  }

  // [owner] Ends the call opened with `key` only if this thread began it: for ends that may belong to calls
  // from before the recording.
  void close_if_begun(uint64_t key, uint64_t ticks) {
    const auto has_key = [key](const OpenSpan& span) { return span.key == key; };
    if (is_top(key)) [[likely]] {
      close_span(key, ticks);
    } else if (is_open(key) || std::any_of(abandoned_.begin(), abandoned_.end(), has_key)) {
      close_out_of_order(key, ticks, EndOf::kPythonCall);
    }
  }

  // [owner] Records the end of a span a second time, for windows that opened while it ran and know only its
  // key.
  void note_end(uint64_t key, uint64_t ticks) {
    append_end(key, ticks, EndOf::kStartedFrame, thread_of(key));
  }
  // [owner] Records an end for a running call of `thread` that is no longer recorded.
  void append_end_of(uint64_t key, uint64_t ticks, uint64_t thread) {
    append_end(key, ticks, EndOf::kPythonCall, thread);
  }
  // [owner] Records that a function from before a window, run by `thread`, was over by `ticks`.
  void append_late_end(uint64_t key, uint64_t ticks, uint64_t thread) {
    append_end(key, ticks, EndOf::kNoticedFrame, thread);
  }

  // [owner] Ends spans whose ends will not be reported: those with `is_over(key, record)`, called innermost
  // first. They end at `ticks`, or at the start of an open span above them.
  template <typename Function>
  void leave_spans(uint64_t ticks, Function&& is_over) {
    open_.keep_if([&](const OpenSpan& span) {
      const bool over = is_over(span.key, *span.record);
      if (over) {
        finish(span.record, ticks);
      } else if (span.record != &dropped_span_) {
        ticks = std::min(ticks, span.record->ticks);
      }
      return !over;
    });
  }
  // [owner] Ends such spans at `ticks`, even if spans above them continue.
  template <typename Function>
  void end_spans(uint64_t ticks, Function&& is_over) {
    open_.keep_if([&](const OpenSpan& span) {
      const bool over = is_over(span.key);
      if (over) finish(span.record, ticks);
      return !over;
    });
  }
  // [owner] The same for calls above the `depth` outermost spans.
  void leave_calls_above(size_t depth, uint64_t ticks) {
    size_t at = open_.size();
    leave_spans(ticks, [&](uint64_t, const Record& record) { return at-- > depth && is_call(record.kind); });
  }

  // [owner] A record that is no span; nullptr if dropped. The caller fills it in and calls publish().
  Record* append(RecordKind kind) {
    Record* record = next_record();
    if (record == nullptr) [[unlikely]] {
      const bool is_memory = kind >= RecordKind::kAllocate && kind <= RecordKind::kOutOfMemory;
      count_loss(is_memory ? dropped_allocations_ : dropped_others_,
                 is_memory ? Loss::kAllocation : Loss::kOther);
      return nullptr;
    }
    record->kind = kind;
    record->parent = current_span();
    return record;
  }
  void publish() { log_.publish(); }

  // [owner] A record for the results of the span opened with `key`; nullptr if it is not open on this thread.
  // Spans inside it may still be open: they may end later, or on another thread.
  Record* append_results(uint64_t key) {
    if (is_top(key)) [[likely]]
      return append(RecordKind::kOutputs);
    for (size_t i = open_.size(); i-- > 0;) {
      if (open_[i].key != key) continue;
      Record* record = append(RecordKind::kOutputs);
      if (record != nullptr) record->parent = open_[i].index;
      return record;
    }
    return nullptr;
  }

  // [owner] Log index of the innermost open span, kNoParent for none.
  uint32_t current_span() const { return open_.empty() ? kNoParent : open_.back().index; }
  size_t depth() const { return open_.size(); }
  const OpenSpans& open() const { return open_; }
  bool is_open(uint64_t key) const {
    return open_.any_of([key](const OpenSpan& span) { return span.key == key; });
  }
  bool is_top(uint64_t key) const { return !open_.empty() && open_.back().key == key; }
  // [owner] Start of the innermost open span. There must be one.
  uint64_t top_start() const { return open_.back().record->ticks; }

  ChunkLog& log() { return log_; }
  const ChunkLog& log() const { return log_; }
  Arena& arena() { return arena_; }
  const Arena& arena() const { return arena_; }
  Drops dropped() const {
    return {dropped_spans_.load(std::memory_order_relaxed),
            dropped_allocations_.load(std::memory_order_relaxed),
            dropped_others_.load(std::memory_order_relaxed)};
  }

  // [MT] Makes the owner use new blocks for its next records.
  void leave_blocks() { log_.leave_chunk(); }
  // [owner] Before a fork: copies the open spans for a child, which never reads the blocks that contain them.
  void copy_open_spans() noexcept try {
    copies_.clear();
    copies_.reserve(open_.size());
    open_.for_each([this](const OpenSpan& span) { copies_.push_back(*span.record); });
  } catch (const std::bad_alloc&) {
    copies_.clear();
  }
  // [owner] In a forked child: all blocks belong to the parent. Open spans end in their copies.
  void leave_to_parent() {
    log_.leave_to_parent();
    arena_.leave_to_parent();
    if (copies_.size() != open_.size()) open_.erase(0, open_.size());
    own_copies_.swap(copies_);
    Record* copy = own_copies_.data();
    open_.for_each([&](OpenSpan& span) {
      if (span.record != &dropped_span_) span.record = copy;
      ++copy;
    });
  }

  // [reader, holding the registry's mutex] Releases blocks whose records are in segments, except those with
  // needed parts.
  template <typename Sweep>
  void release_spent(uint64_t drained, Sweep needed) {
    Arena::Releasing arena(arena_, /*only_spent*/ true);
    log_.release_spent(drained, needed, [&](uint64_t first, uint64_t last) { arena.keep(first, last); });
    arena.keep(UINT64_MAX, UINT64_MAX);
  }
  // [reader, holding the registry's mutex] Releases blocks without needed parts.
  template <typename Sweep>
  void release_unneeded(Sweep needed) {
    Arena::Releasing arena(arena_);
    log_.release_unneeded(needed, [&](uint64_t first, uint64_t last) { arena.keep(first, last); });
  }

  NameCache names;               // [owner]
  const uint64_t number;         // in order of creation
  int64_t system_thread_id;      // constant, except for the forking thread in a child
  const uint64_t native_thread;  // pthread_self(), Python's identifier of threads
  uint64_t python_thread = 0;    // Python's unique id of its state; 0: none at the first event
  std::atomic<uint64_t> torch_thread_id{0};
  std::atomic<bool> finished{false};  // the thread has ended
  // A pointer: torch before 2.7 has another std::string than this library, and the bridge, compiled like
  // torch, reads the fields below.
  const std::unique_ptr<const std::string> name;
  // The program's name of the thread once known; the recorder sets it once.
  std::atomic<const std::string*> program_name{nullptr};

 private:
  Record* next_record() {
    return log_.next_record([this](bool elsewhere) {
      if (elsewhere) arena_.leave_block();
      return arena_.current_block();
    });
  }

  [[gnu::noinline]] void count_loss(std::atomic<uint64_t>& counter, Loss what) {
    count_one(counter);
    pool_.count_loss(static_cast<uint32_t>(number), what);
  }

  static void count_one(std::atomic<uint64_t>& counter) {
    counter.store(counter.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
  }

  static void finish(Record* record, uint64_t ticks, SpanState how = SpanState::kClosed) {
    record->store_end(ticks);
    record->store_state(how);
  }

  [[gnu::noinline]] void close_out_of_order(uint64_t key, uint64_t ticks, EndOf what) {
    size_t above = open_.size();
    while (above > 0 && open_[above - 1].key != key) --above;
    const OpenSpan* const open = above == 0 ? nullptr : &open_[above - 1];
    if (take_abandoned(key, open) || open == nullptr) {
      append_end(key, ticks, what, what == EndOf::kSpan ? 0 : thread_of(key));
      return;
    }
    finish(open->record, ticks);
    size_t running = above;
    while (running < open_.size() && !continues(open_[running], *open->record)) abandon(open_[running++]);
    open_.erase(above - 1, running);
  }

  // Whether this span, and so its inner spans, continues when `around` ends.
  bool continues(const OpenSpan& span, const Record& around) const {
    if (is_call(around.kind) || !is_call(span.record->kind)) return false;
    return (span.key & kWatchedCall) == 0 || calls_are_watched_->load(std::memory_order_relaxed);
  }

  void abandon(const OpenSpan& span) {
    span.record->store_state(SpanState::kAbandoned);
    if (abandoned_.size() == kMaxAbandoned)
      abandoned_.erase(abandoned_.begin(), abandoned_.begin() + kMaxAbandoned / 2);
    try {
      abandoned_.push_back(span);
    } catch (const std::bad_alloc&) {
      count_loss(dropped_others_, Loss::kOther);  // its end, if any, will count as another span's
    }
  }

  // A key is an address and may be reused. Whether the latest span with this key has left the stack, and is
  // not the earlier one still there (which may have ended on another thread).
  bool take_abandoned(uint64_t key, const OpenSpan* open) {
    for (size_t i = abandoned_.size(); i-- > 0;) {
      if (abandoned_[i].key != key) continue;
      if (open != nullptr && static_cast<int32_t>(abandoned_[i].index - open->index) < 0) return false;
      abandoned_.erase(abandoned_.begin() + static_cast<ptrdiff_t>(i));
      return true;
    }
    return false;
  }

  // Functions end on the thread that runs them; any thread may end a source's own span.
  uint64_t thread_of(uint64_t key) const { return (key & kWatchedCall) != 0 ? native_thread : 0; }

  void append_end(uint64_t key, uint64_t ticks, EndOf what, uint64_t thread) {
    Record* record = append(RecordKind::kClose);
    if (record == nullptr) return;
    record->ticks = ticks;
    record->close = {key, thread, what};
    publish();
  }

  static constexpr size_t kMaxAbandoned = 4096;  // annotations without an exit would add up
  std::vector<OpenSpan> abandoned_;              // [owner] left the stack before their ends, oldest first
  BlockPool& pool_;
  Record dropped_span_{};  // gets the ends of dropped spans
  std::atomic<uint64_t> dropped_spans_{0};
  std::atomic<uint64_t> dropped_allocations_{0};
  std::atomic<uint64_t> dropped_others_{0};
  std::vector<Record> copies_;      // [owner] of the open spans at the last fork
  std::vector<Record> own_copies_;  // [owner] in a forked child: these get the ends
};

}  // namespace opscope
