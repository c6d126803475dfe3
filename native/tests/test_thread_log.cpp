// Records of one thread: spans that end in order, out of order, on other threads, or never; names.
#include <cstdlib>
#include <map>
#include <new>
#include <string>
#include <vector>

#include "check.h"
#include "log/log_view.h"
#include "log/name_table.h"
#include "log/needed_records.h"
#include "log/thread_log.h"

namespace opscope::tests {
size_t thread_log_bytes_in_the_older_abi();  // in older_abi_layout.cpp
}  // namespace opscope::tests

using namespace opscope;

namespace {

size_t largest_allocation = SIZE_MAX;  // larger ones fail

void* allocate(size_t bytes) { return bytes > largest_allocation ? nullptr : std::malloc(bytes); }

}  // namespace

[[gnu::noinline]] void* operator new(size_t bytes) {
  void* memory = allocate(bytes);
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}
[[gnu::noinline]] void* operator new[](size_t bytes) { return operator new(bytes); }
[[gnu::noinline]] void* operator new(size_t bytes, const std::nothrow_t&) noexcept { return allocate(bytes); }
[[gnu::noinline]] void* operator new[](size_t bytes, const std::nothrow_t&) noexcept {
  return allocate(bytes);
}
[[gnu::noinline]] void operator delete(void* memory) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete[](void* memory) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete(void* memory, size_t) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete[](void* memory, size_t) noexcept { std::free(memory); }

namespace {

struct NoMemory {
  explicit NoMemory(size_t largest) { largest_allocation = largest; }
  ~NoMemory() { largest_allocation = SIZE_MAX; }
};

struct Log {
  BlockPool pool;
  std::atomic<bool> calls_are_watched{true};
  ThreadLog thread{pool, 0, 1, 1, "test", calls_are_watched};
  uint64_t ticks = 100;

  void open(uint64_t key, RecordKind kind = RecordKind::kAnnotation) {
    Record* record = thread.open_span(key);
    if (record == nullptr) return;
    record->kind = kind;
    record->ticks = ticks++;
    thread.publish_span();
  }
  void close(uint64_t key) { thread.close_span(key, ticks++); }
  const Record& at(size_t index) const { return blocks_from<Chunk>(thread.log().head())[0]->records[index]; }
  size_t size() const { return thread.log().size(); }
};

struct NamesJournal {
  BlockPool pool;
  Journal journal{pool, 0};
};
struct Names : NamesJournal, NameTable {
  explicit Names(size_t max_bytes = SIZE_MAX) : NameTable(journal, max_bytes) {}
};

}  // namespace

TEST(an_end_takes_what_was_never_ended_above_it_off_the_stack) {
  Log log;
  log.open(1);
  log.open(2);
  log.open(3);
  log.close(1);
  CHECK_SAME(log.thread.depth(), 0u);
  CHECK(log.at(0).load_state() == SpanState::kClosed);
  CHECK(log.at(1).load_state() == SpanState::kAbandoned);
  CHECK(log.at(2).load_state() == SpanState::kAbandoned);
  CHECK_SAME(log.at(1).load_end(), 2u);  // still the key
  log.open(4);
  CHECK_SAME(log.at(3).parent, kNoParent);
  // An abandoned span may still end. Its record may be gone by then, so the end is a separate record.
  log.close(2);
  CHECK(log.at(4).kind == RecordKind::kClose);
  CHECK_SAME(log.at(4).load_end(), 2u);
  CHECK_SAME(log.at(4).parent, 3u);
}

TEST(results_belong_to_their_span_though_what_is_inside_is_open) {
  Log log;
  log.open(1);
  log.open(2);
  Record* inner = log.thread.append_results(2);
  log.thread.publish();
  Record* outer = log.thread.append_results(1);
  log.thread.publish();
  CHECK_SAME(inner->parent, 1u);
  CHECK_SAME(outer->parent, 0u);
  CHECK(outer->kind == RecordKind::kOutputs);
  CHECK(log.thread.append_results(3) == nullptr);  // opened on another thread
  CHECK_SAME(log.size(), 4u);
}

TEST(a_call_that_ends_what_it_runs_in_goes_on) {
  Log log;
  log.open(1);
  log.open(2);
  log.open(3, RecordKind::kPythonCall);
  log.open(4, RecordKind::kCCall);
  log.close(1);
  CHECK(log.at(1).load_state() == SpanState::kAbandoned);
  CHECK_SAME(log.thread.depth(), 2u);
  CHECK_SAME(log.thread.current_span(), 3u);
  log.close(4);
  log.open(5);
  CHECK_SAME(log.at(4).parent, 2u);
  log.close(3);  // spans begun in the call end with it
  CHECK(log.at(2).load_state() == SpanState::kClosed);
  CHECK(log.at(4).load_state() == SpanState::kAbandoned);
  CHECK_SAME(log.thread.depth(), 0u);
}

TEST(a_call_whose_end_is_not_watched_ends_with_its_caller) {
  Log log;
  log.calls_are_watched = false;
  log.open(1);
  log.open(kWatchedCall | 2, RecordKind::kPythonCall);
  log.close(1);
  CHECK_SAME(log.thread.depth(), 0u);
  CHECK(log.at(1).load_state() == SpanState::kAbandoned);
  log.open(3);
  log.open(4, RecordKind::kModuleCall);  // its beginner ends it
  log.close(3);
  CHECK_SAME(log.thread.depth(), 1u);
  log.close(4);
  CHECK(log.at(3).load_state() == SpanState::kClosed);
}

TEST(a_call_that_left_the_stack_still_ends) {
  Log log;
  log.open(1, RecordKind::kPythonCall);
  log.open(2, RecordKind::kCCall);
  log.close(1);
  log.thread.close_if_begun(2, log.ticks++);
  CHECK_SAME(log.size(), 3u);
  CHECK(log.at(2).kind == RecordKind::kClose);
  CHECK(log.at(2).close.what == EndOf::kPythonCall);
  log.thread.close_if_begun(2, log.ticks++);
  CHECK_SAME(log.size(), 3u);
}

TEST(calls_above_a_place_in_the_stack_end_before_what_goes_on_above_them) {
  Log log;
  log.open(1, RecordKind::kPythonCall);
  log.open(2, RecordKind::kPythonCall);
  log.open(3, RecordKind::kOperator);
  log.open(4, RecordKind::kCCall);
  log.thread.leave_calls_above(1, log.ticks += 10);
  CHECK_SAME(log.thread.depth(), 2u);
  CHECK(log.thread.is_top(3));
  CHECK(log.at(0).load_state() == SpanState::kOpen);
  CHECK_SAME(log.at(1).load_end(), log.at(2).ticks);
  CHECK_SAME(log.at(3).load_end(), log.ticks);
}

TEST(ends_that_may_belong_to_nothing) {
  Log log;
  log.open(1);
  log.thread.close_if_begun(2, 5);
  CHECK_SAME(log.size(), 1u);
  log.open(2);
  log.thread.close_if_begun(1, log.ticks++);
  CHECK(log.at(0).load_state() == SpanState::kClosed);
  CHECK_SAME(log.thread.depth(), 0u);
  log.open(3);
  CHECK(log.thread.is_top(3));
  log.close(3);
}

TEST(a_dropped_span_is_counted_once_and_leaves_the_others_alone) {
  Log log;
  log.pool.set_budget(4 * kBlockBytes);
  log.open(1);
  for (size_t i = 0; i < 4 * Chunk::kRecords - 1; ++i) {
    log.open(1000 + i, RecordKind::kOperator);
    log.close(1000 + i);
  }
  CHECK_SAME(log.thread.dropped().spans, 0u);
  // Two nested spans find no memory: their ends arrive, and no other record is lost.
  log.open(2);
  log.open(3);
  CHECK_SAME(log.thread.current_span(), 0u);
  log.close(3);
  log.close(2);
  CHECK_SAME(log.thread.dropped().spans, 2u);
  CHECK_SAME(log.size(), 4 * Chunk::kRecords);
  CHECK_SAME(log.thread.depth(), 1u);
  const NeededParts nothing;
  log.thread.release_unneeded(NeededSweep(nothing));
  log.open(4);
  CHECK_SAME(log.thread.dropped().spans, 2u);
  CHECK_SAME(log.thread.depth(), 2u);
  log.close(4);
  log.close(1);
  CHECK(log.at(0).load_state() == SpanState::kClosed);
}

TEST(a_span_whose_key_a_dropped_one_shares_is_not_ended_for_it) {
  Log log;
  log.pool.set_budget(4 * kBlockBytes);
  log.open(1);
  while (log.thread.dropped().spans == 0) log.open(2, RecordKind::kOperator);
  log.open(1);
  log.close(1);
  CHECK(log.at(0).load_state() == SpanState::kOpen);
}

TEST(a_span_inside_the_recording_of_another_is_dropped_and_harms_neither) {
  Log log;
  Record* outer = log.thread.open_span(1);
  outer->kind = RecordKind::kOperator;
  log.open(2);
  CHECK(log.thread.append(RecordKind::kAllocate) == nullptr);
  log.close(2);
  outer->ticks = log.ticks++;
  log.thread.publish_span();
  log.open(3);
  log.close(3);
  log.close(1);
  CHECK_SAME(log.size(), 2u);
  CHECK_SAME(log.thread.dropped().spans, 1u);
  CHECK_SAME(log.thread.dropped().allocations, 1u);
  CHECK_SAME(log.at(1).parent, 0u);
  CHECK(log.at(0).load_state() == SpanState::kClosed);
}

TEST(spans_left_open_are_taken_off_the_stack_without_memory_too) {
  Log log;
  for (uint64_t key = 1; key <= 20; ++key) log.open(key);
  const NoMemory none(0);
  log.close(1);
  CHECK_SAME(log.thread.depth(), 0u);
  CHECK_SAME(log.thread.dropped().others, 19u);
}

TEST(a_name_without_memory_is_no_name) {
  Names names;
  const uint32_t known = names.intern("known");
  const std::string text(5000, 'x');
  {
    const NoMemory none(1000);
    CHECK_SAME(names.intern(text), kNoName);
    CHECK_SAME(names.intern("known"), known);
  }
  const uint32_t id = names.intern(text);
  CHECK(id != kNoName);
  CHECK_SAME(names.at(id).text, text);
}

TEST(calls_whose_ends_were_not_watched_leave_the_stack_alone) {
  Log log;
  log.open(1, RecordKind::kPythonCall);
  log.open(2, RecordKind::kAnnotation);
  log.open(3, RecordKind::kPythonCall);
  std::vector<uint64_t> asked;
  log.thread.leave_spans(log.ticks++, [&](uint64_t key, const Record& record) {
    asked.push_back(key);
    return record.kind == RecordKind::kPythonCall;
  });
  CHECK(asked == (std::vector<uint64_t>{3, 2, 1}));
  CHECK_SAME(log.thread.depth(), 1u);
  CHECK(log.thread.is_top(2));
  CHECK(log.at(0).load_state() == SpanState::kClosed);
  CHECK(log.at(2).load_state() == SpanState::kClosed);
  log.close(2);
  CHECK(log.at(1).load_state() == SpanState::kClosed);
}

TEST(a_bridge_of_the_older_abi_sees_the_same_thread_log) {
  CHECK_SAME(opscope::tests::thread_log_bytes_in_the_older_abi(), sizeof(ThreadLog));
}

int main() { return opscope::tests::run_all(); }
